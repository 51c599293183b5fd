// Package bound computes a lower bound on a collective's completion time: what
// no load balancer can beat on a given fabric.
//
// # Derivation
//
// A collective is a list of phases; a rank posts its sends of phase p once it
// has received all that phase p-1 sends it. Cut the fabric where traffic must
// pass: a host's link out or in, a ToR's uplinks up or down, a pod's links to
// the cores up or down. For a run of phases p..q and a cut c,
//
//	T >= A(p) + drain(c, wire bytes of p..q over c, from A(p)) + latency(c) + Z(q)
//
// A(p), the earliest moment at which any byte of phase p can be sent, is the sum
// over the phases before p of the least time in which any rank can receive its
// share: its wire bytes at its link's rate plus the least path latency. Z(q) is
// the same sum over the phases after q. drain counts the cut's live links only,
// moment by moment, so that a link that is cut takes its capacity away from then
// on. latency(c) is, over the transfers that cross c, the least sum of the
// propagation of every link on the path and the transmission of the transfer's
// smallest packet on every link outside the cut. The bound is the largest value
// over all cuts and over the runs p..p and p..q, q being the last phase that
// crosses the cut, plus the last acknowledgement's way back, since a message is complete when its sender has
// that.
//
// Wire bytes are payload and headers, in packets of full payload; how a scheme
// splits flows only adds to them.
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

// Format is what a packet costs on the wire.
type Format struct {
	Payload int64 // bytes of payload in a full packet
	Header  int64 // bytes added to every data packet, framing included
	Ack     int64 // bytes of an acknowledgement, framing included
}

// wire returns the bytes a message occupies on a link.
func (p Format) wire(payload int64) int64 {
	return payload + p.packets(payload)*p.Header
}

func (p Format) packets(payload int64) int64 {
	return max(1, (payload+p.Payload-1)/p.Payload)
}

// smallest returns the wire size of the smallest packet of a message that is
// sent whole.
func (p Format) smallest(payload int64) int64 {
	if rest := payload % p.Payload; rest != 0 || payload == 0 {
		return rest + p.Header
	}
	return p.Payload + p.Header
}

// Outage takes a link's capacity away, both ways, from From until Until.
type Outage struct {
	Link        fabric.LinkID
	From, Until fabric.Time
}

// CCT returns the bound for a collective that starts at 0. It returns
// math.MaxInt64 when some cut's links are all out for good while it still has
// bytes to carry.
func CCT(f *fabric.Fabric, phases [][]Transfer, format Format, outages []Outage) fabric.Time {
	b := builder{f: f, format: format, outages: outages}
	b.measure(phases)
	n := len(phases)

	// before[p] is A(p), after[p] the sum over phases p and later.
	before, after := make([]fabric.Time, n+1), make([]fabric.Time, n+1)
	for p := range n {
		before[p+1] = before[p] + b.least[p]
	}
	for p := n - 1; p >= 0; p-- {
		after[p] = after[p+1] + b.least[p]
	}
	worst := fabric.Time(0)
	for _, c := range b.cuts {
		if len(c.bytes) == 0 {
			continue
		}
		var tail int64       // bytes of this phase and all later ones
		var rest fabric.Time // Z of the last phase that crosses the cut
		latency := fabric.Time(math.MaxInt64)
		for p := n - 1; p >= 0; p-- {
			if c.bytes[p] == 0 {
				continue
			}
			if tail == 0 {
				rest = after[p+1]
			}
			tail += c.bytes[p]
			latency = min(latency, c.latency[p])
			for _, run := range []struct {
				bytes      int64
				latency, z fabric.Time
			}{{c.bytes[p], c.latency[p], after[p+1]}, {tail, latency, rest}} {
				drained := b.drain(c.links, run.bytes, before[p])
				if drained == math.MaxInt64 {
					return drained
				}
				worst = max(worst, drained+run.latency+run.z)
			}
		}
	}
	return worst + b.ack
}

type cut struct {
	links   []fabric.LinkID
	bytes   []int64       // per phase, on the wire
	latency []fabric.Time // per phase, the least over its transfers
}

type builder struct {
	f       *fabric.Fabric
	format  Format
	outages []Outage

	cuts  []cut         // hosts out, hosts in, ToRs up, ToRs down, pods up, pods down
	least []fabric.Time // per phase: the least time in which a rank receives its share
	ack   fabric.Time   // the least way back of the last acknowledgement
}

// measure fills cuts, least and ack.
func (b *builder) measure(phases [][]Transfer) {
	f := b.f
	pods := 0
	if f.ThreeTier() {
		pods = f.Spec().Pods
	}
	hosts, tors := f.Hosts(), f.ToRs()
	b.cuts = make([]cut, 2*(hosts+tors+pods))
	hostOut, hostIn := 0, hosts
	torUp, torDown := 2*hosts, 2*hosts+tors
	podUp, podDown := 2*(hosts+tors), 2*(hosts+tors)+pods
	for h := range hosts {
		links := []fabric.LinkID{f.Node(fabric.NodeID(h)).Link(1)}
		b.cuts[hostOut+h].links, b.cuts[hostIn+h].links = links, links
	}
	for t := range tors {
		links := uplinksOf(f, f.ToRID(t))
		b.cuts[torUp+t].links, b.cuts[torDown+t].links = links, links
	}
	for a := range f.Aggs() {
		pod := f.Node(f.AggID(a)).Pod
		links := append(b.cuts[podUp+pod].links, uplinksOf(f, f.AggID(a))...)
		b.cuts[podUp+pod].links, b.cuts[podDown+pod].links = links, links
	}

	b.ack = math.MaxInt64
	b.least = make([]fabric.Time, len(phases))
	for p, transfers := range phases {
		for _, t := range transfers {
			if t.Src == t.Dst {
				continue
			}
			links := b.path(t.Src, t.Dst)
			size := b.format.smallest(t.Bytes)
			propagation, transmission, ack := fabric.Time(0), fabric.Time(0), fabric.Time(0)
			for _, l := range links {
				propagation += f.Link(l).Delay
				transmission += f.Link(l).Rate.TimeFor(size)
				ack += f.Link(l).Delay + f.Link(l).Rate.TimeFor(b.format.Ack)
			}
			b.ack = min(b.ack, ack)
			charge := func(i, hop int) {
				c := &b.cuts[i]
				if c.bytes == nil {
					c.bytes, c.latency = make([]int64, len(phases)), make([]fabric.Time, len(phases))
					for q := range c.latency {
						c.latency[q] = math.MaxInt64
					}
				}
				c.bytes[p] += b.format.wire(t.Bytes)
				c.latency[p] = min(c.latency[p], propagation+transmission-f.Link(links[hop]).Rate.TimeFor(size))
			}
			charge(hostOut+int(t.Src), 0)
			charge(hostIn+int(t.Dst), len(links)-1)
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
		b.least[p] = math.MaxInt64
		for h := range hosts {
			c := &b.cuts[hostIn+h]
			if c.bytes == nil || c.bytes[p] == 0 {
				b.least[p] = 0
				break
			}
			rate := f.Link(c.links[0]).Rate
			b.least[p] = min(b.least[p], rate.TimeFor(c.bytes[p])+c.latency[p])
		}
	}
	if b.ack == math.MaxInt64 {
		b.ack = 0
	}
}

// path returns the links from one host to another by the shortest way; all
// shortest ways have links of the same tiers.
func (b *builder) path(src, dst fabric.NodeID) []fabric.LinkID {
	f := b.f
	var hops [4]fabric.Hop
	links := []fabric.LinkID{f.Node(src).Link(1)}
	from, to := f.ToROf(src), f.ToROf(dst)
	if from != to {
		between, _ := f.Path(hops[:0], from, to, 0)
		for _, h := range between {
			links = append(links, h.Link)
		}
	}
	return append(links, f.Node(dst).Link(1))
}

// drain returns when bytes have crossed the links if they begin at start, or
// math.MaxInt64 if they never do.
func (b *builder) drain(links []fabric.LinkID, bytes int64, start fabric.Time) fabric.Time {
	var changes []fabric.Time
	for _, o := range b.outages {
		if slices.Contains(links, o.Link) {
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
		for _, l := range links {
			if !b.out(l, now) {
				rate += b.f.Link(l).Rate
			}
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

func (b *builder) out(l fabric.LinkID, at fabric.Time) bool {
	for _, o := range b.outages {
		if o.Link == l && at >= o.From && at < o.Until {
			return true
		}
	}
	return false
}

func uplinksOf(f *fabric.Fabric, id fabric.NodeID) []fabric.LinkID {
	n := f.Node(id)
	links := make([]fabric.LinkID, 0, n.Uplinks())
	for u := range n.Uplinks() {
		links = append(links, n.Link(n.FirstUplink()+fabric.PortNo(u)))
	}
	return links
}
