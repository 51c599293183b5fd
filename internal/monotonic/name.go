package monotonic

import (
	"os"
	"strings"
)

// Name names the clock: two processes for which it is the same share it. On Linux that takes one boot of one kernel, and one
// time namespace. Empty: not known.
func Name() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/time")
	if err != nil {
		namespace = "" // a kernel without them
	}
	return strings.TrimSpace(string(boot)) + " " + namespace
}
