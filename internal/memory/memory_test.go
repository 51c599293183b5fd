package memory

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

func TestFreeIn(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	machine := file("MemTotal: 1000 kB\nMemAvailable:     500 kB\n")
	for _, c := range []struct {
		name  string
		root  fstest.MapFS
		want  int64
		known bool
	}{
		{"nothing known", fstest.MapFS{}, 0, false},
		{"no control group", fstest.MapFS{"proc/meminfo": machine}, 500 << 10, true},
		{"no limit", fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n"),
			"sys/fs/cgroup/a/b/memory.current": file("1000\n"),
		}, 500 << 10, true},
		{"its parent's limit", fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("1:cpu:/x\n0::/a/b\n"), "sys/fs/cgroup/a/memory.max": file("9000\n"),
			"sys/fs/cgroup/a/memory.current": file("5000\n"), "sys/fs/cgroup/a/memory.stat": file("anon 1\ninactive_file 1000\n"),
		}, 5000, true},
		{"version 1", fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("4:memory:/a\n3:cpuset:/\n0::/\n"), "sys/fs/cgroup/memory/a/memory.limit_in_bytes": file("9000\n"),
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": file("5000\n"), "sys/fs/cgroup/memory/a/memory.stat": file("total_inactive_file 500\n"),
		}, 4500, true},
		{"version 1 without a limit", fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("4:memory:/\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n"),
		}, 500 << 10, true},
		{"over its limit, at the root of a container", fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("9000\n"),
			"sys/fs/cgroup/memory.current": file("9500\n"),
		}, 0, true},
	} {
		if free, known := freeMemoryIn(c.root); free != c.want || known != c.known {
			t.Errorf("%s: %d, %v, want %d, %v", c.name, free, known, c.want, c.known)
		}
	}
}

// TestMemoryLimit is the smaller of GOMEMLIMIT and nine tenths of the control group.
func TestMemoryLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		asked int64
		group uint64
		err   error
		want  int64
	}{
		{"nothing asked, no group", math.MaxInt64, 0, memlimit.ErrNoLimit, math.MaxInt64},
		{"nothing asked, a group", math.MaxInt64, 1000 << 20, nil, 900 << 20},
		{"more asked than the group has", 4 << 30, 1000 << 20, nil, 900 << 20},
		{"less asked than the group has", 500 << 20, 1000 << 20, nil, 500 << 20},
		{"a group too small to be followed", math.MaxInt64, 1 << 20, nil, math.MaxInt64},
		{"a group that cannot be read", 4 << 30, 0, memlimit.ErrNoCgroup, 4 << 30},
	} {
		if got := memoryLimit(c.asked, func() (uint64, error) { return c.group, c.err }); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
