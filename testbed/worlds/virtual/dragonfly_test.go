package virtual

import (
	"fmt"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// dragonflyRuns returns the runs of dragonfly.yaml with a small message and one seed, on 4 pods of 3 ToRs.
func dragonflyRuns(t *testing.T, failure string) []scenario.Run {
	t.Helper()
	s, err := scenario.Load("../../scenarios/dragonfly.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.Fabric = fabric.Spec{Kind: fabric.KindDragonfly, ToRsPerPod: 3, GlobalLinks: 1, HostsPerToR: 2}
	for i := range s.Collectives {
		if s.Collectives[i].Bytes = 400e3; s.Collectives[i].Shift > 0 {
			s.Collectives[i].Shift = 6
		}
	}
	s.Seeds, s.Opponents = s.Seeds[:1], ""
	var kept []scenario.Failure
	for _, c := range s.Failures {
		if c.Name == failure {
			kept = append(kept, c)
		}
	}
	s.Failures = kept
	runs, err := s.Expand()
	if err != nil || len(runs) == 0 {
		t.Fatalf("%d runs: %v", len(runs), err)
	}
	return runs
}

// TestDragonfly: on a healthy dragonfly nothing is lost. If all hosts of a pod send to the next one, which have one
// link between them, the minimal path is worst; in an all-to-all, Valiant's are.
func TestDragonfly(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	times := map[string]float64{}
	for _, run := range dragonflyRuns(t, "healthy") {
		r := mustRun(t, lab, run)
		ratio, ok := r.Slowdown()
		t.Logf("%v: %.3f of the bound", run, ratio)
		if !ok || r.Drops+r.LostToFailure+r.Timeouts != 0 || ratio < 1 {
			t.Errorf("%v: %.3f of the bound, finished %v, %d drops, %d lost, %d time-outs", run, ratio, r.Finished, r.Drops, r.LostToFailure, r.Timeouts)
		}
		times[fmt.Sprint(run.Collective.Kind, run.Collective.Shift, " ", run.Scheme)] = ratio
	}
	for _, x := range [][2]string{
		{"permutation6 spray", "permutation6 ecmp"}, {"permutation6 ugal", "permutation6 ecmp"}, {"permutation6 ethereal", "permutation6 ecmp"},
		{"all-to-all0 ecmp", "all-to-all0 ugal"}, {"all-to-all0 ethereal", "all-to-all0 spray"}, {"all-to-all0 spray", "all-to-all0 spray(mode=valiant)"},
	} {
		if fast, slow := times[x[0]], times[x[1]]; fast == 0 || fast >= slow {
			t.Errorf("%s takes %.3f of the bound, %s %.3f", x[0], fast, x[1], slow)
		}
	}
}

// TestDragonflyCut: after a cut of a global link, hosts that learn of it leave its paths, and each byte arrives once.
func TestDragonflyCut(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	for _, run := range dragonflyRuns(t, "global link") {
		if run.Scheme.Name != "ethereal" {
			continue
		}
		w, err := newWorld(lab, run, scenario.Observer{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.simulate(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := w.measure()
		if err != nil {
			t.Fatal(err)
		}
		checkDelivery(t, w, r)
		if !r.Finished || r.Flips == 0 {
			t.Errorf("%v: finished %v, %d flips", run, r.Finished, r.Flips)
		}
	}
}

// TestDragonflyRepair: after a cut all schemes finish if a controller repairs the tables, whether the link was global
// or the only one between two ToRs of a pod.
func TestDragonflyRepair(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	for _, local := range []bool{false, true} {
		for _, run := range dragonflyRuns(t, "global link") {
			if !run.Notifier.GNMI() || run.Collective.Kind != "all-to-all" {
				continue
			}
			if local {
				tor := run.Fabric.Node(run.Fabric.ToRID(0))
				for i := range run.Events {
					run.Events[i].Link = tor.Link(tor.FirstUplink() - 1)
				}
			}
			if r := mustRun(t, lab, run); !r.Finished {
				t.Errorf("%v: not finished; within a pod %v", run, local)
			}
		}
	}
}

// TestUGAL: the source switch labels packets of its hosts that have no label, by the minimal path unless its queue is
// long or its port dead.
func TestUGAL(t *testing.T) {
	lab := newLab(t)
	for _, run := range dragonflyRuns(t, "healthy") {
		if run.Scheme.String() != "ugal" {
			continue
		}
		w, err := newWorld(lab, run, scenario.Observer{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := w.switches[0]
		dst := w.f.ToRID(w.f.ToRs() - 1)
		minimal := w.f.Minimal()
		hops, _ := w.f.Path(nil, n.id, dst, minimal)
		for range 100 {
			if l := n.source.choose(dst); l != minimal {
				t.Fatalf("label %d with empty queues, want the minimal %d", l, minimal)
			}
		}
		n.portChanged(0, hops[0].Port, false)
		chosen := map[fabric.Label]bool{}
		for range 100 {
			chosen[n.source.choose(dst)] = true
		}
		if len(chosen) < 3 {
			t.Errorf("with a dead minimal port it chooses %v", chosen)
		}
		var _ sim.InPlace = n.source
		return
	}
	t.Error("the scenario has no ugal")
}
