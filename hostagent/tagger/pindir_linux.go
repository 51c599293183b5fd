package tagger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
)

// pinDirectory makes the folder of [Config.PinDir] and returns its path without symbolic links. It refuses a folder
// in which another user could put maps or links: these would then label this host's packets.
func pinDirectory(dir string) (string, error) {
	bad := func(why string, args ...any) error {
		return fmt.Errorf("%w: tagger: pin directory %s: %s; name one below a folder of root's or of this user's, such as "+
			"/sys/fs/bpf/ethereal", labeller.ErrInvalid, dir, fmt.Sprintf(why, args...))
	}
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", explain("make the pin directory", err)
		}
		info, err = os.Lstat(dir)
	}
	if err != nil {
		return "", explain("look at the pin directory", err)
	}
	if !info.IsDir() {
		return "", bad("it is %v, not a folder", info.Mode().Type())
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", explain("look at the pin directory", err)
	}
	for at := real; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return "", explain("look at the pin directory", err)
		}
		owner, mode := info.Sys().(*syscall.Stat_t).Uid, info.Mode()
		switch others := mode.Perm() & 0o022; {
		case at == real && owner != 0 && owner != uint32(os.Geteuid()):
			return "", bad("it belongs to user %d", owner)
		case at == real && others != 0:
			return "", bad("others may write to it (%v)", mode)
		case others != 0 && mode&os.ModeSticky == 0:
			return "", bad("others may write to %s (%v), and so put another folder in its place", at, mode)
		case owner != 0 && owner != uint32(os.Geteuid()) && owner != overflowUser:
			return "", bad("%s belongs to user %d, who may put another folder in its place", at, owner)
		}
		if at == filepath.Dir(at) {
			return real, nil
		}
	}
}

// overflowUser owns, in a user namespace, files whose owner is outside it, such as the root directory.
const overflowUser = 65534
