package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// sweepFile writes a sweep over the demo: 2 sizes x 2 schemes x 2 seeds.
func sweepFile(t *testing.T) string {
	t.Helper()
	scenarioPath, err := filepath.Abs(demo)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s.yaml")
	text := `name: s
parts:
  - scenario: ` + scenarioPath + `
    set: {seeds: 1..2, failures: [{name: healthy}], collectives: [{kind: all-to-all, bytes: 1MB}]}
    vary: {"collectives[*].bytes": [1MB, 2MB]}
`
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func decodeFile(t *testing.T, path string) []*report.Result {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	rs, err := report.Decode(file, path)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// TestBenchGoesOn interrupts a sweep, spoils the end of its file as a crash
// would, and goes on: every run is there, once, and none ran twice that ended.
func TestBenchGoesOn(t *testing.T) {
	path := sweepFile(t)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{}
	ran := 0
	first := func(c context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
		if ran++; ran == 4 {
			cancel()
			return nil, c.Err()
		}
		return f.run(c, run, obs)
	}
	var stderr strings.Builder
	a := &app{stdout: &stderr, stderr: &stderr, run: first, version: "test"}
	if code := a.execute(ctx, []string{"bench", path, "--out", out, "--parallel", "1"}); code != exitRun {
		t.Fatalf("interrupted: exit %d: %s", code, stderr.String())
	}
	if !strings.Contains(stderr.String(), "3 of 8 runs are complete; "+out+" has 3 of them") {
		t.Errorf("interrupted: %s", stderr.String())
	}
	rs := decodeFile(t, out)
	if len(rs) != 3 {
		t.Fatalf("%d results after the interrupt, want 3", len(rs))
	}
	tear := func() {
		file, err := os.OpenFile(out, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(`{"scenario":"demo","sch`); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	tear()

	code, _, text := call(t, &fake{}, "bench", path, "--out", out)
	if code != exitOK || !strings.Contains(text, "8 runs, 3 of them in") || !strings.Contains(text, "[5/5]") {
		t.Fatalf("going on: exit %d: %s", code, text)
	}
	rs = decodeFile(t, out)
	hashes := map[string]bool{}
	for _, r := range rs {
		hashes[r.RunSHA256] = true
		if r.Version != "test" || r.Sweep != "s" || r.Variant["collectives[*].bytes"] == "" || len(r.RunSHA256) != 64 {
			t.Errorf("provenance %q %q %v %q", r.Version, r.Sweep, r.Variant, r.RunSHA256)
		}
	}
	if len(rs) != 8 || len(hashes) != 8 {
		t.Errorf("%d results of %d runs, want 8 of 8", len(rs), len(hashes))
	}
	f = &fake{}
	if code, _, text = call(t, f, "bench", path, "--out", out); code != exitOK || !strings.Contains(text, "8 of them") {
		t.Errorf("nothing to do: exit %d: %s", code, text)
	}
	f.seen.Range(func(any, any) bool { t.Error("a run ran again"); return false })
}

func TestBenchFlags(t *testing.T) {
	path := sweepFile(t)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--dry-run", exitOK, "8 of 8 runs are missing"},
		{"--dry-run --schemes ecmp", exitOK, "4 of 4 runs are missing"},
		{"--dry-run --only ecmp.*seed.1", exitOK, "2 of 2 runs are missing"},
		{"--only nothing", exitInput, "no run of the sweep matches"},
		{"--only (", exitInput, "write a regular expression"},
		{"--schemes reps", exitInput, `no scheme "reps"`},
		{"--dry-run --schemes ecmp,ethereal", exitOK, "8 of 8 runs are missing"},
		{"--dry-run --schemes=", exitOK, "8 of 8 runs are missing"},
		{"--schemes switch-spray(reshuffle=0,acks=hash),ecmp", exitInput, `no scheme "switch-spray(acks=hash,reshuffle=0)"`},
		{"--schemes spray(mode=random", exitInput, "does not end with its parenthesis"},
		{"--parallel 0", exitInput, "write 1 or more"},
	} {
		args := append([]string{"bench", path, "--out", out}, strings.Fields(c.args)...)
		if code, _, text := call(t, &fake{}, args...); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit %d: %s; want %d, %q", c.args, code, text, c.code, c.want)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a dry run wrote a file")
	}
}
