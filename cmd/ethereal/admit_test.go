package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// TestAdmit begins runs with so much memory free: what does not fit is refused before
// anything runs, with the remedy.
func TestAdmit(t *testing.T) {
	const gb = int64(1e9)
	for _, c := range []struct {
		k     int
		flags string
		free  int64 // bytes; negative: unknown
		want  string
		runs  int
	}{
		{64, "", 24 * gb, "memory: 24.0 GB is free, and about ", 0},
		{64, "--seeds 1..4 --parallel 4", 24 * gb, "use --world flow", 0},
		{64, "--force", 24 * gb, "estimate: ", 1},
		{64, "", -1, "estimate: ", 1},
		{64, "", 256 * gb, "estimate: ", 1},
		{16, "", 1 * gb, "estimate: ", 1},
		{16, "--seeds 1..4 --parallel 4", 1 * gb, "use --parallel 3 --cores 1, or --force", 0},
		{16, "--seeds 1..4 --parallel 4 --cores 1", 1 * gb, "use --parallel 3, or --force", 0},
		{16, "--cores 2", 4 * gb / 10, "use --parallel 1 --cores 1", 0},
		{16, "--seeds 1..4 --parallel 3 --cores 1", 1 * gb, "estimate: ", 4},
		{16, "", gb / 10, "or a fabric of fewer hosts", 0},
	} {
		t.Run(fmt.Sprintf("k=%d %s", c.k, c.flags), func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "s.yaml")
			text := fmt.Sprintf("name: s\nfabric: {kind: fat-tree, k: %d}\ncollectives: [{kind: permutation, bytes: 64KiB}]\n"+
				"schemes: [ethereal]\nfailures: [{name: healthy}]\nseeds: 1\ndeadline: 20ms\n", c.k)
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			f := &fake{}
			a := &app{stdout: &out, stderr: &errs, run: f.run, free: func() (int64, bool) { return c.free, c.free >= 0 }}
			code := a.execute(t.Context(), append([]string{"run", name}, strings.Fields(c.flags)...))
			runs := 0
			f.seen.Range(func(any, any) bool { runs++; return true })
			want := exitInput
			if c.runs > 0 {
				want = exitOK
			}
			if code != want || runs != c.runs || !strings.Contains(errs.String(), c.want) {
				t.Errorf("code %d, %d runs, want %d, %d and %q:\n%s", code, runs, want, c.runs, c.want, errs.String())
			}
		})
	}
}

// TestBenchAdmits has a sweep refused that does not fit.
func TestBenchAdmits(t *testing.T) {
	var out, errs bytes.Buffer
	f := &fake{}
	a := &app{stdout: &out, stderr: &errs, run: f.run, free: func() (int64, bool) { return 60 << 20, true }}
	file := filepath.Join(t.TempDir(), "x.jsonl")
	code := a.execute(t.Context(), []string{"bench", "../../testbed/sweeps/demo.yaml", "--out", file, "--parallel", "16"})
	if code != exitInput || !strings.Contains(errs.String(), "use --parallel 1 --cores 1, or --force") {
		t.Errorf("code %d: %s", code, errs.String())
	}
}

// TestTimeLeft lets two runs of four, of the same work, pass: one and a half are done
// after a minute.
func TestTimeLeft(t *testing.T) {
	s, err := scenario.Load(demo)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	runs = []scenario.Run{runs[0], runs[0], runs[0], runs[0]}
	for i := range runs {
		runs[i].Index = i
	}
	estimates := virtual.Estimates(runs)
	p := newProgress(&strings.Builder{}, runs, estimates, true, false)
	if text, ok := p.timeLeft(p.began); ok {
		t.Errorf("before anything is done: %s", text)
	}
	p.Begin(runs[0])
	p.Begin(runs[1])
	p.Watch(runs[1])(scenario.Progress{Hops: uint64(estimates[1].Hops / 2)})
	p.End(runs[0])
	if text, ok := p.timeLeft(p.began.Add(time.Minute)); !ok || text != "about 1m40s left" {
		t.Errorf("%q, %v, want about 1m40s left", text, ok)
	}
}
