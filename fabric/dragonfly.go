package fabric

// A dragonfly (Kim, Dally, Scott and Abts, ISCA 2008) has pods of ToRs, which the literature calls groups of routers.
// Each ToR is linked to the other ToRs of its pod, and by GlobalLinks links to other pods. Each two pods share one
// link: the k-th global link of pod g, counted over its ToRs, leads to pod g+k+1, modulo the number of pods.
//
// A label names a pod. A packet goes to that pod, from there to the destination's pod, and in it to the destination.
// The label of the minimal path names no pod, so that no switch matches it: whatever links die, such packets go as
// those without label. On a whole fabric the destination's own pod, and the source's, mean the minimal path, too. Ports
// of a ToR are those of its hosts, then of its pod in order, then the global ones in order of the peer's pod: only
// these count as uplinks.

// Minimal returns the label of a shortest path between any two hosts. In a dragonfly it is that of all minimal paths.
// In a Clos fabric all paths between two hosts are equally long, and it is the first label.
func (f *Fabric) Minimal() Label {
	if f.Clos() {
		return f.LabelFor(0, 0)
	}
	return Label(f.torUplinks)
}

// Through returns the pod through which a packet with a label goes to ToR dst of a dragonfly; for the minimal path it
// is dst's. ok is false for a label that no path has.
func (f *Fabric) Through(l Label, dst NodeID) (pod int, ok bool) {
	if l == f.Minimal() {
		return f.nodes[dst].Pod, true
	}
	return int(l), int(l) < f.torUplinks
}

// Toward returns the port through which ToR tor of a dragonfly sends a packet to another pod on a minimal path: its own
// link to that pod, or the port to the ToR of its pod that has one.
func (f *Fabric) Toward(tor NodeID, pod int) PortNo {
	n, s := &f.nodes[tor], &f.spec
	if at := f.gateway(n.Pod, pod); at != tor {
		return f.ToNeighbour(tor, at)
	}
	first := n.Index % s.ToRsPerPod * s.GlobalLinks // of its global links
	port := n.FirstUplink()
	for k := first; k < first+s.GlobalLinks; k++ {
		if (n.Pod+k+1)%s.Pods < pod {
			port++
		}
	}
	return port
}

// gateway returns the ToR of a pod that has the link to another.
func (f *Fabric) gateway(pod, to int) NodeID {
	s := &f.spec
	return f.ToRID(pod*s.ToRsPerPod + (to-pod-1+s.Pods)%s.Pods/s.GlobalLinks)
}

// GlobalLink returns the link between two pods of a dragonfly.
func (f *Fabric) GlobalLink(a, b int) LinkID {
	at := f.gateway(a, b)
	return f.nodes[at].Link(f.Toward(at, b))
}

// ToNeighbour returns the port of a ToR of a dragonfly that leads to another ToR of its pod.
func (f *Fabric) ToNeighbour(tor, other NodeID) PortNo {
	own, i := f.nodes[tor].Index%f.spec.ToRsPerPod, f.nodes[other].Index%f.spec.ToRsPerPod
	if i > own {
		i--
	}
	return PortNo(f.spec.HostsPerToR + i + 1)
}

// connectDragonfly connects the ToRs, whose hosts are connected.
func (f *Fabric) connectDragonfly(connect func(a, b NodeID, ls LinkSpec)) {
	s := &f.spec
	for t := range f.tors {
		for o := t + 1; o < (t/s.ToRsPerPod+1)*s.ToRsPerPod; o++ {
			connect(f.ToRID(t), f.ToRID(o), s.ToRUplink)
		}
	}
	f.markDown(ToR)
	for a := range s.Pods {
		for b := a + 1; b < s.Pods; b++ {
			connect(f.gateway(a, b), f.gateway(b, a), s.AggUplink)
		}
	}
}

// dragonflyLabels is [Fabric.PathLabels] for two different ToRs.
func (f *Fabric) dragonflyLabels(src, dst NodeID) []Label {
	own := f.nodes[src].Pod
	if f.nodes[dst].Pod == own {
		return []Label{f.Minimal()}
	}
	ls := make([]Label, 0, f.spec.Pods-1)
	for pod := range f.spec.Pods {
		switch pod {
		case own:
		case f.nodes[dst].Pod:
			ls = append(ls, f.Minimal())
		default:
			ls = append(ls, f.LabelFor(pod, 0))
		}
	}
	return ls
}

// dragonflyPath appends the hops of the path through a pod.
func (f *Fabric) dragonflyPath(hops []Hop, src, dst NodeID, pod int) []Hop {
	for at := src; at != dst; {
		n, d := &f.nodes[at], &f.nodes[dst]
		if n.Pod == pod {
			pod = d.Pod // the path turns here
		}
		port := f.ToNeighbour(at, dst)
		if n.Pod != d.Pod {
			port = f.Toward(at, pod)
		}
		link := n.Link(port)
		hops = append(hops, Hop{link, at, port})
		at = f.links[link].Peer(at).Node
	}
	return hops
}

// dragonflyTrip is [Fabric.RoundTrip] between two racks.
func (f *Fabric) dragonflyTrip(a, b NodeID, there, back int64) (longest Time) {
	var buf [maxDragonflyHops]Hop
	for _, l := range f.dragonflyLabels(f.ToROf(a), f.ToROf(b)) {
		hops, _ := f.HostPath(buf[:0], a, b, l)
		trip := Time(0)
		for _, h := range hops {
			trip += f.links[h.Link].oneTrip(there, back)
		}
		longest = max(longest, trip)
	}
	return longest
}

// maxDragonflyHops is the largest number of links between hosts: two of hosts, three of pods, two global ones.
const maxDragonflyHops = 7

func (f *Fabric) dragonflyLongestTrip(there, back int64) Time {
	return f.spec.HostLink.roundTrip(there, back) + 3*f.spec.ToRUplink.oneTrip(there, back) + f.spec.AggUplink.roundTrip(there, back)
}

// HostShare returns the rate at which each host can send if all send at once, each to hosts of all other pods of a
// dragonfly by minimal paths. In a Clos it is the rate of the host's link, also if its uplinks are oversubscribed.
func (f *Fabric) HostShare() Rate {
	s := &f.spec
	rate := s.HostLink.Rate
	if f.Clos() {
		return rate
	}
	rate = min(rate, s.AggUplink.Rate*Rate(s.GlobalLinks)/Rate(s.HostsPerToR))
	if s.ToRsPerPod == 1 {
		return rate
	}
	// A link within a pod carries a part of two ToRs' traffic, what leaves the pod and what enters it.
	return min(rate, s.ToRUplink.Rate*Rate(s.ToRsPerPod)/Rate(2*s.HostsPerToR))
}
