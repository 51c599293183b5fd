package stf_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/stf"
	"github.com/ethereal-fabric/ethereal/p4switch/stf/stftest"
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

func TestCompiled(t *testing.T) {
	for _, dir := range []string{"testdata", "../interp/testdata"} {
		stftest.Compiled(t, dir)
	}
}
