//go:build unix

package sweep

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks a file until it is closed. It reports false, with [ErrBusy], if another process has it. A file system
// without locks has none.
func tryLock(f *os.File) (free bool, err error) {
	if errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return false, ErrBusy
	}
	return true, nil
}
