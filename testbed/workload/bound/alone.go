package bound

import "github.com/ethereal-fabric/ethereal/fabric"

// Alone returns the time of a message on an otherwise idle fabric, from its first byte at the sender to its last byte
// at the receiver. Switches store and forward, and the message may take all paths at once. Links have the rates of the
// fabric's spec.
func Alone(f *fabric.Fabric, src, dst fabric.NodeID, bytes int64, p Format) fabric.Time {
	s := f.Spec()
	links := []fabric.LinkSpec{s.HostLink, s.ToRUplink, s.AggUplink}
	parallel := []int64{1, int64(f.ToRUplinks()), int64(f.ToRUplinks())}
	tiers := 1
	if from, to := f.ToROf(src), f.ToROf(dst); from != to {
		tiers = 2
		if f.ThreeTier() && f.Node(from).Pod != f.Node(to).Pod {
			tiers = 3
			agg := f.Node(f.AggID(0))
			parallel[2] *= int64(agg.Ports()) - int64(agg.FirstUplink()) + 1
		}
	}
	if !f.Clos() {
		return aloneOn(f, src, dst, bytes, p)
	}
	planes := int64(f.Planes())
	bytes = (bytes + planes - 1) / planes
	packets := p.packets(bytes)
	full := p.Payload + p.Header
	last := bytes - (packets-1)*p.Payload + p.Header
	if packets == 1 {
		full = last
	}
	between := max(0, packets-2) * full // full packets between the first and the last
	took, slowest := s.HostLink.Rate.TimeFor(last), fabric.Time(0)
	if packets == 1 {
		took = 0
	}
	for i, l := range links[:tiers] {
		took += 2 * (l.Delay + l.Rate.TimeFor(full))
		slowest = max(slowest, (l.Rate * fabric.Rate(parallel[i])).TimeFor(between))
	}
	return took + slowest
}

// aloneOn is Alone in a dragonfly, whose narrowest part is a host's link.
func aloneOn(f *fabric.Fabric, src, dst fabric.NodeID, bytes int64, p Format) fabric.Time {
	packets := p.packets(bytes)
	last := bytes - (packets-1)*p.Payload + p.Header
	full := p.Payload + p.Header
	if packets == 1 {
		full = last
	}
	took := f.Spec().HostLink.Rate.TimeFor(bytes + packets*p.Header - full) // behind the first packet
	hops, _ := f.HostPath(nil, src, dst, f.Minimal())
	for _, h := range hops {
		l := f.Link(h.Link)
		took += l.Delay + l.Rate.TimeFor(full)
	}
	return took
}
