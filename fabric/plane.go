package fabric

import "fmt"

// Planes returns the number of planes: separate copies of the fabric that share the hosts.
func (f *Fabric) Planes() int { return f.planes }

// Racks returns the number of racks, which is the number of ToRs per plane.
func (f *Fabric) Racks() int { return f.racks }

// ToRUplinks returns the number of uplinks of a ToR; in a dragonfly, the number of pods, which labels name instead.
func (f *Fabric) ToRUplinks() int { return f.torUplinks }

// Uplinks returns the number of ToR uplinks that a host can reach, over all planes. If a ToR has u uplinks, plane q
// has uplinks q*u to q*u+u-1.
func (f *Fabric) Uplinks() int { return f.planes * f.torUplinks }

// InPlane returns the ToR in plane q of the same rack; tor may be in any plane.
func (f *Fabric) InPlane(tor NodeID, q int) NodeID {
	return f.ToRID(q*f.racks + f.nodes[tor].Index%f.racks)
}

// HostLink returns the link of a host into plane q.
func (f *Fabric) HostLink(host NodeID, q int) LinkID { return LinkID(q*f.hosts + int(host)) }

// HostLinks returns the number of links of hosts, which are links 0 to HostLinks-1.
func (f *Fabric) HostLinks() int { return f.planes * f.hosts }

// PlaneOf returns the plane in a label, or 0 for a label that names no plane.
func (f *Fabric) PlaneOf(l Label) int {
	if q := int(l>>(f.coreBits+f.aggBits)) - f.first; q >= 0 && q < f.planes {
		return q
	}
	return 0
}

// Plane returns plane q as a separate fabric, the view of its controller. Its nodes and links are numbered as in a
// fabric without planes; its labels are those of f that name the plane. A fabric with one plane returns itself.
func (f *Fabric) Plane(q int) (*Fabric, error) {
	if f.planes == 1 {
		return f, nil
	}
	s := f.spec
	s.Planes = 0
	p, err := New(s)
	if err != nil {
		return nil, fmt.Errorf("%w; a fabric of planes with switches has the same limits as one without", err)
	}
	p.first, p.planeBits = q, f.planeBits
	return p, nil
}

// PlaneNode translates a node's ID in [Fabric.Plane] q into its ID in f.
func (f *Fabric) PlaneNode(q int, id NodeID) NodeID {
	i := int(id) - f.hosts
	aggs, cores := f.aggs/f.planes, f.cores/f.planes
	switch {
	case i < 0:
		return id
	case i < f.racks:
		return f.ToRID(q*f.racks + i)
	case i < f.racks+aggs:
		return f.AggID(q*aggs + i - f.racks)
	}
	return f.CoreID(q*cores + i - f.racks - aggs)
}

// InOwnPlane translates a node's ID in f into its ID in the [Fabric.Plane] that the node is in. It is the inverse of
// [Fabric.PlaneNode].
func (f *Fabric) InOwnPlane(id NodeID) NodeID {
	n := &f.nodes[id]
	aggs, cores := f.aggs/f.planes, f.cores/f.planes
	switch n.Tier {
	case ToR:
		return NodeID(f.hosts + n.Index%f.racks)
	case Aggregation:
		return NodeID(f.hosts + f.racks + n.Index%aggs)
	case Core:
		return NodeID(f.hosts + f.racks + aggs + n.Index%cores)
	}
	return id
}

// PlaneLink translates a link's ID in [Fabric.Plane] q into its ID in f.
func (f *Fabric) PlaneLink(q int, id LinkID) LinkID {
	i, up := int(id)-f.hosts, f.racks*f.torUplinks
	switch {
	case i < 0:
		return f.HostLink(NodeID(id), q)
	case i < up:
		return LinkID(f.HostLinks() + q*up + i)
	}
	return LinkID(f.HostLinks() + f.planes*up + q*f.aggs/f.planes*f.aggUplinks + i - up)
}

// LinkInPlane returns the plane of a link, and the link's ID in that [Fabric.Plane]. It is the inverse of
// [Fabric.PlaneLink].
func (f *Fabric) LinkInPlane(id LinkID) (q int, _ LinkID) {
	i, up, above := int(id)-f.HostLinks(), f.racks*f.torUplinks, f.aggs/f.planes*f.aggUplinks
	switch {
	case i < 0:
		return int(id) / f.hosts, id % LinkID(f.hosts)
	case i < f.planes*up:
		return i / up, LinkID(f.hosts + i%up)
	}
	i -= f.planes * up
	return i / above, LinkID(f.hosts + up + i%above)
}

// HostPath appends to hops the path of a packet from host src to host dst along label l, including the hosts' links,
// and returns the result. Under one ToR the label names the plane alone. ok is false, and hops unchanged, for a label
// that names no path between them.
func (f *Fabric) HostPath(hops []Hop, src, dst NodeID, l Label) (_ []Hop, ok bool) {
	q := f.PlaneOf(l)
	from, to := f.InPlane(f.ToROf(src), q), f.InPlane(f.ToROf(dst), q)
	n := len(hops)
	hops = append(hops, Hop{f.HostLink(src, q), src, PortNo(q + 1)})
	if hops, ok = f.Path(hops, from, to, l); !ok {
		return hops[:n], false
	}
	last := f.HostLink(dst, q)
	return append(hops, Hop{last, to, f.links[last].B.Port}), true
}

// NewSinglePlane is [New] for callers that support only Clos fabrics of one plane: see [Fabric.SinglePlane].
func NewSinglePlane(s Spec, who string) (*Fabric, error) {
	f, err := New(s)
	if err != nil {
		return nil, err
	}
	return f, f.SinglePlane(who)
}

// SinglePlane returns a [*SpecError] if f is not one Clos fabric. who names the caller's program in the error.
func (f *Fabric) SinglePlane(who string) error {
	if !f.Clos() {
		return &SpecError{
			Key: "kind", Problem: fmt.Sprintf("%s; %s takes %s or %s", f.spec.Kind, who, KindFatTree, KindLeafSpine),
			Remedy: "write one of these, or run a scenario with --world virtual",
		}
	}
	if f.planes == 1 {
		return nil
	}
	return &SpecError{
		Key: "planes", Problem: fmt.Sprintf("%d; %s takes one plane", f.planes, who),
		Remedy: "leave the key out, or run a scenario with --world virtual or flow",
	}
}
