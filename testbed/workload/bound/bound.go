// Package bound computes a lower bound on a collective's completion time: no load balancer can be faster on a given
// fabric, however it splits messages and whichever paths it uses.
//
// # Derivation
//
// A collective is a list of phases. Cut the fabric where traffic must pass: a host's link out or in, a ToR's
// uplinks up or down, a pod's links to the cores up or down. For a run of phases p..q and a cut c,
//
//	T >= drain(c, wire bytes of p..q over c, from A(p) + pre(c)) + post(c) + Z(q) + ack
//
// drain is the time at which the bytes have crossed if they begin at the given time. It counts the surviving
// capacity of the cut's links only, in the direction crossed, moment by moment: a link that is out has no capacity
// during that time, a degraded link a part of its capacity.
//
// Wire bytes are payload and headers, in as few packets as the payload fits into: splitting a message can only add
// packets.
//
// pre(c) is the minimum time from a packet's posting until the cut's link begins to send it. post(c) is the minimum
// time from the end of that sending until the packet has arrived. Both are the propagation of all links on the way,
// plus the transmission on every link outside the cut of the smallest possible packet, one byte and headers. A
// larger packet would be wrong, since a message may be split such that the first packet to cross, or the last, is
// that small.
//
// A(p), the earliest time at which any byte of phase p can be posted, is the sum over the earlier phases of the
// minimum time in which a rank can receive its share of the phase. Z(q) is the minimum time from the arrival of the
// last byte of a message of phase q to the arrival of the collective's last byte. It is the sum over the phases
// after q of the minimum time in which a rank's share of the phase can be sent and arrive: after the arrival a rank
// still has to send its share, whereas the data that it still has to receive may be in flight already. A phase in
// which some host receives nothing adds nothing to A; one in which some host sends nothing adds nothing to Z.
//
// ack is the minimum return time of the last acknowledgement: a message is complete when its sender has it.
//
// The bound is the largest value over all cuts and over the runs p..p and p..q, where q is the last phase that
// crosses the cut.
//
// # Assumptions
//
// Switches store and forward, and all links of a tier are alike. A and Z are valid if a rank posts its sends of a
// phase once it has received everything that the previous phase sends it, as in the direct, ring, halving-doubling
// and whole-vector-doubling algorithms. The phases of a double binary tree are different: the two that sum run side
// by side, and messages of one phase wait for each other. There A and Z are zero, because in every phase some rank
// receives nothing (a leaf that sums, the root that shares) and some rank sends nothing (the root, the leaves). The
// rest (drain, pre, post and ack) holds whatever the order of the messages. A caller with phases of another kind
// must ensure one or the other.
package bound

import (
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Transfer is one message of a phase.
type Transfer struct {
	Src, Dst fabric.NodeID // sending and receiving host
	Bytes    int64         // bytes of payload
}

// Format is the number of bytes that packets take on the wire: the payload of a full packet, and what headers and ACKs
// add.
type Format struct {
	Payload int64 // bytes of payload in a full packet
	Header  int64 // bytes added to every data packet, framing included
	Ack     int64 // bytes of an acknowledgement, framing included
}

// wire returns the minimum number of bytes of a message on a link.
func (p Format) wire(payload int64) int64 {
	return payload + p.packets(payload)*p.Header
}

func (p Format) packets(payload int64) int64 {
	return max(1, (payload+p.Payload-1)/p.Payload)
}

// smallest returns the wire size of the smallest possible packet of a message, which may be split anywhere.
func (p Format) smallest(payload int64) int64 {
	return min(1, payload) + p.Header
}

// Outage is a loss of capacity of one direction of a link, from From until Until.
type Outage struct {
	Link        fabric.LinkID
	Up          bool        // the direction away from the hosts
	Rate        fabric.Rate // remaining rate, if less than the link's own; 0: none
	From, Until fabric.Time
	// Loss is the fraction of packets that a gray link loses; it keeps its rate. [CCT] ignores it, since by chance a
	// run may lose none.
	Loss float64
}

// CCT returns the bound for a collective that starts at 0. It returns math.MaxInt64 if all links of some cut are
// out for good while it still has bytes to carry.
func CCT(f *fabric.Fabric, phases [][]Transfer, format Format, outages []Outage) fabric.Time {
	b := builder{cuts: newCuts(f, format, outages)}
	b.measure(phases)
	n := len(phases)

	// before[p] is A(p), after[p] is Z(p-1).
	before, after := make([]fabric.Time, n+1), make([]fabric.Time, n+1)
	for p := range n {
		before[p+1] = before[p] + b.receive[p]
	}
	for p := n - 1; p >= 0; p-- {
		after[p] = after[p+1] + b.send[p]
	}
	worst := fabric.Time(0)
	for i, traffic := range b.traffic {
		if traffic == nil {
			continue
		}
		var tail cutTraffic  // this phase and all later ones
		var rest fabric.Time // Z of the last phase that crosses the cut
		for p := n - 1; p >= 0; p-- {
			phase := traffic[p]
			if phase.bytes == 0 {
				continue
			}
			if tail.bytes == 0 {
				rest = after[p+1]
			}
			tail.add(phase)
			for _, run := range []struct {
				cutTraffic
				z fabric.Time
			}{{phase, after[p+1]}, {tail, rest}} {
				drained := b.all[i].fullCapacity.drain(run.bytes, before[p]+run.pre)
				if drained == math.MaxInt64 {
					return drained
				}
				worst = max(worst, drained+run.post+run.z)
			}
		}
	}
	return worst + b.ack
}

// cutTraffic is the traffic over a cut.
type cutTraffic struct {
	bytes     int64       // on the wire
	pre, post fabric.Time // minimum time to the cut, and from it
}

func (c *cutTraffic) add(o cutTraffic) {
	if c.bytes == 0 {
		*c = o
		return
	}
	c.bytes, c.pre, c.post = c.bytes+o.bytes, min(c.pre, o.pre), min(c.post, o.post)
}

type builder struct {
	cuts
	traffic [][]cutTraffic // by cut and phase; nil if no traffic crosses the cut in any phase

	// Per phase, the minimum time in which a host receives its share, and in which a host's share is sent and
	// arrives; 0 if some host has none.
	receive, send []fabric.Time
	ack           fabric.Time // minimum return time of the last acknowledgement
}

// measure fills traffic, receive, send and ack.
func (b *builder) measure(phases [][]Transfer) {
	b.traffic = make([][]cutTraffic, len(b.all))
	b.ack = math.MaxInt64
	b.receive, b.send = make([]fabric.Time, len(phases)), make([]fabric.Time, len(phases))
	var buf [maxHops]crossingPlace
	for p, transfers := range phases {
		for _, t := range transfers {
			if t.Src == t.Dst {
				continue
			}
			w := b.latency(t.Src, t.Dst)
			for _, at := range b.cutsCrossed(buf[:0], t.Src, t.Dst) {
				if b.traffic[at.cut] == nil {
					b.traffic[at.cut] = make([]cutTraffic, len(phases))
				}
				pre, post := w.aroundHop(at.hop, t.Bytes)
				b.traffic[at.cut][p].add(cutTraffic{b.format.wire(t.Bytes), pre, post})
			}
			b.ack = min(b.ack, w.ack)
		}
		hosts := b.f.Hosts()
		b.send[p] = b.leastShare(0, hosts, p)
		b.receive[p] = b.leastShare(hosts, 2*hosts, p)
	}
	if b.ack == math.MaxInt64 {
		b.ack = 0
	}
}

// leastShare returns the minimum time in which a phase's traffic over one of the hosts' links, the cuts from first to
// end, crosses and arrives.
func (b *builder) leastShare(first, end, phase int) fabric.Time {
	least := fabric.Time(math.MaxInt64)
	for i := first; i < end; i++ {
		if b.traffic[i] == nil || b.traffic[i][phase].bytes == 0 {
			return 0
		}
		c := b.traffic[i][phase]
		links := b.all[i].links
		rate := b.f.Link(links[0]).Rate * fabric.Rate(len(links))
		least = min(least, c.pre+rate.TimeFor(c.bytes)+c.post)
	}
	return least
}
