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

// TestStepGroups: the ranks of a job carry a step out in groups, and later steps do not wait for one in the background,
// which others in the background and the next repetition do.
func TestStepGroups(t *testing.T) {
	p, err := loadText(t, `jobs:
  - repeat: 2
    ranks: 1..8
    steps:
      - {all-reduce: 8MB, algorithm: ring, group: 2}
      - {all-gather: 8MB, algorithm: ring, group: 2, stride: 2, background: true}
      - {compute: 1ms}
      - {all-to-all: 8MB, background: true}
`, 9)
	if err != nil {
		t.Fatal(err)
	}
	all := []int{1, 2, 3, 4, 5, 6, 7, 8}
	at := func(o int, kind Kind, what, algorithm string, group []int, after ...int) Op {
		op := Op{Kind: kind, What: what, Algorithm: algorithm, Group: group, After: after, Part: o + 1}
		if op.Bytes = 8e6; kind == Compute {
			op.Bytes, op.Duration = 0, fabric.Millisecond
		}
		return op
	}
	want := []Op{
		at(0, Collective, collective.AllReduce, collective.Ring, []int{3, 4}),
		at(1, Collective, collective.AllGather, collective.Ring, []int{2, 4}, 0),
		at(2, Compute, "", "", nil, 0),
		at(3, Collective, collective.AllToAll, "", all, 2, 1),
		at(4, Collective, collective.AllReduce, collective.Ring, []int{3, 4}, 2, 3),
	}
	if d := cmp.Diff(want, p.Ranks[4][:5]); d != "" {
		t.Errorf("rank 4 (-want +got):\n%s", d)
	}
	if g := p.Ranks[5][1].Group; !cmp.Equal(g, []int{5, 7}) {
		t.Errorf("rank 5 gathers with %v", g)
	}
	play(t, p, 1)
}

func TestBadStepGroups(t *testing.T) {
	for step, want := range map[string]string{
		"{all-reduce: 8MB, group: 3}":                 "jobs[0].steps[0].group: 8 ranks are no whole number of groups of 3 with stride 1",
		"{all-reduce: 8MB, group: 4, stride: 4}":      "jobs[0].steps[0].group: 8 ranks are no whole number of groups of 4 with stride 4",
		"{all-reduce: 8MB, stride: 2}":                "jobs[0].steps[0].group: 8 ranks are no whole number of groups of 0",
		"{all-reduce: 8MB, group: 1}":                 "jobs[0].steps[0].group: 8 ranks are no whole number of groups of 1",
		"{compute: 1ms, background: true}":            "jobs[0].steps[0].background: belongs to a collective",
		"{all-reduce: 1B, algorithm: ring, group: 2}": "jobs[0].steps[0].all-reduce: bytes is 1; at least 2",
	} {
		_, err := loadText(t, "jobs: [{steps: ["+step+"]}]\n", 8)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", step, err, want)
		}
	}
}

// TestManyJobs: the operations of all jobs together are bounded.
func TestManyJobs(t *testing.T) {
	text := "jobs:\n  - {repeat: 10000, steps: [{compute: 1us}]}\n  - {repeat: 10000, steps: [" + strings.Repeat("{compute: 1us},", 26) + "]}\n"
	if _, err := loadText(t, text, 16); err == nil || !strings.Contains(err.Error(), "jobs[1].repeat: 10000 times 26 steps of 16 ranks are, with the jobs before, more than 4194304") {
		t.Errorf("%v", err)
	}
}
