package flow

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// switchTables is a switch's tables: those of a healthy fabric, which follow from its shape and take no memory, with
// what a controller has written over them.
type switchTables struct {
	written map[controller.Key]writtenEntry
}

// writtenEntry is the entry written over the default one; nil: it was deleted.
type writtenEntry = *controller.Entry

// write carries out updates.
func (s *switchTables) write(us []controller.Update) {
	if s.written == nil {
		s.written = map[controller.Key]writtenEntry{}
	}
	for _, u := range us {
		if u.Op == controller.Delete {
			s.written[u.Entry.Key] = nil
			continue
		}
		e := u.Entry
		s.written[e.Key] = &e
	}
}

// path is the path of a packet: the directions of links.
type path struct {
	links [maxHops]int32
	hops  int8
	live  bool // the packet arrives: no link is dead, and no switch drops it
}

// direction returns the direction of a link that leads away from a node.
func (w *world) direction(l fabric.LinkID, from fabric.NodeID) int32 {
	if w.f.Link(l).A.Node == from {
		return int32(2 * l)
	}
	return int32(2*l) + 1
}

// follow returns the path of a packet with a label, or with the label's source port.
func (w *world) follow(src, dst fabric.NodeID, l fabric.Label) (p path) {
	plane := w.planeOf(l)
	p.live = true
	cross := func(link fabric.LinkID, from fabric.NodeID) fabric.End {
		d := w.direction(link, from)
		p.links[p.hops] = d
		p.hops++
		p.live = p.live && !w.cut[d]
		return w.f.Link(link).Peer(from)
	}
	at := cross(w.f.HostLink(src, plane), src).Node
	for w.f.Node(at).Tier != fabric.Host {
		port := fabric.PortNo(0)
		if p.hops < maxHops {
			port = w.next(at, src, dst, l)
		}
		if port == 0 {
			p.live = false
			break
		}
		link, _ := w.f.LinkAt(at, port)
		at = cross(link, at).Node
	}
	return p
}

// planeOf returns the plane for a label; switches hash packets without one.
func (w *world) planeOf(l fabric.Label) int {
	switch n := w.f.Planes(); {
	case n == 1:
		return 0
	case l < w.f.LabelSpan():
		return w.f.PlaneOf(l)
	default:
		return int(l) % n
	}
}

// next returns the port through which a switch sends a packet; 0: it drops it.
func (w *world) next(at, src, dst fabric.NodeID, l fabric.Label) fabric.PortNo {
	s := &w.switches[int(at)-w.f.Hosts()]
	port, group := w.route(s, at, dst)
	switch {
	case port > 0:
		return port
	case group < 0:
		return 0
	}
	if port = w.labelPort(s, at, l); port > 0 {
		return port
	}
	return w.groupPort(s, at, uint64(group), w.hash(src, dst, l))
}

// route returns the port down to a host, or the group for packets up to it; -1: they are dropped.
func (w *world) route(s *switchTables, at, dst fabric.NodeID) (port fabric.PortNo, group int64) {
	n := w.f.Node(at)
	tor := w.f.InPlane(w.f.ToROf(dst), n.Plane)
	t := w.f.Node(tor)
	if at == tor {
		return w.f.Link(w.f.HostLink(dst, n.Plane)).B.Port, 0
	}
	if s.written != nil {
		for _, k := range w.prefixes(dst) {
			if e := s.written[k]; e != nil {
				if e.Action == controller.ForwardUp {
					return 0, int64(e.Args[0])
				}
				return 0, -1
			}
			if k.PrefixLen > 0 && w.below(n, t, k) {
				break // the route down has the same prefix length
			}
		}
	}
	switch {
	case n.Tier == fabric.ToR:
		return 0, 0
	case n.Tier == fabric.Aggregation && n.Pod != t.Pod:
		return 0, 0
	}
	return w.portDown(at, tor)
}

// portDown returns the port of an upper-tier switch that leads to a ToR below it.
func (w *world) portDown(at, tor fabric.NodeID) (port fabric.PortNo, group int64) {
	n, t := w.f.Node(at), w.f.Node(tor)
	leads := func(p fabric.PortNo) bool {
		peer := w.f.Node(w.f.Link(n.Link(p)).Peer(at).Node)
		return peer.ID == tor || peer.Tier == fabric.Aggregation && peer.Pod == t.Pod
	}
	guess := t.Index % w.f.Racks()
	switch {
	case n.Tier == fabric.Aggregation:
		guess %= w.f.Spec().ToRsPerPod
	case w.f.ThreeTier():
		guess = t.Pod
	}
	if p := fabric.PortNo(guess + 1); int(p) <= n.Ports() && leads(p) {
		return p, 0
	}
	for p := fabric.PortNo(1); int(p) <= n.Ports(); p++ {
		if leads(p) {
			return p, 0
		}
	}
	return 0, -1
}

// below reports whether a switch's route down to a ToR has a prefix as long as k's.
func (w *world) below(n, t *fabric.Node, k controller.Key) bool {
	torLong := k.PrefixLen == 24 || k.PrefixLen == 64
	switch n.Tier {
	case fabric.Aggregation:
		return torLong && n.Pod == t.Pod
	case fabric.Core:
		return torLong != w.f.ThreeTier()
	}
	return false
}

// prefixes returns the keys of the routes to a host that failures can add, the longest first.
func (w *world) prefixes(dst fabric.NodeID) [3]controller.Key {
	tor := w.f.ToROf(dst)
	pod := w.f.Node(tor).Pod
	table, prefix := controller.RouteV4, [2]netip.Prefix{w.f.ToRPrefix4(tor), w.f.PodPrefix4(pod)}
	if w.run.Scenario.Host.IPv6 {
		table, prefix = controller.RouteV6, [2]netip.Prefix{w.f.ToRPrefix6(tor), w.f.PodPrefix6(pod)}
	}
	keys := [3]controller.Key{{Table: table}, {Table: table}, {Table: table}}
	for i, p := range prefix {
		keys[i].PrefixLen, keys[i].Value = uint8(p.Bits()), controller.AddrValue(p.Addr())
	}
	return keys
}

// labelPort returns the uplink of a label; 0: none.
func (w *world) labelPort(s *switchTables, at fabric.NodeID, l fabric.Label) fabric.PortNo {
	if l >= w.f.LabelSpan() {
		return 0
	}
	n := w.f.Node(at)
	u, v, _ := w.f.SplitLabel(l)
	u %= w.f.ToRUplinks()
	if n.Tier == fabric.Aggregation {
		u = v
	}
	if u >= n.Uplinks() {
		return 0
	}
	if s.written != nil {
		m := w.f.UplinkMatches(at)[u]
		k := controller.Key{Table: controller.SourceRoute, Value: controller.Value{Lo: uint64(m.Value)}, Mask: uint64(m.Mask), Priority: 1}
		if e, ok := s.written[k]; ok && e == nil {
			return 0
		}
	}
	return n.FirstUplink() + fabric.PortNo(u)
}

// groupPort returns the uplink that the ECMP hash selects from a group.
func (w *world) groupPort(s *switchTables, at fabric.NodeID, group uint64, hash uint32) fabric.PortNo {
	n := w.f.Node(at)
	offset := 0
	if n.Tier == fabric.Aggregation && !w.run.Scenario.Switch.EqualHashes {
		offset = aggHashOffset
	}
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], uint16(mixHash(hash)>>offset))
	pick := int32(crc16(b[:]))
	e := s.written[controller.Key{Table: controller.ECMP, Value: controller.Value{Lo: group}}]
	if e == nil {
		return n.FirstUplink() + fabric.PortNo(int(pick)%n.Uplinks())
	}
	total := int32(0)
	for _, m := range e.Members {
		total += m.Weight
	}
	if total == 0 {
		return 0
	}
	pick %= total
	for _, m := range e.Members {
		if pick -= m.Weight; pick < 0 {
			return m.Port
		}
	}
	return 0
}

// aggHashOffset is the number of bits by which aggregation switches shift the hash, as in package controller.
const aggHashOffset = 8

// hash computes hash_flow_v4 or hash_flow_v6 of the P4 program.
func (w *world) hash(src, dst fabric.NodeID, l fabric.Label) uint32 {
	const protocolUDP = 17
	b := binary.BigEndian.AppendUint32(w.hashed[:0], uint32(w.run.Seed))
	if w.run.Scenario.Host.IPv6 {
		s, d := w.f.HostAddr6(src).As16(), w.f.HostAddr6(dst).As16()
		b = append(append(b, s[:]...), d[:]...)
	} else {
		s, d := w.f.HostAddr4(src).As4(), w.f.HostAddr4(dst).As4()
		b = append(append(b, s[:]...), d[:]...)
	}
	b = append(b, protocolUDP)
	b = binary.BigEndian.AppendUint16(b, frame.SourcePort(l))
	b = binary.BigEndian.AppendUint16(b, frame.Port)
	w.hashed = b
	return crc32.ChecksumIEEE(b)
}

// mixHash computes mix_hash of the P4 program.
func mixHash(h uint32) uint32 {
	h = (h ^ h>>15) * 0x85EBCA6B
	h = (h ^ h>>13) * 0xC2B2AE35
	return h ^ h>>16
}

// crc16 computes HashAlgorithm.crc16: the polynomial 0x8005, reflected.
func crc16(b []byte) (crc uint16) {
	for _, x := range b {
		crc ^= uint16(x)
		for range 8 {
			crc = crc>>1 ^ 0xA001*(crc&1)
		}
	}
	return crc
}
