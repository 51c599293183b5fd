package hugepages

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// anonHuge returns how many KB of this process huge pages back, by the kernel's
// account.
func anonHuge(t *testing.T) (kb int) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps_rollup")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if _, err := fmt.Sscanf(s.Text(), "AnonHugePages: %d kB", &kb); err == nil {
			return kb
		}
	}
	t.Skip("the kernel does not tell of huge pages")
	return 0
}

func TestPrefer(t *testing.T) {
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(mode), "[never]") {
		t.Skipf("no huge pages here: %s %v", mode, err)
	}
	const size = 64 << 20
	if err := Prefer(size); err != nil {
		t.Fatal(err)
	}
	var small [][]byte // nothing that is aligned, as a program's heap
	for range size / 2 / 10_000 {
		b := make([]byte, 10_000)
		b[0] = 1
		small = append(small, b)
	}
	kb := anonHuge(t)
	if kb == 0 {
		t.Skip("the kernel gave no huge page: its memory is in pieces, or a cgroup forbids them")
	}
	if kb < 1024*size/4>>20 {
		t.Errorf("%d KB in huge pages with a heap of %d", kb, size/2>>10)
	}
	runtime.KeepAlive(small)
}
