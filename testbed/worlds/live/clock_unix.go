//go:build unix

package live

import "golang.org/x/sys/unix"

// Monotonic returns the time of CLOCK_MONOTONIC in ns, which all processes of the
// machine share.
func Monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}
