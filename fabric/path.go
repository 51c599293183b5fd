package fabric

// Hop is one directed use of a link: it leaves node From through port Port.
type Hop struct {
	Link LinkID
	From NodeID
	Port PortNo
}

// PathLabels returns the labels of all paths from hosts under src to hosts under dst, in label order: one per ToR
// uplink inside a pod or in a two-tier fabric, one per core switch between pods. With planes it returns the paths
// of all planes, whichever plane the ToRs are in. If src is dst it returns nil; with planes, one label per plane.
// In a dragonfly there is one label for each pod but src's, in order of the pods, or one label within a pod.
func (f *Fabric) PathLabels(src, dst NodeID) []Label {
	if src == dst {
		if f.planes == 1 {
			return nil
		}
		ls := make([]Label, f.planes)
		for q := range ls {
			ls[q] = f.LabelFor(q*f.torUplinks, 0)
		}
		return ls
	}
	if !f.Clos() {
		return f.dragonflyLabels(src, dst)
	}
	up := f.Uplinks()
	if !f.ThreeTier() || f.nodes[src].Pod == f.nodes[dst].Pod {
		ls := make([]Label, up)
		for u := range ls {
			ls[u] = f.LabelFor(u, 0)
		}
		return ls
	}
	ls := make([]Label, 0, up*f.aggUplinks)
	for u := range up {
		for v := range f.aggUplinks {
			ls = append(ls, f.LabelFor(u, v))
		}
	}
	return ls
}

// Path appends to hops the switch-to-switch hops from ToR src to ToR dst along label l, and returns the result. ok
// is false, and hops unchanged, for a label that names no path between them. Host links are not included: see
// [Fabric.HostPath]. With planes the path is in the label's plane, whichever plane the ToRs are in.
func (f *Fabric) Path(hops []Hop, src, dst NodeID, l Label) (_ []Hop, ok bool) {
	if !f.Clos() {
		pod, ok := f.Through(l, dst)
		if ok {
			hops = f.dragonflyPath(hops, src, dst, pod)
		}
		return hops, ok
	}
	u, v, ok := f.SplitLabel(l)
	if !ok {
		return hops, false
	}
	q := u / f.torUplinks
	src, dst = f.InPlane(src, q), f.InPlane(dst, q)
	if src == dst {
		return hops, true
	}
	s, d := &f.nodes[src], &f.nodes[dst]
	step := func(from NodeID, p PortNo) NodeID {
		id := f.nodes[from].Link(p)
		hops = append(hops, Hop{id, from, p})
		return f.links[id].Peer(from).Node
	}
	top := step(src, s.FirstUplink()+PortNo(u%f.torUplinks))
	if f.ThreeTier() && s.Pod != d.Pod {
		core := step(top, f.nodes[top].FirstUplink()+PortNo(v))
		top = step(core, PortNo(d.Pod+1))
	}
	step(top, f.downPort(top, d))
	return hops, true
}

// downPort returns the port of the aggregation switch or spine top that leads to ToR d.
func (f *Fabric) downPort(top NodeID, d *Node) PortNo {
	if f.nodes[top].Tier == Aggregation {
		return PortNo(d.Index%f.spec.ToRsPerPod + 1)
	}
	return PortNo(d.Index%f.racks + 1)
}

// PathUses reports whether the path from ToR src to ToR dst along label l
// crosses the link, in either direction.
func (f *Fabric) PathUses(src, dst NodeID, l Label, link LinkID) bool {
	var buf [4]Hop
	hops, _ := f.Path(buf[:0], src, dst, l)
	for _, h := range hops {
		if h.Link == link {
			return true
		}
	}
	return false
}

// LinkAt returns the link at a switch's port. ok is false if the switch has no such port.
func (f *Fabric) LinkAt(id NodeID, p PortNo) (_ LinkID, ok bool) {
	if id < 0 || int(id) >= len(f.nodes) || p < 1 || int(p) > len(f.nodes[id].ports) {
		return 0, false
	}
	return f.nodes[id].ports[p-1], true
}
