package docstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// largestFile is what a tracked file may have, in bytes: the compiled P4 program is the largest, at 1.6 MB.
const largestFile = 2 << 20

// TestTrackedFiles: nothing large is in the repository, such as a compiled test, of which each clone would have a copy
// for ever.
func TestTrackedFiles(t *testing.T) {
	out, err := exec.Command("git", "-C", "..", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("this tree is not git's: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join("..", name))
		if err != nil {
			continue // removed, and not committed yet
		}
		if info.Size() > largestFile {
			t.Errorf("%s has %d MB, and no file may have more than %d: git rm it; .gitignore keeps what is built away", name, info.Size()>>20, largestFile>>20)
		}
	}
}
