package flow

import (
	"context"
	"math"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// Two planes of leaves and spines, and three of pods.
var planes = []fabric.Spec{
	{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 4, Planes: 2},
	{Kind: fabric.KindFatTree, K: 4, Planes: 3},
}

func planned(t *testing.T, spec fabric.Spec, c scenario.Collective, scheme scenario.Scheme, events ...scenario.Event) scenario.Run {
	t.Helper()
	s := scenario.Default()
	s.Name, s.Fabric, s.Seeds = "planes", spec, scenario.Seeds{1}
	s.Collectives, s.Schemes = []scenario.Collective{c}, []scenario.Scheme{scheme}
	s.Failures = []scenario.Failure{{Name: "case", Events: events}}
	if len(events) > 0 {
		s.Failures[0].Notifiers = []scenario.Notifier{scenario.NotifyGNMI}
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	return runs[0]
}

func finish(t *testing.T, run scenario.Run) *world {
	t.Helper()
	w, err := newWorld(run)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.simulate(context.Background()); err != nil || !w.finished {
		t.Fatalf("%v: finished %v, %v", run, w.finished, err)
	}
	return w
}

// spread returns how far the links' bytes, away from the hosts and towards them, are from their mean, as a share of it.
func (w *world) spread(links []fabric.LinkID) (worst float64) {
	for way := range 2 {
		mean := 0.0
		for _, l := range links {
			mean += w.carried[2*int(l)+way] / float64(len(links))
		}
		for _, l := range links {
			worst = max(worst, math.Abs(w.carried[2*int(l)+way]/mean-1))
		}
	}
	return worst
}

// Where all hosts send alike, Ethereal loads the uplinks of a rack alike over all planes, and the ports of a host:
// Theorem 1 with the planes' uplinks for those of a ToR. With a share of the uplinks for each host it does so where the
// hosts of a rack, together, have all in equal parts.
func TestPlanesEven(t *testing.T) {
	ethereal := scenario.Scheme{Name: "ethereal"}
	one := scenario.Scheme{Name: "ethereal", Params: map[string]string{"uplinks": "1"}}
	leaf, fat := planes[0], planes[1]
	for _, c := range []struct {
		name   string
		spec   fabric.Spec
		op     scenario.Collective
		scheme scenario.Scheme
	}{
		{"leaf-spine all-to-all", leaf, scenario.Collective{Kind: "all-to-all", Bytes: 64e6}, ethereal},
		{"leaf-spine all-to-all within groups across racks", leaf, scenario.Collective{Kind: "all-to-all", Bytes: 16e6, Group: 4, Stride: 4}, ethereal},
		{"leaf-spine rings across racks", leaf, scenario.Collective{Kind: "all-reduce", Algorithm: "ring", Bytes: 64e6, Group: 4, Stride: 4}, ethereal},
		{"fat-tree all-to-all", fat, scenario.Collective{Kind: "all-to-all", Bytes: 64e6}, ethereal},
		{"fat-tree halving-doubling", fat, scenario.Collective{Kind: "all-reduce", Algorithm: "halving-doubling", Bytes: 64e6}, ethereal},
		{"leaf-spine rings across racks, an uplink each", leaf, scenario.Collective{Kind: "all-reduce", Algorithm: "ring", Bytes: 64e6, Group: 4, Stride: 4}, one},
		{"leaf-spine all-to-all, an uplink each", leaf, scenario.Collective{Kind: "all-to-all", Bytes: 64e6}, one},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := finish(t, planned(t, c.spec, c.op, c.scheme))
			for r := range w.f.Racks() {
				var links []fabric.LinkID
				for q := range w.f.Planes() {
					tor := w.f.Node(w.f.InPlane(w.f.ToRID(r), q))
					for u := range w.f.ToRUplinks() {
						links = append(links, tor.Link(tor.FirstUplink()+fabric.PortNo(u)))
					}
				}
				if off := w.spread(links); off > 0.005 {
					t.Errorf("the uplinks of rack %d are %.2f %% from even", r, 100*off)
				}
			}
			for h := range fabric.NodeID(w.f.Hosts()) {
				var links []fabric.LinkID
				for q := range w.f.Planes() {
					links = append(links, w.f.HostLink(h, q))
				}
				if off := w.spread(links); off > 0.005 {
					t.Errorf("the ports of host %d are %.2f %% from even", h, 100*off)
				}
			}
			bound := virtual.Bound(w.run, w.job)
			if ratio := float64(w.end) / float64(bound); ratio < 1 || ratio > 1.05 {
				t.Errorf("%v, %.3f of the bound, %v", w.end, ratio, bound)
			}
		})
	}
}

// Beside whatever is dead in a plane, a port of a host among it, the collective ends.
func TestPlanesDead(t *testing.T) {
	for _, spec := range planes {
		op := scenario.Collective{Kind: "all-to-all", Bytes: 16e6}
		healthy := finish(t, planned(t, spec, op, scenario.Scheme{Name: "ethereal"}))
		for _, event := range []scenario.Event{
			{Link: "tor0-h1"}, {Link: "p1tor0-h0"}, {Link: "uplink of p1tor1"}, {Node: "p1tor0"}, {Node: "top switch"},
		} {
			event.Action = scenario.Cut
			w := finish(t, planned(t, spec, op, scenario.Scheme{Name: "ethereal"}, event))
			if w.end < healthy.end {
				t.Errorf("%v %v: %v, in the healthy fabric %v", spec.Kind, event, w.end, healthy.end)
			}
			for _, d := range directions(w.run.Events[0]) {
				if w.carried[d] > 0 {
					t.Errorf("%v %v: %.0f bytes on the dead link", spec.Kind, event, w.carried[d])
				}
			}
		}
	}
}

// Agents know the links of planes that are too large for switches' tables all the same.
func TestPlanesTooLargeForTables(t *testing.T) {
	spec := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 2 * fabric.MaxUplinks, HostsPerToR: 16, Planes: 2}
	dead := scenario.Event{Link: "p1tor0-p1spine0", Action: scenario.Cut}
	w := finish(t, planned(t, spec, scenario.Collective{Kind: "all-to-all", Bytes: 32e6}, scenario.Scheme{Name: "ethereal"}, dead))
	for _, d := range directions(w.run.Events[0]) {
		if w.carried[d] > 0 || !w.cut[d] {
			t.Errorf("%.0f bytes on the dead link", w.carried[d])
		}
	}
}
