package kernel

import "golang.org/x/sys/unix"

// Now reads the kernel's clock that programs see, in ns.
func Now() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return uint64(ts.Nano())
}
