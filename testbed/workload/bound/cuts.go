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
	links []fabric.LinkID
	up    bool // the direction in which they are crossed
	full  capacity
	gray  []grayLink // those of the links that lose packets by chance
	// narrow: at some time the cut carries less than a host can send.
	narrow bool
}

// cuts are those of a fabric: hosts out, hosts in, ToRs up, ToRs down, pods up, pods down.
type cuts struct {
	f         *fabric.Fabric
	format    Format
	all       []cut
	pods      int         // 0 with two tiers
	latencies [3]*latency // within a rack, between racks, between pods; nil until needed
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
			links = append(links, uplinksOf(f, f.InPlane(f.ToRID(t), q))...)
		}
		both(2*hosts+t, 2*hosts+racks+t, links)
	}
	pods := make([][]fabric.LinkID, b.pods)
	for a := range f.Aggs() {
		pod := f.Node(f.AggID(a)).Pod
		pods[pod] = append(pods[pod], uplinksOf(f, f.AggID(a))...)
	}
	for p, links := range pods {
		both(2*(hosts+racks)+p, 2*(hosts+racks)+b.pods+p, links)
	}
	b.limit(outages)
	return b
}

// limit computes the cuts' capacities.
func (b *cuts) limit(outages []Outage) {
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
			hit = append(hit, of[direction{l, c.up}]...)
		}
		c.full = capacity{at: []fabric.Time{math.MinInt64}, rate: []float64{base}}
		if len(hit) > 0 {
			c.full = b.pieces(c.links, hit)
			c.gray = b.grays(hit)
		}
		c.narrow = len(hit) > 0 || base < host
	}
}

// pieces returns the capacity of links moment by moment. Gray links count in full.
func (b *cuts) pieces(links []fabric.LinkID, hit []Outage) capacity {
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

// place is where a message crosses a cut: on the path's link number hop, from 0.
type place struct{ cut, hop int }

// crossed appends the cuts that a message crosses, in the order of its path.
func (b *cuts) crossed(buf []place, src, dst fabric.NodeID) []place {
	hosts, racks := b.f.Hosts(), b.f.Racks()
	from, to := b.f.Node(b.f.ToROf(src)), b.f.Node(b.f.ToROf(dst))
	buf = append(buf, place{int(src), 0})
	last := 1
	if from.ID != to.ID {
		buf = append(buf, place{2*hosts + from.Index, 1})
		last = 3
		if b.pods > 0 && from.Pod != to.Pod {
			pods := 2 * (hosts + racks)
			buf = append(buf, place{pods + from.Pod, 2}, place{pods + b.pods + to.Pod, 3})
			last = 5
		}
		buf = append(buf, place{2*hosts + racks + to.Index, last - 1})
	}
	return append(buf, place{hosts + int(dst), last})
}

// latency is the latency of a shortest path; all shortest paths have links of the same tiers.
type latency struct {
	// pre and post are the minimum time from posting to the start of link i, and from the end of the sending on link
	// i to the arrival: of a message of no byte, and of any other.
	pre, post [2][maxHops]fabric.Time
	ack       fabric.Time // minimum return time of an acknowledgement
}

// around returns the minimum time of a message before and after a link of its path.
func (w *latency) around(hop int, payload int64) (pre, post fabric.Time) {
	i := min(1, payload)
	return w.pre[i][hop], w.post[i][hop]
}

// latency returns the latency between two hosts.
func (b *cuts) latency(src, dst fabric.NodeID) *latency {
	from, to := b.f.Node(b.f.ToROf(src)), b.f.Node(b.f.ToROf(dst))
	kind := 0
	if from.ID != to.ID {
		kind = 1
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
	hops, _ := b.f.HostPath(buf[:0], src, dst, 0)
	w := &latency{}
	for i := range w.pre {
		small := b.format.smallest(int64(i))
		for hop := range hops {
			w.post[i][hop] = b.f.Link(hops[hop].Link).Delay
			for j, h := range hops {
				l := b.f.Link(h.Link)
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
		l := b.f.Link(h.Link)
		w.ack += l.Delay + l.Rate.TimeFor(b.format.Ack)
	}
	return w
}

func uplinksOf(f *fabric.Fabric, id fabric.NodeID) []fabric.LinkID {
	n := f.Node(id)
	links := make([]fabric.LinkID, 0, n.Uplinks())
	for u := range n.Uplinks() {
		links = append(links, n.Link(n.FirstUplink()+fabric.PortNo(u)))
	}
	return links
}
