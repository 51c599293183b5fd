package bound

import (
	"math"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// maxHops is the number of links of a path between pods.
const maxHops = 6

// cut is a set of links in one direction, of which some traffic must cross one.
type cut struct {
	links        []fabric.LinkID
	up           bool          // the direction in which they are crossed
	tor          fabric.NodeID // the rack from which up leads, by its ToR in plane 0; 0: up is the links' own direction
	fullCapacity capacity
	gray         []grayLink // those of the links that lose packets by chance
	// narrow: at some time the cut carries less than a host can send.
	narrow bool
}

// cuts are those of a fabric: hosts out, hosts in, ToRs up, ToRs down, pods up, pods down.
type cuts struct {
	f         *fabric.Fabric
	format    Format
	all       []cut
	pods      int                           // 0 with two tiers
	latencies [3]*latency                   // within a rack, between racks, between pods; nil until needed
	pairs     map[[2]fabric.NodeID]*latency // in a dragonfly, by ToRs
}

func newCuts(f *fabric.Fabric, format Format, outages []Outage) cuts {
	b := cuts{f: f, format: format}
	if f.ThreeTier() {
		b.pods = f.Spec().Pods
	}
	hosts, racks := f.Hosts(), f.Racks()
	b.all = make([]cut, 2*(hosts+racks+b.pods))
	both := func(up, down int, links []fabric.LinkID) {
		b.all[up], b.all[down] = cut{links: links, up: true}, cut{links: links}
	}
	for h := range hosts {
		links := make([]fabric.LinkID, f.Planes())
		for q := range links {
			links[q] = f.HostLink(fabric.NodeID(h), q)
		}
		both(h, hosts+h, links)
	}
	for t := range racks {
		var links []fabric.LinkID
		for q := range f.Planes() {
			links = append(links, linksAbove(f, f.InPlane(f.ToRID(t), q))...)
		}
		up, down := 2*hosts+t, 2*hosts+racks+t
		both(up, down, links)
		b.all[up].tor, b.all[down].tor = f.ToRID(t), f.ToRID(t)
	}
	pods := make([][]fabric.LinkID, b.pods)
	for a := range f.Aggs() {
		pod := f.Node(f.AggID(a)).Pod
		pods[pod] = append(pods[pod], uplinksOf(f, f.AggID(a))...)
	}
	for p, links := range pods {
		both(2*(hosts+racks)+p, 2*(hosts+racks)+b.pods+p, links)
	}
	b.computeCapacities(outages)
	return b
}

// computeCapacities computes the cuts' capacities.
func (b *cuts) computeCapacities(outages []Outage) {
	type direction struct {
		link fabric.LinkID
		up   bool
	}
	of := map[direction][]Outage{}
	for _, o := range outages {
		d := direction{o.Link, o.Up}
		of[d] = append(of[d], o)
	}
	host := float64(b.f.Link(b.f.HostLink(0, 0)).Rate) * float64(b.f.Planes())
	for i := range b.all {
		c := &b.all[i]
		base := 0.0
		var hit []Outage
		for _, l := range c.links {
			base += float64(b.f.Link(l).Rate)
			up := c.up
			if c.tor != 0 && b.f.InPlane(b.f.Link(l).A.Node, 0) != c.tor { // between two ToRs of a dragonfly
				up = !up
			}
			hit = append(hit, of[direction{l, up}]...)
		}
		c.fullCapacity = capacity{at: []fabric.Time{math.MinInt64}, rate: []float64{base}}
		if len(hit) > 0 {
			c.fullCapacity = b.capacityOf(c.links, hit)
			c.gray = b.grays(hit)
		}
		c.narrow = len(hit) > 0 || base < host
	}
}

// capacityOf returns the capacity of links moment by moment. Gray links count in full.
func (b *cuts) capacityOf(links []fabric.LinkID, hit []Outage) capacity {
	at := []fabric.Time{math.MinInt64}
	for _, o := range hit {
		if o.Loss == 0 {
			at = append(at, o.From, o.Until)
		}
	}
	slices.Sort(at)
	at = slices.Compact(at)
	if at[len(at)-1] == math.MaxInt64 {
		at = at[:len(at)-1]
	}
	out := capacity{at: at, rate: make([]float64, len(at))}
	for i, t := range at {
		for _, l := range links {
			rate := b.f.Link(l).Rate
			for _, o := range hit {
				if o.Loss == 0 && o.Link == l && t >= o.From && t < o.Until {
					rate = min(rate, o.Rate)
				}
			}
			out.rate[i] += float64(rate)
		}
	}
	return out
}

// crossingPlace is where a message crosses a cut: on the path's link number hop, from 0.
type crossingPlace struct{ cut, hop int }

// cutsCrossed appends the cuts that a message crosses, in the order of its path.
func (b *cuts) cutsCrossed(buf []crossingPlace, src, dst fabric.NodeID) []crossingPlace {
	hosts, racks := b.f.Hosts(), b.f.Racks()
	from, to := b.f.Node(b.f.ToROf(src)), b.f.Node(b.f.ToROf(dst))
	buf = append(buf, crossingPlace{int(src), 0})
	last := b.length(src, dst) - 1
	if from.ID != to.ID {
		buf = append(buf, crossingPlace{2*hosts + from.Index, 1})
		if b.pods > 0 && from.Pod != to.Pod {
			pods := 2 * (hosts + racks)
			buf = append(buf, crossingPlace{pods + from.Pod, 2}, crossingPlace{pods + b.pods + to.Pod, 3})
		}
		buf = append(buf, crossingPlace{2*hosts + racks + to.Index, last - 1})
	}
	return append(buf, crossingPlace{hosts + int(dst), last})
}

// latency is the latency of a shortest path; all shortest paths have links of the same tiers.
type latency struct {
	// pre and post are the minimum time from posting to the start of link i, and from the end of the sending on link
	// i to the arrival: of a message of no byte, and of any other.
	pre, post [2][maxHops]fabric.Time
	ack       fabric.Time // minimum return time of an acknowledgement
}

// aroundHop returns the minimum time of a message before and after a link of its path.
func (w *latency) aroundHop(hop int, payload int64) (pre, post fabric.Time) {
	i := min(1, payload)
	return w.pre[i][hop], w.post[i][hop]
}

// latency returns the latency between two hosts.
func (b *cuts) latency(src, dst fabric.NodeID) *latency {
	from, to := b.f.Node(b.f.ToROf(src)), b.f.Node(b.f.ToROf(dst))
	kind := 0
	if from.ID != to.ID {
		kind = 1
		if !b.f.Clos() {
			return b.latencyOf([2]fabric.NodeID{from.ID, to.ID}, src, dst)
		}
	}
	if b.pods > 0 && from.Pod != to.Pod {
		kind = 2
	}
	if b.latencies[kind] == nil {
		b.latencies[kind] = b.newLatency(src, dst)
	}
	return b.latencies[kind]
}

func (b *cuts) newLatency(src, dst fabric.NodeID) *latency {
	var buf [maxHops]fabric.Hop
	hops, _ := b.f.HostPath(buf[:0], src, dst, b.f.Minimal())
	w := &latency{}
	for i := range w.pre {
		small := b.format.smallest(int64(i))
		for hop := range hops {
			w.post[i][hop] = b.fastest(hops[hop].Link).Delay
			for j, h := range hops {
				l := b.fastest(h.Link)
				switch latency := l.Delay + l.Rate.TimeFor(small); {
				case j < hop:
					w.pre[i][hop] += latency
				case j > hop:
					w.post[i][hop] += latency
				}
			}
		}
	}
	for _, h := range hops {
		l := b.fastest(h.Link)
		w.ack += l.Delay + l.Rate.TimeFor(b.format.Ack)
	}
	return w
}

// length returns the number of links of a shortest path.
func (b *cuts) length(src, dst fabric.NodeID) int {
	var buf [maxHops]fabric.Hop
	hops, _ := b.f.HostPath(buf[:0], src, dst, b.f.Minimal())
	return len(hops)
}

// latencyOf is latency between two ToRs of a dragonfly. Its longer paths may begin with other links than its shortest,
// so all links between switches are taken to be as fast as the fastest.
func (b *cuts) latencyOf(tors [2]fabric.NodeID, src, dst fabric.NodeID) *latency {
	w := b.pairs[tors]
	if w == nil {
		if b.pairs == nil {
			b.pairs = map[[2]fabric.NodeID]*latency{}
		}
		w = b.newLatency(src, dst)
		b.pairs[tors] = w
	}
	return w
}

// fastest returns a link's spec, or in a dragonfly the least delay and the largest rate of links between switches.
func (b *cuts) fastest(id fabric.LinkID) fabric.LinkSpec {
	if s := b.f.Spec(); !b.f.Clos() && int(id) >= b.f.HostLinks() {
		return fabric.LinkSpec{Rate: max(s.ToRUplink.Rate, s.AggUplink.Rate), Delay: min(s.ToRUplink.Delay, s.AggUplink.Delay)}
	}
	return b.f.Link(id).LinkSpec
}

// linksAbove returns the links of a ToR to other switches.
func linksAbove(f *fabric.Fabric, tor fabric.NodeID) []fabric.LinkID {
	n := f.Node(tor)
	_, hosts := f.HostsOf(tor)
	var links []fabric.LinkID
	for p := hosts + 1; p <= n.Ports(); p++ {
		links = append(links, n.Link(fabric.PortNo(p)))
	}
	return links
}

func uplinksOf(f *fabric.Fabric, id fabric.NodeID) []fabric.LinkID {
	n := f.Node(id)
	links := make([]fabric.LinkID, 0, n.Uplinks())
	for u := range n.Uplinks() {
		links = append(links, n.Link(n.FirstUplink()+fabric.PortNo(u)))
	}
	return links
}
