package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// silenceCase is what becomes of a failure in a fat-tree whose hosts have no notification in time.
type silenceCase struct {
	name       string
	k          int // of the fat-tree
	collective scenario.Collective
	events     []scenario.Event
	notifier   scenario.Notifier
	most       float64 // completion time, of the healthy one
	repeated   float64 // retransmissions, of the packets lost: go-back-N repeats what is behind one, too
}

func cut(link string, detection fabric.Time) scenario.Event {
	return scenario.Event{At: fabric.Microsecond, Link: link, Action: scenario.Cut, Detection: detection}
}

// TestSilence: whatever a dead or lossy link swallows, hosts find out by what is not answered while anything else is.
// No queue pair waits for its timer.
func TestSilence(t *testing.T) {
	oneGoroutine(t)
	all, ring := scenario.Collective{Kind: "all-to-all", Bytes: 2e6}, scenario.Collective{Kind: "all-reduce", Algorithm: "ring", Bytes: 2e6}
	gray := func(loss scenario.Share) []scenario.Event {
		return []scenario.Event{{At: fabric.Microsecond, Link: "tor0-agg0", Action: scenario.Gray, Loss: loss}}
	}
	late := []scenario.Event{cut("tor0-agg0", 10*fabric.Millisecond)}
	lab, healthy := newLab(t), map[string]float64{}
	for _, c := range []silenceCase{
		{"healthy", 8, all, nil, "", 1, 0},
		{"notified late", 8, all, late, scenario.NotifyGNMI, 1.8, 1.3},
		{"gray 1 %", 8, all, gray(0.01), scenario.NotifyTimeout, 1.7, 2},
		{"gray 5 %", 8, all, gray(0.05), scenario.NotifyTimeout, 1.8, 2},
		{"healthy", 4, ring, nil, "", 1, 0},
		{"notified late", 4, ring, late, scenario.NotifyGNMI, 1.2, 2},
		{"gray 5 %", 4, ring, gray(0.05), scenario.NotifyTimeout, 1.2, 3},
	} {
		s := scenario.Default()
		s.Name, s.Fabric = "silence", fabric.Spec{Kind: fabric.KindFatTree, K: c.k}
		s.Schemes, s.Collectives, s.Deadline = []scenario.Scheme{{Name: "ethereal"}}, []scenario.Collective{c.collective}, 20*fabric.Millisecond
		s.Failures = []scenario.Failure{{Name: c.name, Events: c.events}}
		if c.events != nil {
			s.Failures[0].Notifiers = []scenario.Notifier{c.notifier}
		}
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		r := mustRun(t, lab, runs[0])
		if r.CCT == nil {
			t.Fatalf("%v did not finish", runs[0])
		}
		name := c.collective.Name()
		if c.events == nil {
			healthy[name] = *r.CCT
		}
		ratio := *r.CCT / healthy[name]
		t.Logf("%v: %.1f us, %.3f of healthy, %d lost, %d sent again", runs[0], *r.CCT, ratio, r.LostToFailure, r.Retransmissions)
		if r.Timeouts > 0 || ratio > c.most || float64(r.Retransmissions) > c.repeated*float64(r.LostToFailure) {
			t.Errorf("%v: %.3f of the healthy time, %d time-outs, %d packets sent again of %d lost; want up to %v, none, %v times",
				runs[0], ratio, r.Timeouts, r.Retransmissions, r.LostToFailure, c.most, c.repeated)
		}
	}
}

// TestCongestedBlackHole: the path that swallows all leads to a ToR before which switches mark all the time. The marks
// are not on that path, and do not excuse it until the timers run.
func TestCongestedBlackHole(t *testing.T) {
	oneGoroutine(t)
	s := scenario.Default()
	s.Name, s.Fabric = "congested", fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 4}
	s.Schemes, s.Deadline = []scenario.Scheme{{Name: "ethereal"}}, 50*fabric.Millisecond
	s.Switch.ECN = scenario.ECN{KMin: 50e3, KMax: 50e3, PMax: 1}
	s.Collectives = []scenario.Collective{{Kind: "all-to-all", Bytes: 8e6}}
	s.Failures = []scenario.Failure{{
		Name: "black hole", Events: []scenario.Event{cut("tor0-spine0", 40*fabric.Millisecond)},
		Notifiers: []scenario.Notifier{scenario.NotifyTimeout},
	}}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, newLab(t), runs[0])
	silent := 0
	for _, f := range r.FlipRecords {
		if f.Reason == hostagent.BySilence.String() {
			silent++
		}
	}
	t.Logf("%v: %v us, %d marked, %d lost, %d queue pairs were silent", runs[0], *r.CCT, r.Marked, r.LostToFailure, silent)
	if r.CCT == nil || r.Timeouts > 0 || r.Marked == 0 || silent == 0 {
		t.Errorf("%d time-outs, %d marked, %d silent; want no time-out in spite of marks", r.Timeouts, r.Marked, silent)
	}
}

// TestNoFalseSilence: a queue pair that waits in a queue, on a fabric that loses nothing, is hardly ever taken for
// silent, and no path is left for it: where half the capacity of a ToR is gone, and before one that many send to.
func TestNoFalseSilence(t *testing.T) {
	oneGoroutine(t)
	s := scenario.Default()
	s.Name, s.Fabric = "narrow", fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 8, Spines: 2, HostsPerToR: 4}
	s.Schemes, s.Deadline = []scenario.Scheme{{Name: "ethereal"}}, 50*fabric.Millisecond
	s.Collectives = []scenario.Collective{
		{Kind: "all-to-all", Bytes: 4e6},
		{Kind: "all-to-all", Bytes: 2e6, Skew: 1},
		{Kind: "permutation", Bytes: 4e6},
		{Kind: "all-reduce", Algorithm: "halving-doubling", Bytes: 4e6},
		{Kind: "incast", Bytes: 250e3},
	}
	s.Seeds = scenario.Seeds{1, 2}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	lab := newLab(t)
	for _, run := range runs {
		r := mustRun(t, lab, run)
		left, silent := 0, 0
		for _, f := range r.FlipRecords {
			switch f.Reason {
			case hostagent.BySilence.String():
				silent++
			case hostagent.ByLoss.String():
				left++
			}
		}
		t.Logf("%v: %d marked, %d dropped, %d sent again, %d silent, %d left", run, r.Marked, r.Drops, r.Retransmissions, silent, left)
		if left > 0 || r.Timeouts > 0 {
			t.Errorf("%v: %d queue pairs left a path, %d time-outs", run, left, r.Timeouts)
		}
	}
}
