package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// TestReplayRun has the virtual world suffer what a controller of real processes logged:
// links cut and restored, and the controller killed and started again.
func TestReplayRun(t *testing.T) {
	const dir = "../../testbed/scenario/replay/testdata/"
	out := filepath.Join(t.TempDir(), "run.jsonl")
	run := func(more ...string) (int, string) {
		var stdout, errs bytes.Buffer
		a := &app{stdout: &stdout, stderr: &errs, run: virtual.Runner(), version: "test"}
		args := []string{"run", dir + "lab.yaml", "--schemes", "ethereal", "--replay", dir + "lab.jsonl", "--out", out}
		return a.execute(context.Background(), append(args, more...)), errs.String()
	}
	code, errs := run("--replay-from", "25s", "--replay-speed", "10000")
	if code != exitOK || !strings.Contains(errs, "replay: 34 changes of links and 4 of the control plane; 4 before the run, 0 after its deadline") {
		t.Fatalf("code %d: %s", code, errs)
	}
	file, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	results, err := report.Decode(file, out)
	if err != nil || len(results) != 1 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	r := results[0]
	if r.CCT == nil {
		t.Error("the collective did not finish")
	}
	kinds := map[report.Kind]int{}
	for _, e := range r.Timeline {
		kinds[e.Kind]++
		// The log's first cut after 25 s is at 28.36 s.
		if e.Kind == report.KindCut && kinds[e.Kind] == 1 && (e.Where != "tor2-spine1" || e.Time < 335 || e.Time > 337) {
			t.Errorf("the first cut: %+v", e)
		}
	}
	if kinds[report.KindCut] < 5 || kinds[report.KindRestore] < 5 || kinds[report.KindWrite] < 3 { // changes that come during a write are written together
		t.Errorf("timeline: %v", kinds)
	}

	for want, flags := range map[string][]string{
		"the first goes down at 13.26": {},
		"use --world virtual":          {"--world", "flow"},
		"speed":                        {"--replay-speed", "-1"},
		"no such file":                 {"--replay", "nowhere.jsonl"},
	} {
		if code, errs := run(flags...); code == exitOK || !strings.Contains(errs, want) {
			t.Errorf("%v: code %d: %s; want %q", flags, code, errs, want)
		}
	}
}
