package virtual

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// TestLossless: an incast overruns switches of little buffer, unless they pause
// who sends to them. The preset of the reference evaluation has them do so.
func TestLossless(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	s, err := scenario.Load("../../scenarios/lossless.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.Collectives = s.Collectives[:1]
	s.Schemes = s.Schemes[:1]
	for _, pfc := range []scenario.PFC{s.Switch.PFC, {Xoff: 80e3}, {}} {
		s.Switch.PFC = pfc
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		r := mustRun(t, lab, runs[0])
		lossless := pfc != scenario.PFC{}
		if !r.Finished || lossless != (r.Drops == 0) || lossless != (r.Pauses > 0) {
			t.Errorf("pfc %+v: finished %v, %d drops, %d pauses", pfc, r.Finished, r.Drops, r.Pauses)
		}
	}
}

// TestLosslessCut: a link is cut while its sender is paused. What waits there does
// not fill the switch, which would pause those whose paths are well. It is so on
// several cores alike.
func TestLosslessCut(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	s, err := scenario.Load("../../scenarios/lossless.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const back = 3 * fabric.Millisecond
	s.Fabric = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 1, HostsPerToR: 2}
	s.Collectives, s.Schemes = s.Collectives[:1], s.Schemes[:1]
	s.Collectives[0].Bytes = 2e6
	s.Failures = []scenario.Failure{{Name: "healthy"}}
	cut := whenPaused(t, lab, s, "tor1-spine0")
	s.Failures = nil
	for _, direction := range []scenario.Direction{scenario.BothDirections, scenario.Downward} {
		s.Failures = append(s.Failures, scenario.Failure{
			Name: "cut " + string(direction), Notifiers: []scenario.Notifier{scenario.NotifyTimeout},
			Events: []scenario.Event{
				{At: cut, Link: "tor1-spine0", Action: scenario.Cut, Direction: direction},
				{At: back, Link: "tor1-spine0", Action: scenario.Restore, Direction: direction},
			},
		})
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		w, err := newWorld(lab, run, scenario.Observer{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		up := sim.Upward(run.Events[0].Link)
		w.net.At(back-1, func(fabric.Time) {
			if left, _ := w.net.Queued(up); left > 0 {
				t.Errorf("%v: %d bytes wait at the dead port", run, left)
			}
		})
		if err := w.simulate(t.Context()); err != nil {
			t.Fatal(err)
		}
		one, _, _ := onCores(t, lab, run, 1, 1)
		if !one.Finished {
			t.Errorf("%v: not finished", run)
		}
		got, _, _ := onCores(t, lab, run, 2, 2)
		if d := cmp.Diff(one, got, cmpopts.IgnoreFields(report.Result{}, "WallMS")); d != "" {
			t.Errorf("%v: 2 cores (-one, +several):\n%s", run, d)
		}
	}
}

// whenPaused returns a time at which a link's port towards the spines is paused.
func whenPaused(t *testing.T, lab *Lab, s *scenario.Scenario, link string) fabric.Time {
	t.Helper()
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(lab, runs[0], scenario.Observer{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	id, err := w.f.LinkByName(link)
	if err != nil {
		t.Fatal(err)
	}
	w.start()
	up, sent, still := sim.Upward(id), int64(0), 0
	for at := fabric.Time(0); at < fabric.Millisecond; at += 100 * fabric.Nanosecond {
		if err := w.net.Run(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		waits, _ := w.net.Queued(up)
		if c := w.net.Counters(up); waits == 0 || c.DataPackets != sent {
			sent, still = c.DataPackets, 0
		} else if still++; still > 3 { // a packet takes 0.2 us
			return at
		}
	}
	t.Fatalf("%s is never paused", link)
	return 0
}

// TestPresetWire: the preset's packets are as long as the reference's, so that
// the bound is its bound and no run ends before it.
func TestPresetWire(t *testing.T) {
	lab := newLab(t)
	text := `
name: wire
preset: ref
fabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 2}
collectives: [{kind: permutation, bytes: 9MB, shift: 2}]
schemes: [ethereal]
`
	s, err := scenario.Parse("wire.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, lab, runs[0])
	// 1000 packets of 9048 B at 400 Gb/s, and the path of the last one.
	if least := 1000 * 9048 * 20e-6; *r.CCT < least || *r.CCT > least+8 {
		t.Errorf("CCT %v us, want %v and the path of a packet", *r.CCT, least)
	}
	if *r.Bound > *r.CCT {
		t.Errorf("CCT %v us is below the bound %v us", *r.CCT, *r.Bound)
	}
}
