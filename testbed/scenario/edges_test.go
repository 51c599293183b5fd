package scenario_test

import (
	"context"
	"math"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// small returns a scenario of one short run, under a cut and with all that may
// speak speaking.
func small() *scenario.Scenario {
	s := scenario.Default()
	s.Name = "edge"
	s.Fabric = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1}
	s.Collectives = []scenario.Collective{{Kind: collective.Permutation, Bytes: 100e3, Shift: 1}}
	s.Schemes = []scenario.Scheme{{Name: scenario.ECMP}}
	s.Failures = []scenario.Failure{{
		Name: "cut", Events: []scenario.Event{{At: 2 * fabric.Microsecond, Link: "tor0-spine0", Action: scenario.Cut, Detection: fabric.Microsecond}},
		Notifiers: []scenario.Notifier{scenario.NotifyAll},
	}}
	s.Deadline = 30 * fabric.Microsecond
	return &s
}

// TestEdges: what lies just within the limits runs, what lies just outside is
// refused.
func TestEdges(t *testing.T) {
	type edit = func(*scenario.Scenario)
	payload := func(b fabric.Bytes) edit { return func(s *scenario.Scenario) { s.Host.Payload = b } }
	buffer := func(b fabric.Bytes) edit {
		return func(s *scenario.Scenario) { s.Switch.Buffer, s.Switch.ECN.KMin, s.Switch.ECN.KMax = b, 60e3, 60e3 }
	}
	alpha := func(a float64) edit { return func(s *scenario.Scenario) { s.Switch.Alpha = a } }
	cells := func(k fabric.Bytes) edit {
		return func(s *scenario.Scenario) {
			s.Switch.Cell, s.Switch.Buffer = 64, math.MaxInt32
			s.Switch.ECN = scenario.ECN{KMin: 64, KMax: k, PMax: 1}
		}
	}
	cell := func(c fabric.Bytes) edit {
		return func(s *scenario.Scenario) { s.Switch.Cell, s.Switch.ECN.KMin = c, 800e3 }
	}
	pmax := func(p float64) edit { return func(s *scenario.Scenario) { s.Switch.ECN.PMax = p } }
	message := func(b, payload fabric.Bytes) edit {
		return func(s *scenario.Scenario) { s.Collectives[0].Bytes, s.Host.Payload = b, payload }
	}
	link := func(r fabric.Rate, d fabric.Time) edit {
		return func(s *scenario.Scenario) {
			l := fabric.LinkSpec{Rate: r, Delay: d}
			s.Fabric.HostLink, s.Fabric.ToRUplink = l, l
		}
	}
	shape := func(tors, spines, hosts int) edit {
		return func(s *scenario.Scenario) { s.Fabric.ToRs, s.Fabric.Spines, s.Fabric.HostsPerToR = tors, spines, hosts }
	}
	window := func(n int) edit {
		return func(s *scenario.Scenario) { s.Host.ReorderWindow, s.Host.Receiver = n, scenario.SelectiveRepeat }
	}
	ack := func(n int) edit { return func(s *scenario.Scenario) { s.Host.AckEvery = n } }
	quench := func(d fabric.Time) edit { return func(s *scenario.Scenario) { s.Switch.QuenchInterval = d } }
	rto := func(d fabric.Time) edit { return func(s *scenario.Scenario) { s.Host.RTO = d } }

	run := virtual.Runner()
	for _, c := range []struct {
		name    string
		in, out edit
	}{
		{"least payload", payload(256), payload(255)},
		{"largest payload", payload(9600), payload(9601)},
		{"least buffer", buffer(64e3), buffer(64e3 - 1)},
		{"largest buffer", buffer(math.MaxInt32), buffer(math.MaxInt32 + 1)},
		{"least alpha", alpha(1.0 / 256), alpha(1.0 / 257)},
		{"largest alpha", alpha(1024), alpha(1025)},
		{"highest threshold", cells(64<<19 - 1), cells(64 << 19)},
		{"largest cell", cell(64 << 10), cell(64<<10 + 1)},
		{"least pmax", pmax(math.SmallestNonzeroFloat64), pmax(0)},
		{"largest pmax", pmax(1), pmax(1.0001)},
		{"longest message", message(transport.MaxMessage, 9000), message(transport.MaxMessage+1, 9000)},
		{"most packets", message(256<<22, 256), message(256<<22+1, 256)},
		{"slowest link", link(fabric.Mbps, 0), link(fabric.Mbps-1, 0)},
		{"fastest link", link(8*fabric.Tbps, 0), link(8*fabric.Tbps+1, 0)},
		{"longest link", link(400*fabric.Gbps, 1000*fabric.Second), link(400*fabric.Gbps, 1001*fabric.Second)},
		{"most hosts of a ToR", shape(2, 2, 250), shape(2, 2, 251)},
		{"most spines", shape(2, 64, 1), shape(2, 65, 1)},
		{"least window", window(2), window(1)},
		{"largest window", window(1 << 20), window(1<<20 + 1)},
		{"most packets an ACK", ack(65536), ack(65537)},
		{"least quench interval", quench(fabric.Microsecond), quench(fabric.Nanosecond)},
		{"largest quench interval", quench(fabric.Second), quench(fabric.Second + fabric.Microsecond)},
		{"least RTO", rto(fabric.Microsecond), rto(fabric.Nanosecond)},
		{"largest RTO", rto(1000 * fabric.Second), rto(1000*fabric.Second + 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := small()
			c.out(s)
			if err := s.Validate(); err == nil {
				t.Error("what lies outside the limit is taken")
			}
			s = small()
			c.in(s)
			runs, err := s.Expand()
			if err != nil {
				t.Fatalf("what lies within the limit is refused: %v", err)
			}
			if _, err := run(context.Background(), runs[0], scenario.Observer{}); err != nil {
				t.Errorf("what lies within the limit does not run: %v", err)
			}
		})
	}
}

// TestNoDelay: a delay of zero is one, in the fabric that is built.
func TestNoDelay(t *testing.T) {
	s, err := scenario.Parse("x.yaml", []byte(`name: x
fabric: {kind: fat-tree, k: 4, host_link: {delay: 0us}, tor_uplink: {rate: 100Gb/s}}
collectives: [{kind: permutation, bytes: 100KB, shift: 8}]
schemes: [ethereal]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	spec := runs[0].Fabric.Spec()
	for _, c := range []struct{ got, want fabric.LinkSpec }{
		{spec.HostLink, fabric.LinkSpec{Rate: 400 * fabric.Gbps}},
		{spec.ToRUplink, fabric.LinkSpec{Rate: 100 * fabric.Gbps, Delay: 500 * fabric.Nanosecond}},
		{spec.AggUplink, fabric.LinkSpec{Rate: 400 * fabric.Gbps, Delay: 500 * fabric.Nanosecond}},
	} {
		if c.got != c.want {
			t.Errorf("link %+v, want %+v", c.got, c.want)
		}
	}
	r, err := virtual.Runner()(context.Background(), runs[0], scenario.Observer{})
	if err != nil || !r.Finished {
		t.Errorf("over links without delay: %+v, %v", r, err)
	}
}

// TestRingRestore runs the shipped scenario of two cuts and a restore under
// Ethereal: everything arrives, and the controller repairs tables and notifies the
// agents for each of the three events, the return among them.
func TestRingRestore(t *testing.T) {
	s, err := scenario.Load("../scenarios/ring-restore.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.Override(scenario.Override{Schemes: []string{scenario.Ethereal}}); err != nil {
		t.Fatal(err)
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 3 {
		t.Fatalf("%d runs, want the healthy one, quench and gnmi", len(runs))
	}
	run := virtual.Runner()
	for _, r := range runs {
		result, err := run(context.Background(), r, scenario.Observer{})
		if err != nil || !result.Finished {
			t.Errorf("%v: finished %v, %v", r, result.Finished, err)
			continue
		}
		count := map[report.Kind]int{}
		for _, e := range result.Timeline {
			count[e.Kind]++
		}
		failing := r.Notifier != scenario.NotifyNone
		want := map[bool][2]int{false: {0, 0}, true: {2, 1}}[failing]
		if got := [2]int{count[report.KindCut], count[report.KindRestore]}; got != want {
			t.Errorf("%v: %v cuts and restores, want %v", r, got, want)
		}
		if (result.LostToFailure > 0) != failing {
			t.Errorf("%v: %d packets lost", r, result.LostToFailure)
		}
		pushes := map[bool]int{true: 3}[r.Notifier == scenario.NotifyGNMI]
		// Changes are written one after the other, and agents learn of a return when
		// it is written: the last may still be on their way when the collective
		// ends.
		if w, p := count[report.KindWrite], count[report.KindPush]; w > pushes || pushes > 0 && w < 1 || p > pushes || p < pushes-1 {
			t.Errorf("%v: %d repairs and %d pushes, want %d", r, w, count[report.KindPush], pushes)
		}
	}
}
