package virtual

import (
	"math/rand/v2"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestFailover: a server whose NICs' links are cut, and restored, at random times goes on over those that it has,
// whatever the notifier; one without any does not end before its NICs are back.
func TestFailover(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	rng := rand.New(rand.NewPCG(1, 2))
	trials := 12
	if testing.Short() {
		trials = 3
	}
	for _, s := range []scenario.Servers{
		{GPUs: 2}, {GPUs: 4, Wiring: scenario.Rail}, {GPUs: 4, Wiring: scenario.Rail, CrossRail: scenario.ByServer},
	} {
		for range trials {
			c := []scenario.Collective{
				{Kind: "all-to-all", Bytes: 1e6}, {Kind: "all-reduce", Algorithm: "ring", Bytes: 1e6},
			}[rng.IntN(2)]
			run := servedRun(t, s, c, []string{"ethereal", "ecmp", "spray"}[rng.IntN(3)])
			run.Notifier = []scenario.Notifier{scenario.NotifyAll, scenario.NotifyTimeout}[rng.IntN(2)]
			cuts := 1 + rng.IntN(s.GPUs-1)
			first := rng.IntN(s.GPUs)
			var at fabric.Time
			for i := range cuts { // one NIC of the first server stays
				at += fabric.Time(rng.IntN(15)) * fabric.Microsecond
				host := s.Host(run.Fabric, (first+i)%s.GPUs)
				run.Events = append(run.Events, scenario.LinkEvent{
					At: at, Link: run.Fabric.HostLink(host, 0), Detection: fabric.Time(rng.IntN(10)) * fabric.Microsecond,
				})
			}
			if rng.IntN(2) == 0 {
				e := run.Events[0]
				e.At, e.Up = at+fabric.Time(rng.IntN(40))*fabric.Microsecond, true
				run.Events = append(run.Events, e)
			}
			r := mustRun(t, lab, run)
			if !r.Finished || r.Bound != nil && *r.CCT < *r.Bound || *r.CCT > 1000 {
				t.Errorf("%+v, %v, %v, %v, events %+v: finished %v, CCT %v us, bound %v us", s, c, run.Scheme, run.Notifier, run.Events, r.Finished, r.CCT, r.Bound)
			}
		}
	}
	run := servedRun(t, scenario.Servers{GPUs: 2}, scenario.Collective{Kind: "all-to-all", Bytes: 1e6}, "ethereal")
	run.Notifier = scenario.NotifyAll
	for host := range fabric.NodeID(2) {
		run.Events = append(run.Events, scenario.LinkEvent{At: 5 * fabric.Microsecond, Link: run.Fabric.HostLink(host, 0)})
	}
	if r := mustRun(t, lab, run); r.Finished || run.CutOff(run.Scenario.Deadline) == "" {
		t.Errorf("finished %v without any NIC: %q", r.Finished, run.CutOff(run.Scenario.Deadline))
	}
	run.Events = run.Events[:1]
	if text := run.CutOff(run.Scenario.Deadline); text != "" {
		t.Errorf("a server with another NIC: %s", text)
	}
}
