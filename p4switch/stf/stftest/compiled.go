package stftest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Compiled holds a folder's compiled programs to their sources: its SHA256SUMS lists both as they were when p4c-bm2-ss
// made the one of the other (p4c-bm2-ss --arch v1model -o X.json X.p4; sha256sum *.p4 *.json).
func Compiled(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 2 {
			t.Fatalf("%s/SHA256SUMS: bad line %q", dir, line)
		}
		b, err := os.ReadFile(filepath.Join(dir, f[1]))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != f[0] {
			t.Errorf("%s/%s changed since it was compiled: compile it again", dir, f[1])
		}
		listed[f[1]] = true
	}
	sources, err := filepath.Glob(filepath.Join(dir, "*.p4"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources in %s: %v", dir, err)
	}
	for _, s := range sources {
		base := strings.TrimSuffix(filepath.Base(s), ".p4")
		if !listed[base+".p4"] || !listed[base+".json"] {
			t.Errorf("%s: %s or what was compiled of it is not listed", dir, base)
		}
	}
}
