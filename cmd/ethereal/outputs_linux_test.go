package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestOutIsTheScenario: an output that is the scenario by another name is refused.
func TestOutIsTheScenario(t *testing.T) {
	text, err := os.ReadFile(demo)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	scenario, hard := filepath.Join(dir, "demo.yaml"), filepath.Join(dir, "other.jsonl")
	if err := os.WriteFile(scenario, text, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(scenario, hard); err != nil {
		t.Skip(err)
	}
	code, _, stderr := call(t, &fake{}, "run", scenario, "--out", hard)
	if code != exitInput || !strings.Contains(stderr, "is where the scenario is") {
		t.Errorf("code %d: %s", code, stderr)
	}
	if now, err := os.ReadFile(scenario); err != nil || string(now) != string(text) {
		t.Errorf("the scenario is overwritten: %v", err)
	}
}

// TestOutPipe: a program that waits for a pipe's reader ends when asked to.
func TestOutPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, flag := range []string{"--out", "--html", "--events"} {
		var stderr strings.Builder
		a := &app{stdout: &stderr, stderr: &stderr, run: (&fake{}).run, free: func() (int64, bool) { return 0, false }}
		code := a.execute(ctx, []string{"run", demo, "--seeds", "1", "--schemes", "ethereal", flag, pipe})
		if code != exitRun || flag != "--events" && !strings.Contains(stderr.String(), "interrupted before the pipe had a reader") {
			t.Errorf("%s: code %d: %s", flag, code, stderr.String())
		}
	}
}

// TestTwoBenches: a second bench does not write to the file of one that goes on.
func TestTwoBenches(t *testing.T) {
	sweep, out := sweepFile(t), filepath.Join(t.TempDir(), "out.jsonl")
	second := ""
	f := &fake{}
	run := func(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
		if run.Index == 0 {
			var code int
			if code, _, second = call(t, &fake{}, "bench", sweep, "--out", out); code != exitRun {
				t.Errorf("the second bench: code %d", code)
			}
		}
		return f.run(ctx, run, obs)
	}
	var stderr strings.Builder
	a := &app{stdout: &stderr, stderr: &stderr, run: run, free: func() (int64, bool) { return 0, false }}
	if code := a.execute(t.Context(), []string{"bench", sweep, "--out", out, "--parallel", "1"}); code != exitOK {
		t.Errorf("code %d: %s", code, stderr.String())
	}
	if !strings.Contains(second, "another ethereal bench writes to this file") {
		t.Errorf("the second bench says %q", second)
	}
	if n := len(decodeFile(t, out)); n != 8 {
		t.Errorf("%d results of 8 runs", n)
	}
}

// TestFullDisk: an existing file outlives a disk that is too full for the next one.
func TestFullDisk(t *testing.T) {
	systemtest.Only(t)
	if os.Geteuid() != 0 {
		t.Skip("a small disk takes root")
	}
	script := `
set -e
mount -t tmpfs -o size=64k tmpfs "$1"
echo old > "$1/page.html"
code=0
"$0" run ` + demo + ` --schemes ethereal --seeds 1 -q --html "$1/page.html" >&2 || code=$?
ls -A "$1" >&2
head -c 20 "$1/page.html"; echo code $code`
	cmd := exec.Command("unshare", "-m", "sh", "-c", script, os.Args[0], t.TempDir())
	cmd.Env = append(os.Environ(), beEthereal+"=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && strings.Contains(stderr.String(), "unshare") {
		t.Skip(stderr.String())
	}
	if string(out) != "old\ncode 1\n" || !strings.Contains(stderr.String(), "page.html, which is as it was: write: no space left") || strings.Contains(stderr.String(), ".page.html-") {
		t.Errorf("%q, %v\n%s", out, err, stderr.String())
	}
}
