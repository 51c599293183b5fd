//go:build unix

package deployment

import (
	"fmt"
	"os"
	"syscall"
)

// CheckOwner returns an error if dir is not a folder of this user or of root's, or if every user may write to it. Its
// files are then not to be believed: names of folders are public, and anybody may make one of that name. A symbolic
// link is no folder.
func CheckOwner(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, user := info.Sys().(*syscall.Stat_t).Uid, uint32(os.Geteuid())
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is no folder (%v); remove it, or name another", dir, info.Mode())
	case owner != user && owner != 0:
		return fmt.Errorf("%s belongs to user %d, and this is user %d; run the command as that user, or name another folder", dir, owner, user)
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("every user may write to %s (%v): chmod o-w it, or name another folder", dir, info.Mode())
	}
	return nil
}
