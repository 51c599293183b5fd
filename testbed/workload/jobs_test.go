package workload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// loadText reads a workload file of a text.
func loadText(t *testing.T, text string, ranks int) (*Program, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return Load(path, Place{Ranks: ranks, Seed: 1})
}

// TestSteps: ranks repeat their steps in order, and the times of each are taken.
func TestSteps(t *testing.T) {
	p, err := loadText(t, `jobs:
  - {kind: incast, bytes: 10B, ranks: "4,5", repeat: 2}
  - repeat: 3
    ranks: 0..3
    at: 1ms
    steps: [{compute: 2ms}, {all-reduce: 100MB, algorithm: ring}]
`, 8)
	if err != nil {
		t.Fatal(err)
	}
	var want []Part
	for n := range 2 {
		want = append(want, Part{0, n + 1, "incast 10B", 10})
	}
	for n := range 3 {
		want = append(want, Part{1, n + 1, "compute 2ms", 0}, Part{1, n + 1, "all-reduce/ring 100MB", 150e6})
	}
	if d := cmp.Diff(want, p.Parts); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
	if got := p.LongestCompute(); got != 7*fabric.Millisecond {
		t.Errorf("the longest computation is %v, want 1 ms and three times 2 ms", got)
	}
	if received, _ := play(t, p, 1); received[0] != 3*2*3*25e6 {
		t.Errorf("rank 0 received %d bytes", received[0])
	}

	// A step alone has a computation and an all-reduce that waits for it.
	alone := p.Only(4, 6)
	all := []int{0, 1, 2, 3}
	if d := cmp.Diff([]Op{
		{Kind: Compute, Duration: 2 * fabric.Millisecond, Part: 5},
		{Kind: Collective, What: collective.AllReduce, Algorithm: collective.Ring, Bytes: 100e6, Group: all, After: []int{0}, Part: 6},
	}, alone.Ranks[0]); d != "" || len(alone.Ranks[4]) > 0 {
		t.Errorf("the second step alone (-want +got):\n%s", d)
	}

	// Messages take no time here: a part takes as long as its computation.
	r, err := NewRunner(p)
	if err != nil {
		t.Fatal(err)
	}
	var posted []collective.Send
	emit := func(s collective.Send) { posted = append(posted, s) }
	now := fabric.Time(0)
	r.Start(now, emit)
	for at, ok := now, true; ok || len(posted) > 0; at, ok = r.Deadline() {
		if len(posted) == 0 {
			now = at
			r.Tick(now, emit)
			continue
		}
		s := posted[0]
		posted = posted[1:]
		if err := r.Received(now, s.ID, emit); err != nil {
			t.Fatal(err)
		}
		if err := r.Sent(now, s.ID, emit); err != nil {
			t.Fatal(err)
		}
	}
	const ms = fabric.Millisecond
	if d := cmp.Diff([]Span{
		{true, 0, 0, 0}, {true, 0, 0, 0}, {true, 1 * ms, 3 * ms, 0}, {true, 3 * ms, 3 * ms, 0}, {true, 3 * ms, 5 * ms, 0}, {true, 5 * ms, 5 * ms, 0},
		{true, 5 * ms, 7 * ms, 0}, {true, 7 * ms, 7 * ms, 0},
	}, r.Parts()); d != "" {
		t.Errorf("spans (-want +got):\n%s", d)
	}
}

// TestBadSteps: errors name the step and the remedy.
func TestBadSteps(t *testing.T) {
	for text, want := range map[string]string{
		"{steps: [{compute: 2ms, all-reduce: 1MB}]}":    "jobs[0].steps[0]: it has 2 of compute, all-to-all, ",
		"{steps: [{algorithm: ring}]}":                  "jobs[0].steps[0]: it has 0 of compute, ",
		"{steps: [{compute: 2ms, algorithm: ring}]}":    "jobs[0].steps[0].algorithm: belongs to a collective; remove it",
		"{steps: [{compute: -1ms}]}":                    "jobs[0].steps[0].compute",
		"{steps: [{compute: 2000s}]}":                   "jobs[0].steps[0].compute: 2000s is outside 0 to 1000s; write for example 2ms",
		"{steps: [{all-reduce: 1B}]}":                   "jobs[0].steps[0].all-reduce: bytes is 1; at least 4",
		"{steps: [{all-reduce: 1MB, algorithm: rung}]}": `jobs[0].steps[0].algorithm: all-reduce has no algorithm "rung"`,
		"{steps: [{allreduce: 1MB}]}":                   "jobs[0].steps[0].allreduce: unknown key",
		"{steps: [compute]}":                            "where a mapping belongs",
		"{steps: [{all-reduce: 1MB}], ranks: '1'}":      "jobs[0].ranks: ranks is 1; use 2",
		"{steps: [{compute: 1ms}], kind: incast}":       "jobs[0].kind: is given beside steps; write it in a step",
		"{steps: [{compute: 1ms}], bytes: 1MB}":         "jobs[0].bytes: is given beside steps",
		"{repeat: 5}":                                   "jobs[0].kind: is missing; add it; for example all-reduce",
		"{steps: []}":                                   "jobs[0].steps: is empty",
		"{steps: [{compute: 1ms}], ranks: 0..9}":        "jobs[0].ranks: rank 9 is not there",
		"{steps: [{compute: 1ms}], repeat: 10001}":      "jobs[0].repeat: 10001 is outside",
	} {
		_, err := loadText(t, "jobs: ["+text+"]", 4)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
