package hugepages

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// advised returns how many KB of this process the kernel was asked to back by huge
// pages, and how many it does.
func advised(t *testing.T) (asked, given int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	size, huge := 0, 0
	for line := range strings.Lines(string(text)) {
		switch name, rest, _ := strings.Cut(line, ":"); name {
		case "Size":
			fmt.Sscan(rest, &size) //nolint:errcheck // the kernel writes numbers
		case "AnonHugePages":
			fmt.Sscan(rest, &huge) //nolint:errcheck // likewise
		case "VmFlags":
			if slices.Contains(strings.Fields(rest), "hg") {
				asked, given = asked+size, given+huge
			}
		}
	}
	return asked, given
}

func TestPrefer(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil {
		t.Skipf("no huge pages here: %v", err)
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
	asked, given := advised(t)
	t.Logf("asked for %d KB, %d KB given", asked, given) // what it gives is the kernel's to say
	if asked < size>>10 {
		t.Errorf("asked for %d KB, want %d", asked, size>>10)
	}
	runtime.KeepAlive(small)
}
