//go:build unix

package hostprocess

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processUsage returns the CPU time that the process has used, in ns, and its memory in bytes; 0: unknown.
func processUsage() (cpu, rss int64) {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err == nil {
		cpu = ru.Utime.Nano() + ru.Stime.Nano()
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			rss = pages * int64(os.Getpagesize())
		}
	}
	return cpu, rss
}
