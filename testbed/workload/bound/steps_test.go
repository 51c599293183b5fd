package bound

import (
	"math"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// pingPong is a message from a to b, and then one back.
func pingPong(a, b fabric.NodeID, bytes int64) Graph {
	return Graph{Moments: 3, Messages: []Message{
		{Transfer{a, b, bytes}, 0, 1, Never},
		{Transfer{b, a, bytes}, 1, 2, Never},
	}}
}

// TestStepsByHand is the example of docs/bound.md.
func TestStepsByHand(t *testing.T) {
	f := newFabric(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 1})
	format := Format{Payload: 9000, Header: 82, Ack: 86}
	uplink := f.Node(f.ToRID(0)).Link(f.Node(f.ToRID(0)).FirstUplink())
	slow := []Outage{{Link: uplink, Up: true, Rate: 100 * fabric.Gbps, Until: math.MaxInt64}}
	got := Steps(f, pingPong(0, 1, 9000), format, slow)
	const want = 501_660 + 726_560 + 1_503_320 + 181_640 + 2_004_980 + 2_006_880
	if got != want {
		t.Errorf("step bound %v, want %v", got, fabric.Time(want))
	}
	phases := [][]Transfer{{{0, 1, 9000}}, {{1, 0, 9000}}}
	if got, want := CCT(f, phases, format, slow), fabric.Time(4_738_420); got != want {
		t.Errorf("lower bound %v, want %v", got, want)
	}
}

// TestStepsNever: what cannot end has no bound.
func TestStepsNever(t *testing.T) {
	f := newFabric(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 1})
	format := Format{Payload: 9000, Header: 82, Ack: 86}
	uplink := f.Node(f.ToRID(0)).Link(f.Node(f.ToRID(0)).FirstUplink())
	for name, g := range map[string]Graph{
		"received":           pingPong(0, 1, 9000),
		"awaited by nothing": {Moments: 1, Messages: []Message{{Transfer{0, 1, 9000}, 0, Never, Never}}},
		"acknowledged":       {Moments: 2, Messages: []Message{{Transfer{0, 1, 9000}, 0, Never, 1}}},
	} {
		if got := Steps(f, g, format, []Outage{{Link: uplink, Up: true, From: 100, Until: math.MaxInt64}}); got != math.MaxInt64 {
			t.Errorf("%s, over a dead link: %v", name, got)
		}
		if got := Steps(f, g, format, []Outage{{Link: uplink, Up: true, From: 100, Until: fabric.Second}}); got < fabric.Second || got > 2*fabric.Second {
			t.Errorf("%s, over a link that is out for a second: %v", name, got)
		}
	}
	circle := Graph{Moments: 2, Waits: []Wait{{0, 1, 1}, {1, 0, 1}}}
	if got := Steps(f, circle, format, nil); got != math.MaxInt64 {
		t.Errorf("moments that wait for each other: %v", got)
	}
}

// TestStepsCompute: a rank that computes between two messages adds its time, however long the others take.
func TestStepsCompute(t *testing.T) {
	f := newFabric(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 2})
	format := Format{Payload: 9000, Header: 82, Ack: 86}
	g := pingPong(0, 2, 9000)
	plain := Steps(f, g, format, nil)
	const compute = 10 * fabric.Millisecond
	g.Moments = 4 // 3: the computation after message 0
	g.Waits, g.Messages[1].Posted = []Wait{{1, 3, compute}}, 3
	if got := Steps(f, g, format, nil); got != plain+compute {
		t.Errorf("with a computation of %v: %v, without %v", compute, got, plain)
	}
}

// TestStepsGray: of a link that loses packets only what it loses beyond all luck counts, and only for steps.
func TestStepsGray(t *testing.T) {
	f := newFabric(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 1})
	format := Format{Payload: 9000, Header: 82, Ack: 86}
	uplink := f.Node(f.ToRID(0)).Link(f.Node(f.ToRID(0)).FirstUplink())
	for _, tt := range []struct {
		bytes    int64
		loss     float64
		min, max float64 // of the healthy one
	}{
		{9000, 0.5, 1, 1},
		{1e6, 0.01, 1, 1},
		{1e9, 0.5, 1.95, 2}, // it must send twice as much
		{1e9, 0.1, 1.09, 1.0 / 0.9},
	} {
		g := pingPong(0, 1, tt.bytes)
		g.Moments, g.Messages = 2, g.Messages[:1]
		healthy := Steps(f, g, format, nil)
		lossy := []Outage{{Link: uplink, Up: true, Until: math.MaxInt64, Loss: tt.loss}}
		got := Steps(f, g, format, lossy)
		if x := float64(got) / float64(healthy); x < tt.min || x > tt.max {
			t.Errorf("%d B, loss of %v: %v, healthy %v: %.3f times; want %v to %v", tt.bytes, tt.loss, got, healthy, x, tt.min, tt.max)
		}
		phases := [][]Transfer{{{0, 1, tt.bytes}}}
		if a, b := CCT(f, phases, format, nil), CCT(f, phases, format, lossy); a != b {
			t.Errorf("%d B: lower bound %v, with loss %v", tt.bytes, a, b)
		}
	}
}
