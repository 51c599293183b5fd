package fabric

import "math/bits"

// Label names one path up: the ToR uplink in two tiers, the core switch in three. Its low bits choose the
// aggregation switch's uplink, the next bits the ToR's uplink, the highest bits the plane. In a dragonfly it names the
// pod through which a packet goes: see [Fabric.Toward].
type Label uint16

// LabelBits is the number of bits of a label. The UDP source ports of RoCEv2 from [FirstLabelPort] on carry labels.
const LabelBits = 14

// Ports and overhead of RoCEv2 packets on Ethernet.
const (
	RoCEPort       = 4791   // UDP destination port of RoCEv2
	FirstLabelPort = 0xC000 // UDP source port that carries label 0; label l is carried by port FirstLabelPort + l
	// FrameOverhead is the number of bytes that a frame takes on the wire beside its own: frame check sequence 4,
	// preamble 8, gap 12.
	FrameOverhead = 24
)

// Match is a ternary match on a label: label l matches if l&Mask == Value.
type Match struct {
	Value, Mask Label
}

// Matches reports whether m matches l.
func (m Match) Matches(l Label) bool { return l&m.Mask == m.Value }

// bitsFor returns the number of bits needed for n values, counted from 0.
func bitsFor(n int) int { return bits.Len(uint(max(n, 1) - 1)) }

// LabelFor returns the label of the path up over ToR uplink u, one of the [Fabric.Uplinks], and, in three tiers,
// uplink v of the next aggregation switch.
func (f *Fabric) LabelFor(u, v int) Label {
	return Label(((f.first+u/f.torUplinks)<<f.aggBits|u%f.torUplinks)<<f.coreBits | v)
}

// SplitLabel is the inverse of [Fabric.LabelFor]. ok is false for a label that names no path of this fabric.
func (f *Fabric) SplitLabel(l Label) (u, v int, ok bool) {
	plane, u, v := int(l>>(f.coreBits+f.aggBits))-f.first, int(l>>f.coreBits)&(1<<f.aggBits-1), int(l)&(1<<f.coreBits-1)
	ok = plane >= 0 && plane < f.planes && u < f.torUplinks && (!f.ThreeTier() || v < f.aggUplinks)
	return plane*f.torUplinks + u, v, ok
}

// LabelSpan returns the smallest label above all labels that switches match: RoCEv2 traffic that must not be
// source-routed uses labels from there up. The range below contains all labels that fit the layout's bits, whether
// or not they name a path, since an aggregation switch does not look at the ToR's bits.
func (f *Fabric) LabelSpan() Label {
	return 1 << (f.coreBits + f.aggBits + f.planeBits)
}

// UplinkMatches returns, per uplink of a switch in port order, the ternary match on the labels that take it. It is
// empty for cores and hosts, and is not used in a dragonfly: see [Fabric.Toward]. The mask includes the bits above a
// label, which must be zero, so that other traffic with a large source port does not match.
func (f *Fabric) UplinkMatches(id NodeID) []Match {
	const all = 1<<LabelBits - 1
	n := &f.nodes[id]
	plane := Label(f.first+n.Plane) << (f.coreBits + f.aggBits)
	ms := make([]Match, 0, n.Uplinks())
	for i := range n.Uplinks() {
		low := Label(1<<f.coreBits - 1)
		switch n.Tier {
		case ToR:
			ms = append(ms, Match{Value: plane | Label(i)<<f.coreBits, Mask: all &^ low})
		case Aggregation:
			// A packet at this switch chose it at the ToR, or was rerouted from a dead uplink: the ToR's bits do
			// not matter, the higher bits do.
			own := Label(1<<(f.coreBits+f.aggBits) - 1)
			ms = append(ms, Match{Value: plane | Label(i), Mask: all&^own | low})
		}
	}
	return ms
}
