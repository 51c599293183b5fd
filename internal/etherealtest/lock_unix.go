//go:build unix

package etherealtest

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock waits until no other process holds the lock, and returns what gives it back.
func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil //nolint:errcheck // the lock goes with it
}
