package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestSuspicion: while a link swallows everything and no switch notices, the
// paper's agents pay a time-out for each destination ToR that they come to use
// one after the other. Those that share what they suspect pay one, and are back on
// the link's paths when probes say that it works. On a fabric that loses nothing,
// sharing changes nothing.
func TestSuspicion(t *testing.T) {
	oneGoroutine(t)
	s := scenario.Default()
	s.Name = "suspicion"
	s.Host.TailProbe = false // or no time-out would come to pass
	s.Fabric = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 4}
	s.Schemes = []scenario.Scheme{{Name: "ethereal"}, {Name: "ethereal", Params: map[string]string{"suspicion": "on"}}}
	s.Deadline = 120 * fabric.Millisecond
	s.Collectives = []scenario.Collective{
		{Kind: "all-reduce", Algorithm: "halving-doubling", Bytes: 4e6},
		{Kind: "all-reduce", Algorithm: "double-binary-tree", Bytes: 4e6},
	}
	s.Failures = []scenario.Failure{{Name: "healthy"}, {
		Name: "black hole", Notifiers: []scenario.Notifier{scenario.NotifyTimeout},
		Events: []scenario.Event{
			{At: fabric.Microsecond, Link: "tor0-spine0", Action: scenario.Cut},
			{At: 100_001 * fabric.Microsecond, Link: "tor0-spine0", Action: scenario.Restore},
		},
	}}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	lab := newLab(t)
	healthy := map[string]*report.Result{}
	for _, run := range runs {
		w, err := newWorld(lab, run, scenario.Observer{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.simulate(t.Context()); err != nil {
			t.Fatalf("%v: %v", run, err)
		}
		r, err := w.measure()
		if err != nil {
			t.Fatal(err)
		}
		if !r.Finished {
			t.Fatalf("%v: not finished", run)
		}
		checkDelivery(t, w, r)
		shared := w.controllers[0].CombinesReports()
		name := run.Collective.String()
		if len(run.Events) == 0 {
			if h := healthy[name]; h != nil && h.EventsSHA256 != r.EventsSHA256 {
				t.Errorf("%v: sharing changes a healthy run", run)
			}
			healthy[name] = r
			continue
		}
		over := *r.CCT - *healthy[name].CCT
		t.Logf("%v: %.1f us, %.1f over the healthy run's", run, *r.CCT, over)
		rto := s.Host.RTO.Micros()
		if shared && over > 1.5*rto || !shared && over < 1.9*rto {
			t.Errorf("%v: %.1f us over the healthy run's; want at most 1.5 time-outs with suspicion, two or more without", run, over)
		}
		if !shared {
			continue
		}
		if got := suspected(w); len(got) != 1 || got[0] != "tor0-spine0" {
			t.Errorf("%v: suspected are %v", run, got)
		}
	}
}

// Once a suspected link works, probes clear it while the collective goes on. (With
// two ToRs nothing distinguishes a link from the one at the spine's other end: both are
// suspected.)
func TestSuspicionEnds(t *testing.T) {
	oneGoroutine(t)
	s := scenario.Default()
	s.Name = "suspicion"
	s.Host.TailProbe = false // or no time-out would come to pass
	s.Fabric = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 4, HostsPerToR: 4}
	s.Schemes = []scenario.Scheme{{Name: "ethereal", Params: map[string]string{"suspicion": "on"}}}
	s.Collectives = []scenario.Collective{{Kind: "all-reduce", Algorithm: "ring", Bytes: 160e6}}
	s.Failures = []scenario.Failure{{
		Name: "passing", Notifiers: []scenario.Notifier{scenario.NotifyTimeout},
		Events: []scenario.Event{
			{At: fabric.Microsecond, Link: "tor0-spine0", Action: scenario.Cut},
			{At: 3000 * fabric.Microsecond, Link: "tor0-spine0", Action: scenario.Restore},
		},
	}}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(newLab(t), runs[0], scenario.Observer{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.simulate(t.Context()); err != nil {
		t.Fatal(err)
	}
	st := w.controllers[0].Core().Suspicion()
	if st.Suspected == 0 || st.Cleared != st.Suspected || st.Confirmed == 0 || len(suspected(w)) != 0 {
		t.Errorf("%+v, suspected now %v", st, suspected(w))
	}
}

// suspected returns the links that the controller suspects.
func suspected(w *world) (names []string) {
	for i := range w.f.Links() {
		if id := fabric.LinkID(i); w.controllers[0].Core().Tables().LinkReport(id).Suspected {
			names = append(names, w.f.LinkName(id))
		}
	}
	return names
}
