package stf_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/stf"
)

// TestOwnPrograms plays the scripts in testdata: what p4c's samples cover, for
// machines without p4c. A script belongs to the program of its name, here or in
// the folder above.
func TestOwnPrograms(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.stf")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts in testdata: %v", err)
	}
	for _, script := range scripts {
		base := strings.TrimSuffix(filepath.Base(script), ".stf")
		t.Run(base, func(t *testing.T) {
			json, err := os.ReadFile("testdata/" + base + ".json")
			if os.IsNotExist(err) {
				json, err = os.ReadFile("../interp/testdata/" + base + ".json")
			}
			if err != nil {
				t.Fatal(err)
			}
			rep := play(t, json, script)
			if rep.Sent == 0 || rep.Expected == 0 {
				t.Errorf("%+v: the script checks nothing", rep)
			}
		})
	}
}

// play runs the script in a file against a compiled program, and reports what it
// finds wrong.
func play(t *testing.T, json []byte, script string) *stf.Report {
	t.Helper()
	prog, err := program.Load(json)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	sc, err := stf.Parse(filepath.Base(script), text)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := sc.Run(prog)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rep.Failures {
		t.Error(f)
	}
	return rep
}

// TestCompiled holds the committed programs to their sources: each folder's
// SHA256SUMS lists both as they were when p4c-bm2-ss made the one of the other
// (p4c-bm2-ss --arch v1model -o X.json X.p4; sha256sum *.p4 *.json).
func TestCompiled(t *testing.T) {
	for _, dir := range []string{"testdata", "../interp/testdata", "../ebpf/testdata"} {
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
}
