package virtual

import (
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// schemes returns the runs of the comparison, after edit.
func schemes(t testing.TB, edit func(*scenario.Scenario)) []scenario.Run {
	t.Helper()
	s, err := scenario.Load("../../scenarios/schemes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(s)
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// TestSchemes: on a healthy fabric every scheme finishes and loses nothing.
// What is known of all-to-all holds: who balances per packet, and Ethereal, is
// close to the bound, and hashing is not. In a permutation at full load, in turn
// is better than at random, and whole flows are far off.
func TestSchemes(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	// Most and least that the CCT can be of the bound.
	type limits struct{ least, most float64 }
	even, hashed := limits{1, 1.05}, limits{1.08, 10}
	allToAll := map[string]limits{
		"ethereal": even, "spray(mode=random)": even, "spray(mode=round-robin)": even, "reps": even, "drb": even, "mrc": even, "srd": even, "falcon": even,
		"ecmp": hashed, "mp-rdma(ways=4)": hashed, "hopper": hashed, "flowcut": hashed, "lpt": hashed,
		"switch-spray": even, "switch-spray-random": even, "jsq": even, "jsq(bins=5,10,20)": even, "ofan": even,
		"flowlet": hashed, "flowlet(mode=assigned)": hashed, "flowlet(mode=per-packet)": even, "ugal": {1, 1.1},
	}
	permutation := map[string]limits{
		"ethereal": {1, 1.06}, "mrc": {1, 1.06}, "srd": {1, 1.06}, "falcon": {1.06, 1.2}, "spray(mode=round-robin)": {1, 1.06}, "drb": {1, 1.06},
		"spray(mode=random)": {1.06, 1.2}, "reps": {1.06, 1.2},
		"ecmp": {2.5, 10}, "mp-rdma(ways=4)": {1.3, 4}, "hopper": {2, 10}, "flowcut": {2, 10}, "lpt": {2, 10},
		"switch-spray": {1.06, 1.25}, "switch-spray-random": {1.06, 1.25}, "jsq": {1.06, 1.25}, "jsq(bins=5,10,20)": {1.06, 1.25},
		"flowlet": {1.3, 10}, "flowlet(mode=assigned)": {1.3, 10}, "flowlet(mode=per-packet)": {1.06, 1.35}, "ofan": {1, 1.06}, "ugal": {1.06, 1.4},
	}
	seen := map[string]bool{}
	for _, run := range schemes(t, nil) {
		seen[run.Scheme.Name] = true
		r := mustRun(t, lab, run)
		if !r.Finished || r.Drops != 0 || r.Timeouts != 0 {
			t.Errorf("%v: finished %v, %d drops, %d time-outs", run, r.Finished, r.Drops, r.Timeouts)
			continue
		}
		want := allToAll[run.Scheme.String()]
		if run.Collective.Kind == collective.Permutation {
			want = permutation[run.Scheme.String()]
		}
		ratio, ok := r.Slowdown()
		t.Logf("%v: %.3f of the bound", run, ratio)
		if !ok || ratio < want.least || ratio > want.most {
			t.Errorf("%v: CCT is %.3f of the lower bound, want %v to %v", run, ratio, want.least, want.most)
		}
		if run.Scheme.Name != balance.Hopper && r.Retransmissions != 0 {
			t.Errorf("%v: %d retransmissions on a healthy fabric", run, r.Retransmissions)
		}
	}
	for _, name := range balance.Names() {
		if !seen[name] {
			t.Errorf("%s is not part of the comparison", name)
		}
	}
}

// TestSchemesDeliver: with a link that fails, whatever the receivers and the
// congestion control, each byte arrives once, and the same run is the same.
// Spraying is left out where receivers go back: packets in turn over four paths,
// one of them dead for good, need not ever get past it.
func TestSchemesDeliver(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	link := scenario.Event{Link: "tor0-agg0", At: 5e6, Action: scenario.Cut, Detection: 10e6}
	for _, receiver := range []scenario.Receiver{scenario.SchemeReceiver, scenario.GoBackN, scenario.SelectiveRepeat, scenario.IdealReceiver} {
		control := transport.DCTCP
		if receiver == scenario.SelectiveRepeat {
			control = transport.DCQCN
		}
		runs := schemes(t, func(s *scenario.Scenario) {
			s.Host.Receiver, s.Host.CongestionControl, s.Host.RTO = receiver, control, 100e6
			s.Switch.ECN = scenario.ECN{KMin: 20e3, KMax: 80e3, PMax: 0.2}
			s.Collectives = s.Collectives[:1]
			s.Collectives[0].Bytes = 800_000
			s.Failures = []scenario.Failure{{Name: "cut", Events: []scenario.Event{link}, Notifiers: []scenario.Notifier{scenario.NotifyGNMI}}}
		})
		for _, run := range runs {
			if receiver == scenario.GoBackN && scenario.SchemeReceiver.For(run.Scheme.Name) == transport.Ideal {
				continue
			}
			t.Run(string(receiver)+"/"+run.Scheme.String(), func(t *testing.T) {
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
				cnps := uint64(0)
				for _, h := range w.hosts {
					cnps += h.nic.Stats().CNPsTaken
					// The path of a silent queue pair may still be probed when the last host is done.
					if h.core.OpenProbes() != 0 && run.Scheme.Name != balance.Ethereal {
						t.Errorf("%v: %s: %d probes are left over", run, w.f.Name(h.id), h.core.OpenProbes())
					}
				}
				if (cnps > 0) != (control == transport.DCQCN) {
					t.Errorf("%v: %d CNPs under %s", run, cnps, control)
				}
				if slices.Contains([]string{balance.REPS, balance.Hopper}, run.Scheme.Name) {
					if again := mustRun(t, lab, run); again.EventsSHA256 != r.EventsSHA256 {
						t.Errorf("%v: runs differ", run)
					}
				}
			})
		}
	}
}
