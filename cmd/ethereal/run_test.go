package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

func TestRunDemo(t *testing.T) {
	dir := t.TempDir()
	lines, page := filepath.Join(dir, "x.jsonl"), filepath.Join(dir, "x.html")
	code, stdout, stderr := call(t, &fake{}, "run", demo, "--out", lines, "--html", page, "--parallel", "7")
	if code != exitOK {
		t.Fatalf("code %d: %s", code, stderr)
	}
	file, err := os.Open(lines)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	results, err := report.Decode(file, lines)
	if err != nil {
		t.Fatal(err)
	}
	// In the order of the scenario, whatever the order of completion.
	for i, r := range results {
		if *r.CCT != 300+float64(i) {
			t.Errorf("line %d has the result of run %v", i+1, *r.CCT-300)
		}
	}
	if len(results) != 16 {
		t.Errorf("%d results, want 16", len(results))
	}
	var table strings.Builder
	if err := report.Table(&table, results); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(table.String(), stdout); d != "" {
		t.Errorf("stdout is not the table (-want +got):\n%s", d)
	}
	html, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(html), "<title>demo") {
		t.Errorf("report: %v, %d bytes", err, len(html))
	}
	progress := strings.Split(strings.TrimSpace(stderr), "\n")
	if len(progress) != 18 || !strings.HasPrefix(progress[0], "estimate: ") || !strings.HasPrefix(progress[1], "[ 1/16] healthy, all-to-all 16MB, ethereal, seed 1: CCT 300 us, 1.034 x the bound (") ||
		!strings.HasPrefix(progress[17], "report: ") {
		t.Errorf("progress:\n%s", stderr)
	}
}

func TestRunFlags(t *testing.T) {
	f := &fake{}
	code, _, stderr := call(t, f, "run", demo, "--seeds", "3..4", "--schemes", "ecmp", "--notifiers", "all", "--quiet")
	if code != exitOK || stderr != "" {
		t.Fatalf("code %d: %s", code, stderr)
	}
	n := 0
	f.seen.Range(func(_, v any) bool {
		n++
		r := v.(scenario.Run)
		if r.Scheme.Name != "ecmp" || r.Seed < 3 || r.Seed > 4 || r.Notifier != scenario.NotifyAll && r.Notifier != scenario.NotifyNone {
			t.Errorf("run %v", r)
		}
		return true
	})
	if n != 8 {
		t.Errorf("%d runs, want 8", n)
	}
}

// TestRunSchemes names schemes with parameters: of the scenario, and of its own.
func TestRunSchemes(t *testing.T) {
	f := &fake{}
	code, _, stderr := call(t, f, "run", demo, "--schemes", "switch-spray(reshuffle=0,acks=hash),jsq(bins=5,10,20)", "--schemes", "ecmp", "--quiet")
	if code != exitOK || stderr != "" {
		t.Fatalf("code %d: %s", code, stderr)
	}
	seen := map[string]int{}
	f.seen.Range(func(_, v any) bool {
		seen[v.(scenario.Run).Scheme.String()]++
		return true
	})
	for _, want := range []string{"switch-spray(acks=hash,reshuffle=0)", "jsq(bins=5,10,20)", "ecmp"} {
		if seen[want] != 8 {
			t.Errorf("%d runs of %s, want 8; all: %v", seen[want], want, seen)
		}
	}
	code, _, stderr = call(t, &fake{}, "run", demo, "--schemes", "jsq(bins", "--quiet")
	if code != exitInput || !strings.Contains(stderr, "--schemes: \"jsq(bins\" does not end with its parenthesis; write a name") {
		t.Errorf("code %d: %s", code, stderr)
	}
}

func TestJSONToStdout(t *testing.T) {
	code, stdout, stderr := call(t, &fake{}, "run", demo, "-o", "json", "--quiet")
	results, err := report.Decode(strings.NewReader(stdout), "stdout")
	if code != exitOK || err != nil || len(results) != 16 || !strings.Contains(stderr, "CCT/bound") {
		t.Errorf("code %d, %d results, %v; stderr %q", code, len(results), err, stderr)
	}
}

// TestFailedRun keeps what the other runs gave.
func TestFailedRun(t *testing.T) {
	code, stdout, stderr := call(t, &fake{fail: map[int]error{2: errBroken}}, "run", demo)
	if code != exitRun || !strings.Contains(stderr, "ethereal: run 3, healthy, all-reduce/halving-doubling 16MB, ethereal, seed 1: the engine broke") {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	if n := strings.Count(stdout, " ethereal ") + strings.Count(stdout, " ecmp "); n != 15 {
		t.Errorf("%d rows, want 15:\n%s", n, stdout)
	}
}

// TestInterrupt cancels while one run is done and one goes on: what is known is
// shown, and no other run begins.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{hold: make(chan struct{})}
	runner := func(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
		if run.Index == 1 {
			cancel() // the user's Ctrl-C, while this run goes on
		}
		return f.run(ctx, run, obs)
	}
	var out, errs strings.Builder
	app := &app{stdout: &out, stderr: &errs, run: runner, version: "test"}
	code := app.execute(ctx, []string{"run", demo, "--parallel", "1"})
	if code != exitRun || !strings.Contains(errs.String(), "ethereal: interrupted: 1 of 16 runs are complete") {
		t.Errorf("code %d, stderr %q", code, errs.String())
	}
	if s := out.String(); !strings.Contains(s, "300.0") || !strings.Contains(s, "INT: ecmp, none, seed 1: interrupted at 7 us") || strings.Contains(s, "DNF") {
		t.Errorf("stdout %q", s)
	}
	if _, ran := f.seen.Load(2); ran {
		t.Error("a run began after the interrupt")
	}
}

func TestFilesPerRun(t *testing.T) {
	dir := t.TempDir()
	code, _, stderr := call(t, &fake{}, "run", demo, "--quiet", "--schemes", "ethereal", "--notifiers", "quench",
		"--events", filepath.Join(dir, "events.log"), "--pcap", "agg0-tor0="+filepath.Join(dir, "up.pcap"))
	if code != exitOK {
		t.Fatalf("code %d: %s", code, stderr)
	}
	if got := len(inDir(dir, "events.*.log")); got != 4 {
		t.Errorf("%d event logs, want 4", got)
	}
	data, err := os.ReadFile(filepath.Join(dir, "up.003-tor0-agg0-cut-all-to-all-16MB-quench-ethereal-seed-1.pcap"))
	if err != nil || string(data) != "tor0-agg0\n" {
		t.Errorf("capture %q: %v; there are %v", data, err, inDir(dir, "*"))
	}

	// One run only: the files are the ones named.
	one := filepath.Join(dir, "one.yaml")
	text := "name: one\nfabric: {kind: fat-tree, k: 4}\ncollectives: [{kind: all-to-all, bytes: 1MB}]\nschemes: [ethereal]\n"
	if err := os.WriteFile(one, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = call(t, &fake{}, "run", one, "--quiet", "--events", filepath.Join(dir, "only.log"))
	if data, err := os.ReadFile(filepath.Join(dir, "only.log")); code != exitOK || err != nil || !strings.HasPrefix(string(data), "healthy") {
		t.Errorf("code %d, %s: %q %v", code, stderr, data, err)
	}
	code, _, stderr = call(t, &fake{}, "run", one, "--quiet", "--events", filepath.Join(dir, "no", "such.log"))
	if code != exitInput || !strings.Contains(stderr, "--events: open") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

// TestErrorNamesRunOnce: the runner may have named the run as well.
func TestErrorNamesRunOnce(t *testing.T) {
	named := func(_ context.Context, run scenario.Run, _ scenario.Observer) (*report.Result, error) {
		return nil, fmt.Errorf("engine: %v: h0: %w", run, errBroken)
	}
	var out, errs strings.Builder
	app := &app{stdout: &out, stderr: &errs, run: named, version: "test"}
	code := app.execute(t.Context(), []string{"run", demo, "--schemes", "ecmp", "--parallel", "1"})
	for _, want := range []string{
		"[1/8] healthy, all-to-all 16MB, ecmp, seed 1: engine: h0: the engine broke (",
		"run 1, healthy, all-to-all 16MB, ecmp, seed 1: engine: h0: the engine broke\n",
	} {
		if code != exitRun || !strings.Contains(errs.String(), want) {
			t.Errorf("code %d, want %q in\n%s", code, want, errs.String())
		}
	}
}

// TestLiveProgress draws the line of a terminal.
func TestLiveProgress(t *testing.T) {
	var w strings.Builder
	s, err := scenario.Load(demo)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	p := newProgress(&w, runs, nil, true, false)
	p.Begin(runs[0])
	p.Begin(runs[1])
	p.Watch(runs[0])(scenario.Progress{Now: 123456789, Hops: 10})
	p.draw()
	want := "\r\033[K0 of 16 done, 2 running | healthy, all-to-all 16MB, ethereal, seed 1 at 0.123 ms"
	if w.String() != want {
		t.Errorf("%q, want %q", w.String(), want)
	}
	w.Reset()
	p.End(runs[0])
	cct := 310.0
	p.Line(&runner.Outcome{Run: runs[0], Result: &report.Result{CCT: &cct}})
	want = "\r\033[K[ 1/16] healthy, all-to-all 16MB, ethereal, seed 1: CCT 310 us (0.0 s)\n" +
		"\r\033[K1 of 16 done, 1 running | healthy, all-to-all 16MB, ecmp, seed 1 at 0.000 ms"
	if w.String() != want {
		t.Errorf("%q, want %q", w.String(), want)
	}
}

// What no run of a scenario can do in a world is said once, before anything is built for them.
func TestRefusedOnce(t *testing.T) {
	code, _, stderr := call(t, &fake{}, "run", demo, "--world", "live")
	if code != exitRun || strings.Count(stderr, "h0-tor0 has 400Gb/s") != 1 || !strings.Contains(stderr, "none of the 16 runs") {
		t.Errorf("exit code %d:\n%s", code, stderr)
	}
}

// TestStrict: a run that did not finish is a failure with --strict, if its scenario expects nothing of that.
func TestStrict(t *testing.T) {
	late := func(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
		r, err := (&fake{}).run(ctx, run, obs)
		r.CCT, r.Finished, r.End = nil, false, report.Deadline
		return r, err
	}
	text, err := os.ReadFile(demo)
	if err != nil {
		t.Fatal(err)
	}
	expecting := filepath.Join(t.TempDir(), "expecting.yaml")
	text = append(text, "\nexpect: [{that: finished, is: false}]\n"...)
	if err := os.WriteFile(expecting, text, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		run  func(context.Context, scenario.Run, scenario.Observer) (*report.Result, error)
		want int
	}{
		{[]string{demo}, late, exitOK},
		{[]string{demo, "--strict"}, late, exitRun},
		{[]string{demo, "--strict"}, (&fake{}).run, exitOK},
		{[]string{expecting, "--strict"}, late, exitOK},
	} {
		var said strings.Builder
		a := &app{stdout: &said, stderr: &said, run: c.run, free: func() (int64, bool) { return 0, false }}
		code := a.execute(t.Context(), append([]string{"run", "-q", "--seeds", "1", "--schemes", "ethereal"}, c.args...))
		if code != c.want || c.want == exitRun && !strings.Contains(said.String(), "did not finish, with --strict: ") {
			t.Errorf("%v: code %d: %s", c.args, code, said.String())
		}
	}
}

// TestCutOff: a run that no scheme can finish, since a host has no link, is a failure and is said first. A host with
// two planes goes on over the other.
func TestCutOff(t *testing.T) {
	const text = `name: cut off
fabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 2, planes: PLANES, host_link: {rate: 100Gb/s, delay: 500ns}}
collectives: [{kind: all-to-all, bytes: 1MB}]
schemes: [ethereal]
deadline: 5ms
failures:
  - {name: host link, notifiers: [all], events: [{at: 5us, action: cut, link: LINK, detection: 5us}]}
`
	for _, c := range []struct {
		planes, link, first string
		more                string
		code                int
	}{
		{"1", "host link of h1", "CUT OFF: h1 is cut off: its only link h1-tor0 is cut since 5us; 1 run could not finish", "", exitRun},
		{"1", "host link of h1", "", "\nexpect: [{that: finished, is: false}]\n", exitOK},
		{"2", "host link of h1", "host link: all-to-all 1MB", "", exitOK},
		{"2", "host link 2 of h1", "host link: all-to-all 1MB", "", exitOK},
	} {
		file := filepath.Join(t.TempDir(), "cut.yaml")
		s := strings.NewReplacer("PLANES", c.planes, "LINK", c.link).Replace(text)
		if err := os.WriteFile(file, []byte(s+c.more), 0o666); err != nil {
			t.Fatal(err)
		}
		var said, err strings.Builder
		a := &app{stdout: &said, stderr: &err, run: virtual.Runner(), free: func() (int64, bool) { return 0, false }}
		code := a.execute(t.Context(), []string{"run", "-q", file})
		if first, _, _ := strings.Cut(said.String(), "\n"); code != c.code || !strings.HasPrefix(first, c.first) {
			t.Errorf("%s of %s planes: code %d, want %d:\n%s%s", c.link, c.planes, code, c.code, said.String(), err.String())
		}
	}
}

// TestLongError: an error is printed with a bounded number of bytes.
func TestLongError(t *testing.T) {
	got := errorText(fmt.Errorf("%s", strings.Repeat(strings.Repeat("x", 10_000)+"\n", 1000)))
	if len(got) > 300_000 || !strings.Contains(got, "(8000 bytes more)") || !strings.HasSuffix(got, "and 901 lines more") {
		t.Errorf("%d bytes: %s", len(got), got[max(0, len(got)-100):])
	}
}
