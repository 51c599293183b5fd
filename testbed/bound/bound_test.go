package bound

import (
	"math"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

func newFabric(t *testing.T, s fabric.Spec) *fabric.Fabric {
	t.Helper()
	f, err := fabric.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func permutation(f *fabric.Fabric, bytes int64) [][]Transfer {
	var phase []Transfer
	for h := range f.Hosts() {
		phase = append(phase, Transfer{fabric.NodeID(h), fabric.NodeID((h + f.Hosts()/2) % f.Hosts()), bytes})
	}
	return [][]Transfer{phase}
}

// TestPermutation checks the bound of a 256-packet permutation message against
// arithmetic by hand: 4096 B payload, 62 B headers, 800 Gb/s, six links of 0.5 us
// each way.
func TestPermutation(t *testing.T) {
	link := fabric.LinkSpec{Rate: 800 * fabric.Gbps, Delay: 500 * fabric.Nanosecond}
	f := newFabric(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4, HostLink: link, ToRUplink: link, AggUplink: link})
	got := CCT(f, permutation(f, 256*4096), Format{Payload: 4096, Header: 62}, nil)
	const transmissions = 256 + 5
	wire := fabric.Time(4096+62) * 10 // ps at 800 Gb/s
	want := transmissions*wire + 6*500*fabric.Nanosecond + 6*500*fabric.Nanosecond
	if got != want {
		t.Errorf("bound %v, want %v (with the acknowledgement's 3 us of propagation)", got, want)
	}
}

func TestUplinkCut(t *testing.T) {
	f := newFabric(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
	const bytes = 9_000_000
	format := Format{Payload: 9000, Header: 62}
	healthy := CCT(f, permutation(f, bytes), format, nil)
	link := f.Node(f.ToRID(0)).Link(f.Node(f.ToRID(0)).FirstUplink())

	at := healthy / 2
	cut := CCT(f, permutation(f, bytes), format, []Outage{{link, at, math.MaxInt64}})
	// What was left at the cut takes twice as long on half the uplinks; latencies
	// of a few microseconds are all that differs.
	if want := at + 2*(healthy-at); (cut-want).Micros() > 10 || (want-cut).Micros() > 10 {
		t.Errorf("with a cut at %v: bound %v, want about %v", at, cut, want)
	}
	late := CCT(f, permutation(f, bytes), format, []Outage{{link, 2 * healthy, math.MaxInt64}})
	if late != healthy {
		t.Errorf("a cut after the end changes the bound from %v to %v", healthy, late)
	}
	var both []Outage
	for u := range 2 {
		both = append(both, Outage{f.Node(f.ToRID(0)).Link(f.Node(f.ToRID(0)).FirstUplink() + fabric.PortNo(u)), at, math.MaxInt64})
	}
	if got := CCT(f, permutation(f, bytes), format, both); got != math.MaxInt64 {
		t.Errorf("a ToR cut off for good: bound %v, want none", got)
	}
}

// TestPhasesAddUp: phases that every rank takes part in cost their sum.
func TestPhasesAddUp(t *testing.T) {
	f := newFabric(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	format := Format{Payload: 9000, Header: 62, Ack: 62}
	one := permutation(f, 4_000_000)
	single := CCT(f, one, format, nil)
	three := CCT(f, [][]Transfer{one[0], one[0], one[0]}, format, nil)
	ack := CCT(f, one, format, nil) - CCT(f, one, Format{Payload: 9000, Header: 62}, nil)
	roundTrip := ack + 6*500*fabric.Nanosecond
	if want := 3*(single-roundTrip) + roundTrip; three != want {
		t.Errorf("three phases: %v, want %v", three, want)
	}
}
