package virtual

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

func onPlanes(t *testing.T, spec fabric.Spec, change func(s *scenario.Scenario)) []scenario.Run {
	t.Helper()
	s := scenario.Default()
	s.Name, s.Fabric, s.Seeds, s.Deadline = "planes", spec, scenario.Seeds{1}, 20*fabric.Millisecond
	s.Collectives = []scenario.Collective{{Kind: "all-to-all", Bytes: 4e6}}
	s.Schemes = []scenario.Scheme{{Name: "ethereal"}}
	s.Failures = []scenario.Failure{{Name: "healthy"}}
	change(&s)
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

var planeSpecs = []fabric.Spec{
	{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 4, Planes: 2},
	{Kind: fabric.KindFatTree, K: 4, Planes: 3},
}

// Packets on planes do what fluids do: uplinks of all planes and ports of all hosts carry the same.
func TestPlanesEven(t *testing.T) {
	lab, err := NewLab()
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range planeSpecs {
		run := onPlanes(t, spec, func(*scenario.Scenario) {})[0]
		w, err := newWorld(lab, run, scenario.Observer{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.start()
		if err := w.net.Run(context.Background(), run.Scenario.Deadline); err != nil || w.fault != nil || !w.finished {
			t.Fatal(err, w.fault, w.finished)
		}
		even := func(what string, dirs []sim.LinkDir) {
			least, most := w.net.Counters(dirs[0]).DataPackets, int64(0)
			for _, d := range dirs {
				n := w.net.Counters(d).DataPackets
				least, most = min(least, n), max(most, n)
			}
			if float64(most-least) > 0.1*float64(most) { // pieces end with small packets
				t.Errorf("%s carry %d to %d packets", what, least, most)
			}
		}
		for h := range fabric.NodeID(w.f.Hosts()) {
			var up, down []sim.LinkDir
			for q := range w.f.Planes() {
				up, down = append(up, sim.Upward(w.f.HostLink(h, q))), append(down, sim.Downward(w.f.HostLink(h, q)))
			}
			even(w.f.Name(h)+"'s ports", up)
			even(w.f.Name(h)+"'s ports, of what it gets,", down)
		}
		r, err := w.measure()
		if err != nil {
			t.Fatal(err)
		}
		if imbalance := float64(r.UplinkBytesMax) / r.UplinkBytesMean; imbalance > 1.005 {
			t.Errorf("%s: the fullest uplink carries %.3f of the mean", spec.Kind, imbalance)
		}
		if r.Retransmissions+r.Drops != 0 || *r.CCT < *r.Bound || *r.CCT > 1.3**r.Bound {
			t.Errorf("%s: CCT %.1f us, bound %.1f us, %d sent again, %d dropped", spec.Kind, *r.CCT, *r.Bound, r.Retransmissions, r.Drops)
		}
	}
}

// Whatever breaks and whatever reports it: the other planes carry on, and agents are notified by the numbers of the
// whole fabric.
func TestPlanesCut(t *testing.T) {
	if testing.Short() {
		t.Skip("a dozen runs of packets take seconds")
	}
	lab, err := NewLab()
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range planeSpecs {
		for _, event := range []scenario.Event{{Link: "p1tor0-h0"}, {Link: "uplink 2 of p1tor1"}, {Node: "top switch 3"}} {
			event.At, event.Action, event.Detection = 10*fabric.Microsecond, scenario.Cut, 5*fabric.Microsecond
			runs := onPlanes(t, spec, func(s *scenario.Scenario) {
				s.Collectives[0].Bytes = 2e6
				s.Failures = []scenario.Failure{{Name: "cut", Events: []scenario.Event{event}, Notifiers: []scenario.Notifier{
					scenario.NotifyQuench, scenario.NotifyGNMI,
				}}}
				s.Control.GNMIDelay, s.Control.ComputeDelay, s.Control.PushDelay = 0, 0, fabric.Microsecond // sooner than losses show
			})
			for _, run := range runs {
				r, err := lab.Run(context.Background(), run, scenario.Observer{})
				name := fmt.Sprintf("%s, %s%s, %v", spec.Kind, event.Link, event.Node, run.Notifier)
				if err != nil || !r.Finished || *r.CCT < *r.Bound {
					t.Errorf("%s: %v, finished %v", name, err, r.Finished)
					continue
				}
				checkNotified(t, name, run, r)
			}
		}
	}
}

// checkNotified checks that each notifier has reached a host.
func checkNotified(t *testing.T, name string, run scenario.Run, r *report.Result) {
	t.Helper()
	byReason := map[string]int{}
	for _, f := range r.FlipRecords {
		byReason[f.Reason]++
	}
	if run.Notifier == scenario.NotifyQuench && byReason["quench"] == 0 || run.Notifier == scenario.NotifyGNMI && byReason["push"] == 0 {
		t.Errorf("%s: flips by reason %v", name, byReason)
	}
}

// What planes cannot have with packets is refused by name.
func TestPlanesRefused(t *testing.T) {
	lab, err := NewLab()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(s *scenario.Scenario)
		want   string
	}{
		{func(s *scenario.Scenario) { s.Schemes[0].Name = "drb" }, "labels chosen for every packet"},
		{func(s *scenario.Scenario) { s.Schemes[0].Params = map[string]string{"suspicion": "on"} }, "no suspicion with planes"},
		{func(s *scenario.Scenario) { s.Switch.PFC.Alpha = 1 }, "lossless switches"},
		{func(s *scenario.Scenario) { s.Servers.GPUs = 4 }, "servers"},
		{func(s *scenario.Scenario) { s.Fabric.Spines = 65; s.Fabric.HostsPerToR = 65 }, "spines: 65 is outside 1 to 64"},
	} {
		run := onPlanes(t, planeSpecs[0], c.change)[0]
		if _, err := lab.Run(context.Background(), run, scenario.Observer{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
