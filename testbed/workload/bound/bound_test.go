package bound

import (
	"math"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"pgregory.net/rapid"
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
	// 256 packets on the first link, the smallest there can be on five more, at
	// 10 ps per byte; 3 us of propagation, and as much for the acknowledgement.
	want := fabric.Time(256*(4096+62)+5*(1+62))*10 + 6*500*fabric.Nanosecond + 6*500*fabric.Nanosecond
	if got != want {
		t.Errorf("bound %v, want %v", got, want)
	}
}

// TestDemoAllToAll is the example of docs/bound.md.
func TestDemoAllToAll(t *testing.T) {
	f := newFabric(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	var phase []Transfer
	for src := range f.Hosts() {
		for dst := range f.Hosts() {
			if src != dst {
				phase = append(phase, Transfer{fabric.NodeID(src), fabric.NodeID(dst), 16_000_000 / 16})
			}
		}
	}
	got := CCT(f, [][]Transfer{phase}, Format{Payload: 9000, Header: 82, Ack: 86}, nil)
	const want = 302_755_200 + 1_001_660 + 1_003_440 // ps
	if got != want {
		t.Errorf("bound %v, want %v", got, fabric.Time(want))
	}
}

// TestSplit: what a message split into tiny packets can do, one whole packet
// cannot: the bound grows by the packet's payload on one link only.
func TestSplit(t *testing.T) {
	f := newFabric(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	format := Format{Payload: 9000, Header: 82, Ack: 86}
	least := CCT(f, permutation(f, 1), format, nil)
	whole := CCT(f, permutation(f, 9000), format, nil)
	if want := least + 8999*20; whole != want {
		t.Errorf("one packet of 9000 B: bound %v, want %v; of 1 B: %v", whole, want, least)
	}
}

// TestOneSided: a host that takes no part in a phase makes it add nothing to the
// phases around it.
func TestOneSided(t *testing.T) {
	f := newFabric(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
	format := Format{Payload: 9000, Header: 82, Ack: 86}
	all := permutation(f, 90_000)[0]
	gather := []Transfer{{1, 0, 90_000}, {2, 0, 90_000}, {3, 0, 90_000}}
	scatter := []Transfer{{0, 1, 90_000}, {0, 2, 90_000}, {0, 3, 90_000}}
	one := func(phases ...[]Transfer) fabric.Time { return CCT(f, phases, format, nil) }

	// Ranks that receive nothing of gather can be in the next phase at once, but
	// host 0 sends its share of that only when it has gathered.
	const message, smallest = (90_000 + 10*82) * 20, (1 + 82) * 20 // ps
	if got, want := one(gather, all), one(gather)+message+3*smallest+4*500*fabric.Nanosecond; got != want {
		t.Errorf("gather, then a permutation: bound %v, want %v", got, want)
	}
	// Host 0 sends nothing in gather and hosts 1 to 3 nothing in scatter, so
	// that neither phase adds to the other: both fit side by side.
	if got, want := one(gather, scatter), one(gather); got != want {
		t.Errorf("gather, then scatter: bound %v, want %v", got, want)
	}
}

// TestRestored: what a packet does before it reaches a cut, it can do while the
// cut's links are out.
func TestRestored(t *testing.T) {
	f := newFabric(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 1})
	format := Format{Payload: 9000, Header: 82, Ack: 86}
	uplink := f.Node(f.ToRID(0)).Link(f.Node(f.ToRID(0)).FirstUplink())
	const until = 20 * fabric.Microsecond
	got := CCT(f, permutation(f, 9000), format, []Outage{{uplink, true, 0, 0, until, 0}})
	// The packet waits at the ToR; it then crosses three links.
	link := func(bytes int64) fabric.Time { return fabric.Time(bytes)*20 + 500*fabric.Nanosecond }
	want := until + link(9082) + 2*link(83) + 4*link(86)
	if got != want {
		t.Errorf("bound %v, want %v", got, want)
	}
}

func TestUplinkCut(t *testing.T) {
	f := newFabric(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
	const bytes = 9_000_000
	format := Format{Payload: 9000, Header: 62}
	healthy := CCT(f, permutation(f, bytes), format, nil)
	link := f.Node(f.ToRID(0)).Link(f.Node(f.ToRID(0)).FirstUplink())

	at := healthy / 2
	cut := CCT(f, permutation(f, bytes), format, []Outage{{link, true, 0, at, math.MaxInt64, 0}})
	// What was left at the cut takes twice as long on half the uplinks; latencies
	// of a few microseconds are all that differs.
	if want := at + 2*(healthy-at); (cut-want).Micros() > 10 || (want-cut).Micros() > 10 {
		t.Errorf("with a cut at %v: bound %v, want about %v", at, cut, want)
	}
	late := CCT(f, permutation(f, bytes), format, []Outage{{link, true, 0, 2 * healthy, math.MaxInt64, 0}})
	if late != healthy {
		t.Errorf("a cut after the end changes the bound from %v to %v", healthy, late)
	}
	// Degraded to half, one of two links leaves three quarters.
	half := CCT(f, permutation(f, bytes), format, []Outage{{link, true, f.Link(link).Rate / 2, at, math.MaxInt64, 0}})
	if want := at + 4*(healthy-at)/3; (half-want).Micros() > 10 || (want-half).Micros() > 10 {
		t.Errorf("with a link degraded at %v: bound %v, want about %v", at, half, want)
	}
	// One rack sends up and the other down: a way that nobody needs does not matter.
	out := [][]Transfer{{{Src: 0, Dst: 2, Bytes: bytes}}}
	free := CCT(f, out, format, nil)
	if got := CCT(f, out, format, []Outage{{link, false, 0, 0, math.MaxInt64, 0}}); got != free {
		t.Errorf("a cut of the other direction changes the bound from %v to %v", free, got)
	}
	var both []Outage
	for u := range 2 {
		both = append(both, Outage{f.Node(f.ToRID(0)).Link(f.Node(f.ToRID(0)).FirstUplink() + fabric.PortNo(u)), true, 0, at, math.MaxInt64, 0})
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

// TestBoundIsLP: on a leaf-spine whose links are alike the bound is that of the linear
// program that splits messages over paths to make the fullest link's load least. Cut
// evenly, every message loads all uplinks of its ToR alike, so that the fullest link's
// load is that of a cut, and no split can be below a cut. What the bound has beyond it
// is the time of packets on the way.
func TestBoundIsLP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := fabric.Spec{
			Kind: fabric.KindLeafSpine, ToRs: rapid.IntRange(2, 4).Draw(t, "ToRs"), Spines: rapid.IntRange(1, 5).Draw(t, "spines"),
			HostsPerToR: rapid.IntRange(1, 4).Draw(t, "hosts"),
		}
		f, err := fabric.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		const payload = 9000
		var phase []Transfer
		load := map[[2]int]float64{} // by kind of link and its number: bytes
		for src := range f.Hosts() {
			for dst := range f.Hosts() {
				bytes := rapid.Int64Range(0, 1e9).Draw(t, "bytes")
				if src == dst || bytes == 0 {
					continue
				}
				phase = append(phase, Transfer{fabric.NodeID(src), fabric.NodeID(dst), bytes})
				load[[2]int{0, src}] += float64(bytes)
				load[[2]int{1, dst}] += float64(bytes)
				from, to := src/spec.HostsPerToR, dst/spec.HostsPerToR
				if from != to {
					load[[2]int{2, from}] += float64(bytes) / float64(spec.Spines)
					load[[2]int{3, to}] += float64(bytes) / float64(spec.Spines)
				}
			}
		}
		if len(phase) == 0 {
			return
		}
		fullest := 0.0
		for _, bytes := range load {
			fullest = max(fullest, bytes)
		}
		rate := f.Link(f.Node(0).Link(1)).Rate
		least := fabric.Time(fullest * 8 / float64(rate) * float64(fabric.Second))
		got := CCT(f, [][]Transfer{phase}, Format{Payload: payload}, nil)
		if slack := 10 * fabric.Microsecond; got < least-fabric.Nanosecond || got > least+slack {
			t.Fatalf("bound %v, the program's optimum %v", got, least)
		}
	})
}
