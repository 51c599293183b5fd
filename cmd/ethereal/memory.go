package main

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	slashed "path"
	"strconv"
	"strings"
)

// freeMemory returns how much memory this process may still take.
func freeMemory() (bytes int64, known bool) { return freeIn(os.DirFS("/")) }

// memoryFiles are where the two versions of control groups say what of memory is allowed
// and used, and how much of that is a cache that is given back.
var memoryFiles = map[bool]struct{ top, most, used, stat, cache string }{
	false: {"sys/fs/cgroup", "memory.max", "memory.current", "memory.stat", "inactive_file"},
	true:  {"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat", "total_inactive_file"},
}

// freeIn reads it from /proc and /sys below root: what the machine has available, and
// what each control group around this process leaves. It is not known where there is no
// /proc/meminfo.
func freeIn(root fs.FS) (free int64, known bool) {
	kB, ok := field(root, "proc/meminfo", "MemAvailable:")
	if !ok {
		return 0, false
	}
	free = kB << 10
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return free, true
	}
	for line := range strings.Lines(string(groups)) { // number:controllers:/path; version 2 is 0::/path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || parts[1] != "" && parts[1] != "memory" {
			continue
		}
		files := memoryFiles[parts[1] == "memory"]
		for dir := slashed.Join(files.top, parts[2]); strings.HasPrefix(dir, files.top); dir = slashed.Dir(dir) {
			most, limited := field(root, slashed.Join(dir, files.most), "")
			used, counted := field(root, slashed.Join(dir, files.used), "")
			if !limited || !counted {
				continue
			}
			cache, _ := field(root, slashed.Join(dir, files.stat), files.cache)
			free = min(free, max(0, most-used+cache))
		}
	}
	return free, true
}

// field returns the number after a word at the beginning of a line of a file.
func field(root fs.FS, name, word string) (int64, bool) {
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
