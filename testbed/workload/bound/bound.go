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
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Transfer is one message of a phase.
type Transfer struct {
	Src, Dst fabric.NodeID // hosts
	Bytes    int64         // payload
}

// Format is the cost of a packet on the wire.
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

// Outage takes capacity away from one direction of a link, from From until
// Until.
type Outage struct {
	Link        fabric.LinkID
	Up          bool        // the direction away from the hosts
	Rate        fabric.Rate // remaining rate, if less than the link's own; 0: none
	From, Until fabric.Time
}

// CCT returns the bound for a collective that starts at 0. It returns math.MaxInt64 if all links of some cut are
// out for good while it still has bytes to carry.
func CCT(f *fabric.Fabric, phases [][]Transfer, format Format, outages []Outage) fabric.Time {
	b := builder{f: f, format: format, outages: outages}
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
	for _, c := range b.cuts {
		if len(c.phases) == 0 {
			continue
		}
		var tail crossing    // this phase and all later ones
		var rest fabric.Time // Z of the last phase that crosses the cut
		for p := n - 1; p >= 0; p-- {
			phase := c.phases[p]
			if phase.bytes == 0 {
				continue
			}
			if tail.bytes == 0 {
				rest = after[p+1]
			}
			tail.add(phase)
			for _, run := range []struct {
				crossing
				z fabric.Time
			}{{phase, after[p+1]}, {tail, rest}} {
				drained := b.drain(c, run.bytes, before[p]+run.pre)
				if drained == math.MaxInt64 {
					return drained
				}
				worst = max(worst, drained+run.post+run.z)
			}
		}
	}
	return worst + b.ack
}

// crossing is the traffic over a cut.
type crossing struct {
	bytes     int64       // on the wire
	pre, post fabric.Time // minimum time to the cut, and from it
}

func (c *crossing) add(o crossing) {
	if c.bytes == 0 {
		*c = o
		return
	}
	c.bytes, c.pre, c.post = c.bytes+o.bytes, min(c.pre, o.pre), min(c.post, o.post)
}

type cut struct {
	links  []fabric.LinkID
	up     bool       // the direction in which they are crossed
	phases []crossing // empty if no traffic crosses in any phase
}

type builder struct {
	f       *fabric.Fabric
	format  Format
	outages []Outage

	cuts []cut // hosts out, hosts in, ToRs up, ToRs down, pods up, pods down
	// Per phase, the minimum time in which a host receives its share, and in which a host's share is sent and
	// arrives; 0 if some host has none.
	receive, send []fabric.Time
	ack           fabric.Time // minimum return time of the last acknowledgement
}

// measure fills cuts, receive, send and ack.
func (b *builder) measure(phases [][]Transfer) {
	f := b.f
	pods := 0
	if f.ThreeTier() {
		pods = f.Spec().Pods
	}
	hosts, tors := f.Hosts(), f.Racks()
	b.cuts = make([]cut, 2*(hosts+tors+pods))
	hostOut, hostIn := 0, hosts
	torUp, torDown := 2*hosts, 2*hosts+tors
	podUp, podDown := 2*(hosts+tors), 2*(hosts+tors)+pods
	for h := range hosts {
		links := make([]fabric.LinkID, f.Planes())
		for q := range links {
			links[q] = f.HostLink(fabric.NodeID(h), q)
		}
		b.cuts[hostOut+h] = cut{links: links, up: true}
		b.cuts[hostIn+h].links = links
	}
	for t := range tors {
		var links []fabric.LinkID
		for q := range f.Planes() {
			links = append(links, uplinksOf(f, f.InPlane(f.ToRID(t), q))...)
		}
		b.cuts[torUp+t] = cut{links: links, up: true}
		b.cuts[torDown+t].links = links
	}
	for a := range f.Aggs() {
		pod := f.Node(f.AggID(a)).Pod
		links := append(b.cuts[podUp+pod].links, uplinksOf(f, f.AggID(a))...)
		b.cuts[podUp+pod] = cut{links: links, up: true}
		b.cuts[podDown+pod].links = links
	}

	b.ack = math.MaxInt64
	b.receive, b.send = make([]fabric.Time, len(phases)), make([]fabric.Time, len(phases))
	for p, transfers := range phases {
		for _, t := range transfers {
			if t.Src == t.Dst {
				continue
			}
			links := b.path(t.Src, t.Dst)
			charge := func(i, hop int) {
				c := &b.cuts[i]
				if c.phases == nil {
					c.phases = make([]crossing, len(phases))
				}
				c.phases[p].add(b.crossing(t.Bytes, links, hop))
			}
			charge(hostOut+int(t.Src), 0)
			charge(hostIn+int(t.Dst), len(links)-1)
			back := fabric.Time(0)
			for _, l := range links {
				back += f.Link(l).Delay + f.Link(l).Rate.TimeFor(b.format.Ack)
			}
			b.ack = min(b.ack, back)
			src, dst := f.Node(f.ToROf(t.Src)), f.Node(f.ToROf(t.Dst))
			if src.ID == dst.ID {
				continue
			}
			charge(torUp+src.Index, 1)
			charge(torDown+dst.Index, len(links)-2)
			if pods > 0 && src.Pod != dst.Pod {
				charge(podUp+src.Pod, 2)
				charge(podDown+dst.Pod, 3)
			}
		}
		b.send[p] = b.leastShare(b.cuts[hostOut:hostIn], p)
		b.receive[p] = b.leastShare(b.cuts[hostIn:torUp], p)
	}
	if b.ack == math.MaxInt64 {
		b.ack = 0
	}
}

// crossing returns the traffic of a message over the link at hop of its path.
func (b *builder) crossing(payload int64, links []fabric.LinkID, hop int) crossing {
	c := crossing{bytes: b.format.wire(payload), post: b.f.Link(links[hop]).Delay}
	for i, id := range links {
		l := b.f.Link(id)
		switch latency := l.Delay + l.Rate.TimeFor(b.format.smallest(payload)); {
		case i < hop:
			c.pre += latency
		case i > hop:
			c.post += latency
		}
	}
	return c
}

// leastShare returns the minimum time in which a phase's traffic over the link of one of the hosts crosses and
// arrives.
func (b *builder) leastShare(hosts []cut, phase int) fabric.Time {
	least := fabric.Time(math.MaxInt64)
	for _, h := range hosts {
		if h.phases == nil || h.phases[phase].bytes == 0 {
			return 0
		}
		c := h.phases[phase]
		rate := b.f.Link(h.links[0]).Rate * fabric.Rate(len(h.links))
		least = min(least, c.pre+rate.TimeFor(c.bytes)+c.post)
	}
	return least
}

// path returns the links of a shortest path from one host to another; all shortest paths have links of the same
// tiers.
func (b *builder) path(src, dst fabric.NodeID) []fabric.LinkID {
	f := b.f
	var buf [6]fabric.Hop
	hops, _ := f.Way(buf[:0], src, dst, 0)
	links := make([]fabric.LinkID, len(hops))
	for i, h := range hops {
		links[i] = h.Link
	}
	return links
}

// drain returns the time at which bytes have crossed the cut if they begin at start, or math.MaxInt64 if they never
// do.
func (b *builder) drain(c cut, bytes int64, start fabric.Time) fabric.Time {
	var changes []fabric.Time
	for _, o := range b.outages {
		if o.Up == c.up && slices.Contains(c.links, o.Link) {
			changes = append(changes, o.From, o.Until)
		}
	}
	slices.Sort(changes)
	now, left := start, float64(bytes)*8*float64(fabric.Second) // bits x ps/s
	for i := 0; ; i++ {
		next := fabric.Time(math.MaxInt64)
		if i < len(changes) {
			if next = changes[i]; next <= now {
				continue
			}
		}
		rate := fabric.Rate(0)
		for _, l := range c.links {
			rate += b.rate(l, c.up, now)
		}
		if rate > 0 {
			if need := left / float64(rate); next == math.MaxInt64 || now+fabric.Time(need) <= next {
				return now + fabric.Time(need)
			}
			left -= float64(next-now) * float64(rate)
		}
		if next == math.MaxInt64 {
			return next
		}
		now = next
	}
}

// rate returns the rate of a direction of a link at a time.
func (b *builder) rate(l fabric.LinkID, up bool, at fabric.Time) fabric.Rate {
	rate := b.f.Link(l).Rate
	for _, o := range b.outages {
		if o.Link == l && o.Up == up && at >= o.From && at < o.Until {
			rate = min(rate, o.Rate)
		}
	}
	return rate
}

func uplinksOf(f *fabric.Fabric, id fabric.NodeID) []fabric.LinkID {
	n := f.Node(id)
	links := make([]fabric.LinkID, 0, n.Uplinks())
	for u := range n.Uplinks() {
		links = append(links, n.Link(n.FirstUplink()+fabric.PortNo(u)))
	}
	return links
}
