package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
	"github.com/ethereal-fabric/ethereal/p4src"
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

// TestInitProfile: targets of each kind of switch are right as they are written, as far as they can be checked. PINS
// takes a P4Info of the switches.
func TestInitProfile(t *testing.T) {
	t.Chdir(t.TempDir())
	do := func(want int, line string) string {
		t.Helper()
		var out bytes.Buffer
		a := &app{stdout: &out, stderr: &out, version: "v"}
		if code := a.execute(t.Context(), strings.Fields(line)); code != want {
			t.Fatalf("ethereal %s: exit code %d\n%s", line, code, out.String())
		}
		return out.String()
	}
	for _, kind := range kinds.All() {
		k := targets.NewProfile(kind)
		do(exitOK, "init "+k.Name+" --profile "+k.Name)
		want, code := "", exitOK
		switch k.Program().Name {
		case "tna", "t2na":
			want = "programs." + k.Program().Name + " has no bf_rt, context, binary: not checked"
		case "sai":
			want, code = "programs.sai.p4info", exitInput
		}
		if said := do(code, "validate "+k.Name+"/fabric.yaml "+k.Name+"/targets.yaml"); !strings.Contains(said, want) {
			t.Errorf("%s: validate says\n%s", k.Name, said)
		}
		if p4src.ChipP4Info(k.Program().Name) == nil {
			continue
		}
		files := " --fabric " + k.Name + "/fabric.yaml --targets " + k.Name + "/targets.yaml"
		// Nothing listens at port 9 of this machine.
		text, err := os.ReadFile(k.Name + "/targets.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(k.Name+"/targets.yaml", regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAll(text, []byte("127.0.0.1:9")), 0o666); err != nil {
			t.Fatal(err)
		}
		said := do(exitRun, "controller --dry-run"+files)
		for _, want := range []string{
			"has no bf_rt, context, binary: not checked", "tor0: insert route_v4 10.0.0.", "spine1: insert route_v4",
			"tor0: push the pipeline, once it is compiled", "6 could not be read: these are the updates of empty switches",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: the dry run lacks %q:\n%s", k.Name, want, said)
			}
		}
		if strings.Contains(said, "port_of_uplink") {
			t.Errorf("%s: a table that the program does not have", k.Name)
		}
		if said := do(exitInput, "controller"+files); !strings.Contains(said, "compile it") {
			t.Errorf("%s: the controller says\n%s", k.Name, said)
		}
		if said := do(exitRun, "preflight"+files); !strings.Contains(said, "programs."+k.Program().Name+" has no bf_rt") {
			t.Errorf("%s: preflight says\n%s", k.Name, said)
		}
		if err := os.MkdirAll(k.Name+"/out/pipe", 0o777); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"bf-rt.json", "pipe/context.json", "pipe/tofino.bin"} {
			if err := os.WriteFile(k.Name+"/out/"+file, []byte("{}"), 0o666); err != nil {
				t.Fatal(err)
			}
			if said := do(exitInput, "validate "+k.Name+"/fabric.yaml "+k.Name+"/targets.yaml"); !strings.Contains(said, "programs."+k.Program().Name) {
				t.Errorf("%s: {} as %s: validate says\n%s", k.Name, file, said)
			}
			if err := os.Remove(k.Name + "/out/" + file); err != nil {
				t.Fatal(err)
			}
		}
	}
}
