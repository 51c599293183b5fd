package monotonic

import (
	"os"
	"strings"
)

// Name returns a name of the monotonic clock: processes with the same name share it. On Linux it stands for one boot of
// one kernel, and one time namespace. Empty: unknown.
func Name() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/time")
	if err != nil {
		namespace = "" // a kernel without time namespaces
	}
	return strings.TrimSpace(string(boot)) + " " + namespace
}
