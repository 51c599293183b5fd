package balance

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// TestSchemeIsTwoFiles: a scheme is a file of this package and a line of Specs, and a rate control one of package
// transport and of its Specs. No other Go file of the project, tests apart, knows one by its name, but for the two of
// either that stand for all: the default, and none at all (hashing; line rate).
func TestSchemeIsTwoFiles(t *testing.T) {
	root := filepath.Join("..", "..")
	var names []string // as they are written in Go
	for _, name := range Names() {
		if name != Ethereal && name != ECMP {
			names = append(names, strconv.Quote(name))
		}
	}
	for _, name := range transport.Names(transport.RateControl) {
		if c := transport.Control(name); c != transport.DCTCP && c != transport.NoControl {
			names = append(names, strconv.Quote(name))
		}
	}
	names = append(names, constants(t, ".", Ethereal, ECMP)...)
	names = append(names, constants(t, filepath.Join(root, "roce", "transport"), string(transport.DCTCP), string(transport.NoControl))...)
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	transports, err := filepath.Abs(filepath.Join(root, "roce", "transport"))
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if dir, err := filepath.Abs(filepath.Dir(path)); err != nil || dir == here || dir == transports {
			return err
		}
		if strings.HasSuffix(filepath.ToSlash(path), "testbed/report/look.go") {
			return nil // colours; a scheme that is not there gets one as well
		}
		if strings.Contains(filepath.ToSlash(path), "testbed/importer/") {
			return nil // formats of other simulators, some of which are named as a scheme is
		}
		if strings.Contains(filepath.ToSlash(path), "testbed/cases/") {
			return nil // a seed draws the same case for ever: its lists do not follow the Specs
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range names {
			is := name[0] != '"'
			for line := range strings.Lines(string(text)) {
				code, _, _ := strings.Cut(line, "//")
				_, after, found := strings.Cut(code, name)
				if !found || is && after != "" && (after[0] >= 'A' && after[0] <= 'Z' || after[0] >= 'a' && after[0] <= 'z') {
					continue
				}
				t.Errorf("%s knows %s; ask its Spec", path, name)
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

// constants returns the constants of a package that are names of schemes or rate controls, as other packages write
// them; those of some values apart.
func constants(t *testing.T, dir string, apart ...string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	known := append(Names(), transport.Names(transport.RateControl)...)
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range constant.FindAllStringSubmatch(string(text), -1) {
			if slices.Contains(known, m[2]) && !slices.Contains(apart, m[2]) {
				names = append(names, filepath.Base(abs)+"."+m[1])
			}
		}
	}
	if len(names) < 5 {
		t.Fatalf("%s: only %v", dir, names)
	}
	return names
}

// constant is a line of a declaration: name and value.
var constant = regexp.MustCompile(`(?m)^(?:const)?[\t ]+([A-Z]\w*)[\t ]+(?:Control )?= "([a-z-]+)"`)
