//go:build unix

// Package monotonic reads the clock that all processes of a machine share, also with the kernel's eBPF programs.
package monotonic

import "golang.org/x/sys/unix"

// Now returns the time of CLOCK_MONOTONIC, in ns; 0 if it cannot be read.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}
