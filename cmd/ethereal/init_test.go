package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// TestInit: what init writes is right, runs, and holds; nothing is overwritten.
func TestInit(t *testing.T) {
	t.Chdir(t.TempDir())
	do := func(want int, line string) string {
		t.Helper()
		var out bytes.Buffer
		a := &app{stdout: &out, stderr: &out, version: "v", run: virtual.Runner()}
		if code := a.execute(t.Context(), strings.Fields(line)); code != want {
			t.Fatalf("ethereal %s: exit code %d\n%s", line, code, out.String())
		}
		return out.String()
	}
	do(exitOK, "init first")
	do(exitOK, "topo --kind fat-tree --k 4 --rate 100Gb/s")
	if err := os.WriteFile("k4.yaml", []byte("kind: fat-tree\nk: 4\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	do(exitOK, "init lab/second --fabric k4.yaml")
	if _, err := os.Stat("lab/second/fabric.yaml"); err == nil {
		t.Error("a fabric was written beside the one that was named")
	}
	for _, dir := range []string{"first", "lab/second"} {
		fabricFile := "first/fabric.yaml"
		if dir != "first" {
			fabricFile = "k4.yaml"
		}
		said := do(exitOK, "validate "+fabricFile+" "+dir+"/scenario.yaml "+dir+"/experiment.yaml "+dir+"/targets.yaml")
		if !strings.Contains(said, "an experiment of 1 run\n") || strings.Contains(said, "not compared") {
			t.Errorf("%s: validate says\n%s", dir, said)
		}
		do(exitOK, "run -q "+dir+"/experiment.yaml")
	}
	do(exitOK, "run -q first/scenario.yaml --seeds 1 --schemes ethereal")

	before, err := os.ReadFile("first/scenario.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove("first/fabric.yaml"); err != nil {
		t.Fatal(err)
	}
	if said := do(exitInput, "init first"); !strings.Contains(said, filepath.Join("first", "scenario.yaml")+" is there already") {
		t.Errorf("init over files says\n%s", said)
	}
	after, err := os.ReadFile("first/scenario.yaml")
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("init has changed a file: %v", err)
	}
	if _, err := os.Stat("first/fabric.yaml"); err == nil {
		t.Error("a file was written although another was there")
	}
}
