// Package memory reports how much more memory this process may take, and returns unused memory to the system.
package memory

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	slashed "path"
	"strconv"
	"strings"
)

// Free returns how many more bytes of memory this process may use; known is false if that cannot be found out.
func Free() (bytes int64, known bool) { return freeMemoryIn(os.DirFS("/")) }

// memoryGroup names a control group's files of its limit and use, and its field of reclaimable cache.
type memoryGroup struct{ top, most, used, stat, cache string }

// memoryFiles are those of the two versions of control groups.
var memoryFiles = map[bool]memoryGroup{
	false: {"sys/fs/cgroup", "memory.max", "memory.current", "memory.stat", "inactive_file"},
	true:  {"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat", "total_inactive_file"},
}

// freeMemoryIn computes Free from /proc and /sys below root: the smaller of the machine's available memory and the rest
// in each control group around this process. known is false without /proc/meminfo.
func freeMemoryIn(root fs.FS) (free int64, known bool) {
	kB, ok := readField(root, "proc/meminfo", "MemAvailable:")
	if !ok {
		return 0, false
	}
	free = kB << 10
	eachGroup(root, func(g memoryGroup) {
		most, limited := readField(root, g.most, "")
		used, counted := readField(root, g.used, "")
		if !limited || !counted {
			return
		}
		cache, _ := readField(root, g.stat, g.cache)
		free = min(free, max(0, most-used+cache))
	})
	return free, true
}

// eachGroup calls f with the memory control groups around this process, the nearest first.
func eachGroup(root fs.FS, f func(memoryGroup)) {
	list, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(list)) { // number:controllers:/path; version 2 is 0::/path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || parts[1] != "" && parts[1] != "memory" {
			continue
		}
		g := memoryFiles[parts[1] == "memory"]
		for dir := slashed.Join(g.top, parts[2]); strings.HasPrefix(dir, g.top); dir = slashed.Dir(dir) {
			in := g
			in.most, in.used, in.stat = slashed.Join(dir, g.most), slashed.Join(dir, g.used), slashed.Join(dir, g.stat)
			f(in)
		}
	}
}

// readField returns the number after a word at the beginning of a file's line.
func readField(root fs.FS, name, word string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), word)
		if parts := strings.Fields(rest); ok && len(parts) > 0 {
			n, err := strconv.ParseInt(parts[0], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
