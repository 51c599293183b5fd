package flow_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/flow"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// given returns the runs of a case with links that are dead or slow.
func given(
	t *testing.T, spec fabric.Spec, notifier scenario.Notifier, schemes []string, ops []scenario.Collective, events ...scenario.Event,
) []scenario.Run {
	t.Helper()
	s := scenario.Default()
	s.Name, s.Fabric, s.Seeds, s.Collectives = "given", spec, scenario.Seeds{1}, ops
	for _, name := range schemes {
		s.Schemes = append(s.Schemes, scenario.Scheme{Name: name})
	}
	s.Failures = []scenario.Failure{{Name: "case", Events: events, Notifiers: []scenario.Notifier{notifier}}}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

var (
	deadUplink = scenario.Event{Link: "uplink of tor0", Action: scenario.Cut}
	deadTop    = scenario.Event{Link: "top uplink of tor0", Action: scenario.Cut}
	deadSwitch = scenario.Event{Node: "switch above tor0", Action: scenario.Cut}
	halfUplink = scenario.Event{Link: "uplink of tor0", Action: scenario.Degrade, Rate: 200 * fabric.Gbps, Reported: true}
)

// Beside links that are dead or slow before the collective begins, the flow level is as far from packets as in a
// healthy fabric: see docs/results/performance.md.
func TestGivenAgreesWithPackets(t *testing.T) {
	if testing.Short() {
		t.Skip("packet-level runs take seconds")
	}
	lab, err := virtual.NewLab()
	if err != nil {
		t.Fatal(err)
	}
	ops := []scenario.Collective{
		{Kind: "all-to-all", Bytes: 4e6}, {Kind: "all-reduce", Algorithm: "ring", Bytes: 4e6},
		{Kind: "all-gather", Algorithm: "direct", Bytes: 4e6}, {Kind: "all-reduce", Algorithm: "double-binary-tree", Bytes: 4e6},
	}
	fatTree := fabric.Spec{Kind: fabric.KindFatTree, K: 4}
	leafSpine := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 4}
	planes := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 4, Planes: 2}
	for i, c := range []struct {
		name   string
		spec   fabric.Spec
		events []scenario.Event
	}{
		{"leaf-spine, dead uplink", leafSpine, []scenario.Event{deadUplink}},
		{"leaf-spine, dead spine", leafSpine, []scenario.Event{deadSwitch}},
		{"leaf-spine, slow uplink", leafSpine, []scenario.Event{halfUplink}},
		{"fat-tree, dead uplink", fatTree, []scenario.Event{deadUplink}},
		{"fat-tree, dead uplink to a core", fatTree, []scenario.Event{deadTop}},
		{"fat-tree, slow uplink", fatTree, []scenario.Event{halfUplink}},
		{"planes, dead uplink", planes, []scenario.Event{deadUplink}},
		{"planes, slow uplink", planes, []scenario.Event{halfUplink}},
	} {
		notifier := []scenario.Notifier{scenario.NotifyGNMI, scenario.NotifyAll}[i%2]
		for _, run := range given(t, c.spec, notifier, []string{"ethereal", "ecmp", "mp-rdma"}, ops, c.events...) {
			t.Run(fmt.Sprintf("%s/%s/%s", c.name, run.Scheme.Name, run.Collective.Name()), func(t *testing.T) {
				f, err := flow.Run(context.Background(), run, scenario.Observer{})
				if err != nil {
					t.Fatal(err)
				}
				p, err := lab.Run(context.Background(), run, scenario.Observer{})
				if err != nil {
					t.Fatal(err)
				}
				if f.CCT == nil || p.CCT == nil {
					t.Fatalf("flow level %v, packets %v: not finished", f.End, p.End)
				}
				if p.Retransmissions > 0 {
					t.Errorf("%d packets retransmitted, though all know the links", p.Retransmissions)
				}
				t.Logf("flow level %.1f us, packets %.1f us: %+.1f %%; %d flips", *f.CCT, *p.CCT, 100*(*f.CCT / *p.CCT - 1), p.Flips)
				if within := 0.10; math.Abs(*f.CCT / *p.CCT - 1) > within {
					t.Errorf("flow level %.1f us, packets %.1f us: further apart than %.0f %%", *f.CCT, *p.CCT, 100*within)
				}
			})
		}
	}
}

// What is no steady state is refused, with the event's name and the remedy.
func TestRefuses(t *testing.T) {
	const us = fabric.Microsecond
	at := func(e scenario.Event, change func(*scenario.Event)) scenario.Event {
		change(&e)
		return e
	}
	later := at(deadUplink, func(e *scenario.Event) { e.At, e.Detection = 20*us, 10*us })
	spec := fabric.Spec{Kind: fabric.KindFatTree, K: 4}
	for _, c := range []struct {
		name     string
		notifier scenario.Notifier
		scheme   string
		op       scenario.Collective
		events   []scenario.Event
		why      string // "": it is not refused
	}{
		{name: "dead", events: []scenario.Event{deadUplink}},
		{name: "dead and slow, all notify", notifier: scenario.NotifyAll, events: []scenario.Event{deadTop, halfUplink}},
		{name: "cut", events: []scenario.Event{later}, why: "cut uplink of tor0 at 20us: links do not change"},
		{
			name: "cut after a share", why: "cut uplink of tor0 at 30%: links do not change",
			events: []scenario.Event{at(deadUplink, func(e *scenario.Event) { e.When = scenario.Moments{{Share: 0.3}} })},
		},
		{
			name: "restored", why: "restore uplink of tor0 at 20us: only dead and slow links",
			events: []scenario.Event{deadUplink, at(later, func(e *scenario.Event) { e.Action = scenario.Restore })},
		},
		{
			name: "flap", why: "flap uplink of tor0, 2 times, every 20us at 0s: only",
			events: []scenario.Event{at(deadUplink, func(e *scenario.Event) {
				e.Action, e.Period, e.Down, e.Times = scenario.Flap, 20*us, 10*us, 2
			})},
		},
		{
			name: "gray", why: "gray uplink of tor0, 1% lost at 0s: only",
			events: []scenario.Event{at(deadUplink, func(e *scenario.Event) { e.Action, e.Loss = scenario.Gray, 0.01 })},
		},
		{
			name: "drain", why: "drain uplink of tor0 at 0s: only",
			events: []scenario.Event{at(deadUplink, func(e *scenario.Event) { e.Action = scenario.Drain })},
		},
		{name: "controller down", events: []scenario.Event{{Action: scenario.ControllerDown}}, why: "controller-down at 0s: only"},
		{
			name: "unreported", why: "degrade uplink of tor0, 200Gb/s at 0s: no switch reports",
			events: []scenario.Event{at(halfUplink, func(e *scenario.Event) { e.Reported = false })},
		},
		{
			name: "detected later", why: "cut uplink of tor0 at 0s: switches detect it when",
			events: []scenario.Event{at(deadUplink, func(e *scenario.Event) { e.Detection = us })},
		},
		{name: "quench", notifier: scenario.NotifyQuench, events: []scenario.Event{deadUplink}, why: "with notifier quench"},
		{name: "timeout", notifier: scenario.NotifyTimeout, events: []scenario.Event{deadUplink}, why: "with notifier timeout"},
		{name: "drb", scheme: "drb", events: []scenario.Event{deadUplink}, why: "hosts of drb do not know"},
		{name: "lpt", scheme: "lpt", events: []scenario.Event{deadUplink}, why: "hosts of lpt do not know"},
		{
			name: "halving-doubling", op: scenario.Collective{Kind: "all-reduce", Algorithm: "halving-doubling", Bytes: 1e6},
			events: []scenario.Event{deadUplink}, why: "steps of all-reduce/halving-doubling overlap",
		},
		{name: "incast", op: scenario.Collective{Kind: "incast", Bytes: 1e6}, events: []scenario.Event{deadUplink}, why: "incast under ethereal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.op.Kind == "" {
				c.op = scenario.Collective{Kind: "all-to-all", Bytes: 1e6}
			}
			notifier, scheme := cmp.Or(c.notifier, scenario.NotifyGNMI), cmp.Or(c.scheme, "ethereal")
			run := given(t, spec, notifier, []string{scheme}, []scenario.Collective{c.op}, c.events...)[0]
			err := flow.Check(run)
			switch {
			case c.why == "" && err != nil:
				t.Error(err)
			case c.why == "":
				for _, e := range run.Events {
					if !run.KnownBefore(e) {
						t.Errorf("%v is not refused, though not all know it", e)
					}
				}
			case !errors.Is(err, flow.ErrFailure) || !strings.Contains(err.Error(), c.why) || !strings.Contains(err.Error(), "--world virtual"):
				t.Errorf("%v", err)
			}
		})
	}
}

// Who is cut off never gets its messages, as with packets.
func TestSevered(t *testing.T) {
	dead := scenario.Event{Link: "tor0-h0", Action: scenario.Cut}
	op := scenario.Collective{Kind: "all-to-all", Bytes: 1e6}
	run := given(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4}, scenario.NotifyGNMI, []string{"ethereal"}, []scenario.Collective{op}, dead)[0]
	r, err := flow.Run(context.Background(), run, scenario.Observer{})
	if err != nil {
		t.Fatal(err)
	}
	if r.End != report.Deadline {
		t.Errorf("ended as %q at %v us", r.End, r.EndTime)
	}
}
