package balance

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestSchemeIsTwoFiles: a scheme is a file of this package and a line of Specs. No
// other Go file of the project, tests apart, knows a scheme by its name, but for the
// two that stand for all: what hosts do unless told otherwise, and hashing.
func TestSchemeIsTwoFiles(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	var names []string // as they are written in Go
	for _, name := range Names() {
		if name != Ethereal && name != ECMP {
			names = append(names, strconv.Quote(name))
		}
	}
	for _, c := range []string{"MPRDMA", "MPRDMAClocked", "Spray", "REPS", "DRB", "Hopper", "Flowcut", "LPT", "SwitchSpray", "SwitchSprayRandom", "JSQ", "Flowlet", "Ofan"} {
		names = append(names, "balance."+c)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if dir, err := filepath.Abs(filepath.Dir(path)); err != nil || dir == here {
			return err
		}
		if strings.HasSuffix(filepath.ToSlash(path), "testbed/report/look.go") {
			return nil // colours; a scheme that is not there gets one as well
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range names {
			is := strings.HasPrefix(name, "balance.")
			for line := range strings.Lines(string(text)) {
				code, _, _ := strings.Cut(line, "//")
				_, after, found := strings.Cut(code, name)
				if !found || is && after != "" && (after[0] >= 'A' && after[0] <= 'Z' || after[0] >= 'a' && after[0] <= 'z') {
					continue
				}
				t.Errorf("%s knows %s; ask its balance.Spec", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
}
