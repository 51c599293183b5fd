package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// smallScenario runs at once; %s is what a test adds.
const smallScenario = `name: small
fabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 1}
collectives: [{kind: all-to-all, bytes: 8kB}]
schemes: [ethereal]
%s
`

// tried runs a command line in a folder with small files, and returns its output.
func tried(t *testing.T, want int, line string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, run: virtual.Runner(), version: "v"}
	if code := a.execute(t.Context(), strings.Fields(line)); code != want {
		t.Fatalf("ethereal %s: exit code %d\n%s%s", line, code, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSeedIsNoCount: one seed above 1 is pointed out, and seed 0 refused. A size in kB is taken.
func TestSeedIsNoCount(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "five.yaml", fmt.Sprintf(smallScenario, "seeds: 5"))
	for _, command := range []string{"validate five.yaml", "run five.yaml"} {
		out, errs := tried(t, exitOK, command)
		if !strings.Contains(out+errs, "seeds: 5 is one seed, number 5; for 5 seeds write 1..5") {
			t.Errorf("%s: %s%s", command, out, errs)
		}
	}
	if _, errs := tried(t, exitOK, "run five.yaml --seeds 7"); strings.Contains(errs, "is one seed") {
		t.Errorf("a flag that means one seed: %s", errs)
	}
	write(t, "none.yaml", fmt.Sprintf(smallScenario, "seeds: 0"))
	if _, errs := tried(t, exitInput, "run none.yaml"); !strings.Contains(errs, "none.yaml:5:8: seeds") || !strings.Contains(errs, "seeds begin at 1") {
		t.Errorf("seed 0: %s", errs)
	}
}

// TestRunPrintsStatistics: several seeds are one line of the table, unless each run is asked for.
func TestRunPrintsStatistics(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "s.yaml", fmt.Sprintf(smallScenario, "seeds: 1..9"))
	out, _ := tried(t, exitOK, "run s.yaml -q")
	if n := strings.Count(out, "\n"); n > 8 || !strings.Contains(out, "median us") || !strings.Contains(out, "-o rows") {
		t.Errorf("%d lines:\n%s", n, out)
	}
	if rows, _ := tried(t, exitOK, "run s.yaml -q -o rows"); strings.Count(rows, "  ethereal ") != 9 {
		t.Errorf("rows:\n%s", rows)
	}
}

// TestNotifierOfRunningFabric: what a fabric that runs already cannot do is refused before anything is tried.
func TestNotifierOfRunningFabric(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "s.yaml", fmt.Sprintf(smallScenario, "failures: [{name: cut, notifiers: [gnmi], events: [{action: cut, link: tor0-spine0, at: 1us, detection: 1us}]}]"))
	if _, errs := tried(t, exitInput, "validate s.yaml --world mininet"); !strings.Contains(errs, "notifier gnmi: ") ||
		!strings.Contains(errs, "write notifiers: [all]") {
		t.Error(errs)
	}
	tried(t, exitOK, "validate s.yaml")
	write(t, "way.yaml", fmt.Sprintf(smallScenario,
		"failures: [{name: cut, notifiers: [all], events: [{action: cut, link: tor0-spine0, direction: up, at: 1us, detection: 1us}]}]"))
	if _, errs := tried(t, exitInput, "validate way.yaml --world mininet"); !strings.Contains(errs, "tor0-spine0: one direction of a link") {
		t.Error(errs)
	}
	tried(t, exitOK, "validate way.yaml")
}

// TestWrongKindOfFile: a file of another kind is recognised, and named with what reads it.
func TestWrongKindOfFile(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "fabric.yaml", "kind: fat-tree\nk: 4\n")
	write(t, "s.yaml", fmt.Sprintf(smallScenario, ""))
	write(t, "x.p4", "#include <core.p4>\n")
	for line, want := range map[string]string{
		"run fabric.yaml":                   "fabric.yaml is a file of the kind fabric, not a scenario: a scenario names it by fabric: FILE",
		"bench s.yaml":                      "s.yaml is a file of the kind scenario, not a sweep: ethereal run runs it",
		"switch test --program x.p4 x.stf":  "this is P4 source; compile it with p4c: p4c-bm2-ss --std p4-16 -o x.json x.p4",
		"switch x.p4 --grpc-server-addr :0": "beyond this machine",
	} {
		if _, errs := tried(t, exitInput, line); !strings.Contains(errs, want) {
			t.Errorf("ethereal %s: %s, want %q", line, errs, want)
		}
	}
	if _, errs := tried(t, exitRun, "switch x.p4"); !strings.Contains(errs, "this is P4 source") {
		t.Error(errs)
	}
}

// TestBenchEnds: a sweep ends with a table, its file and the next command.
func TestBenchEnds(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "s.yaml", fmt.Sprintf(smallScenario, ""))
	write(t, "sweep.yaml", "name: two\nparts: [{scenario: s.yaml, set: {seeds: 1..2}}]\n")
	out, errs := tried(t, exitOK, "bench sweep.yaml")
	if !strings.Contains(out, "median") || !strings.Contains(errs, "2 results in two.jsonl; next: ethereal report two.jsonl --html two.html") {
		t.Errorf("%s%s", out, errs)
	}
}

// TestInitNamesTheSwitches: init says how the switches of its targets are started.
func TestInitNamesTheSwitches(t *testing.T) {
	t.Chdir(t.TempDir())
	out, _ := tried(t, exitOK, "init first")
	for _, want := range []string{"ethereal switch --no-p4 --device-id ID -i 1@IFACE", "ethereal live up --fabric " + filepath.Join("first", "fabric.yaml")} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
}
