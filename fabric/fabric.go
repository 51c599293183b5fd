package fabric

import (
	"fmt"
	"net/netip"
	"strings"
)

// Tier is a node's level in the Clos.
type Tier uint8

// The tiers, from the bottom. A spine of a two-tier fabric is a Core.
const (
	Host Tier = iota
	ToR
	Aggregation
	Core
)

func (t Tier) String() string { return [...]string{"host", "tor", "agg", "core"}[t] }

// NodeID numbers the nodes of a fabric: hosts first (a host's NodeID is its
// rank), then ToRs, aggregation switches, cores.
type NodeID int32

// LinkID numbers the links of a fabric: host links, ToR uplinks, aggregation
// uplinks. The host link of rank r is link r, in plane q link q*hosts+r.
type LinkID int32

// PortNo is a P4 port number: 1 and up.
type PortNo uint16

// Node is a host or switch.
type Node struct {
	ID    NodeID
	Tier  Tier
	Plane int // plane of a switch, from 0; 0 for hosts
	Pod   int // 0 in a two-tier fabric; -1 for cores
	Index int // within the tier, across pods and planes: ToR 5 is "tor5"
	ports []LinkID
	down  int // number of ports that face down
}

// Ports returns the number of ports; they are numbered from 1.
func (n *Node) Ports() int { return len(n.ports) }

// Link returns the link at port p, which must be between 1 and n.Ports().
func (n *Node) Link(p PortNo) LinkID { return n.ports[p-1] }

// FirstUplink returns the number of the first up-facing port. Up-facing ports
// are FirstUplink to Ports.
func (n *Node) FirstUplink() PortNo { return PortNo(n.down + 1) }

// Uplinks returns the number of ports that face up.
func (n *Node) Uplinks() int { return len(n.ports) - n.down }

// End is one end of a link.
type End struct {
	Node NodeID
	Port PortNo
}

// Link is a full-duplex link. A is the end nearer the hosts, or of two ToRs the one with the smaller NodeID.
type Link struct {
	ID LinkID
	A  End
	B  End
	LinkSpec
}

// Peer returns the end opposite to node n.
func (l *Link) Peer(n NodeID) End {
	if l.A.Node == n {
		return l.B
	}
	return l.A
}

// Fabric is an immutable fabric. See the package comment for its shape.
type Fabric struct {
	spec                     Spec
	nodes                    []Node
	links                    []Link
	hosts, tors, aggs, cores int // of all planes
	planes                   int
	first                    int // of a view: the plane in its labels
	planeBits                int // label bits above the path's bits
	racks                    int // ToRs of a plane
	torUplinks               int // of a ToR; in a dragonfly the pods that a label can name

	aggUplinks int // uplinks of an aggregation switch; 0 in two tiers
	coreBits   int // low label bits that choose an aggregation switch's uplink
	aggBits    int // label bits above them that choose a ToR's uplink
}

// New builds a fabric, or returns the error of [Spec.Validate].
func New(s Spec) (*Fabric, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	s = s.withDefaults()
	f := &Fabric{spec: s}
	f.planes = max(s.Planes, 1)
	f.racks = s.Pods * s.ToRsPerPod
	f.tors = f.planes * f.racks
	f.hosts = f.racks * s.HostsPerToR
	f.aggs = f.planes * s.Pods * s.AggsPerPod
	f.cores = f.planes * s.Cores
	f.torUplinks = s.Spines
	if f.ThreeTier() {
		f.aggUplinks = s.Cores / s.AggsPerPod
		f.coreBits = bitsFor(f.aggUplinks)
		f.torUplinks = s.AggsPerPod
	}
	if !f.Clos() {
		f.torUplinks = s.Pods
	}
	f.aggBits, f.planeBits = bitsFor(f.torUplinks), bitsFor(f.planes)
	if !f.Clos() {
		f.aggBits = bitsFor(f.torUplinks + 1) // and the minimal path
	}
	f.addNodes()
	f.connect()
	return f, nil
}

func (f *Fabric) addNodes() {
	s := f.spec
	f.nodes = make([]Node, 0, f.hosts+f.tors+f.aggs+f.cores)
	add := func(t Tier, count, planes, perPod int) {
		for i := range count {
			perPlane := count / planes
			pod := -1
			if perPod > 0 {
				pod = i % perPlane / perPod
			}
			f.nodes = append(f.nodes, Node{ID: NodeID(len(f.nodes)), Tier: t, Plane: i / perPlane, Pod: pod, Index: i})
		}
	}
	add(Host, f.hosts, 1, s.ToRsPerPod*s.HostsPerToR)
	add(ToR, f.tors, f.planes, s.ToRsPerPod)
	add(Aggregation, f.aggs, f.planes, s.AggsPerPod)
	add(Core, f.cores, f.planes, 0)
}

func (f *Fabric) connect() {
	s := f.spec
	f.links = make([]Link, 0, f.planes*f.hosts+f.tors*f.torUplinks+f.aggs*f.aggUplinks)
	connect := func(lower, upper NodeID, ls LinkSpec) {
		id := LinkID(len(f.links))
		a, b := &f.nodes[lower], &f.nodes[upper]
		a.ports = append(a.ports, id)
		b.ports = append(b.ports, id)
		f.links = append(f.links, Link{
			ID: id, LinkSpec: ls,
			A: End{lower, PortNo(len(a.ports))}, B: End{upper, PortNo(len(b.ports))},
		})
	}
	for q := range f.planes {
		for h := range f.hosts {
			connect(NodeID(h), f.InPlane(f.ToROf(NodeID(h)), q), s.HostLink)
		}
	}
	if !f.Clos() {
		f.connectDragonfly(connect)
		return
	}
	f.markDown(ToR)
	for t := range f.tors {
		if !f.ThreeTier() {
			for c := range s.Spines {
				connect(f.ToRID(t), f.CoreID(t/f.racks*s.Spines+c), s.ToRUplink)
			}
			continue
		}
		for a := range s.AggsPerPod {
			connect(f.ToRID(t), f.AggID(t/s.ToRsPerPod*s.AggsPerPod+a), s.ToRUplink)
		}
	}
	f.markDown(Aggregation)
	for a := range f.aggs {
		first := f.nodes[f.AggID(a)].Plane*s.Cores + a%s.AggsPerPod*f.aggUplinks
		for u := range f.aggUplinks {
			connect(f.AggID(a), f.CoreID(first+u), s.AggUplink)
		}
	}
	f.markDown(Core)
}

// markDown records, for every node of tier t, that its present ports face down.
func (f *Fabric) markDown(t Tier) {
	for i := range f.nodes {
		if f.nodes[i].Tier == t {
			f.nodes[i].down = len(f.nodes[i].ports)
		}
	}
}

// Spec returns the fabric's spec, with defaults filled in.
func (f *Fabric) Spec() Spec { return f.spec }

// Clos reports whether every path leads up and then down, so that a label alone determines the way up and the
// destination the way down. A dragonfly is no Clos.
func (f *Fabric) Clos() bool { return f.spec.Kind != KindDragonfly }

// ThreeTier reports whether there are aggregation switches.
func (f *Fabric) ThreeTier() bool { return f.spec.Kind == KindFatTree }

// Hosts returns the number of hosts. Their NodeIDs are 0 to Hosts-1.
func (f *Fabric) Hosts() int { return f.hosts }

// ToRs returns the number of top-of-rack switches.
func (f *Fabric) ToRs() int { return f.tors }

// Aggs returns the number of aggregation switches.
func (f *Fabric) Aggs() int { return f.aggs }

// Cores returns the number of core (or spine) switches.
func (f *Fabric) Cores() int { return f.cores }

// Switches returns the number of switches. Their NodeIDs are Hosts to
// Hosts+Switches-1.
func (f *Fabric) Switches() int { return f.tors + f.aggs + f.cores }

// MostPorts returns the number of ports of the switch that has the most.
func (f *Fabric) MostPorts() int {
	most := 0
	for i := range f.Switches() {
		most = max(most, f.Node(NodeID(f.hosts+i)).Ports())
	}
	return most
}

// ToRID returns the NodeID of ToR i.
func (f *Fabric) ToRID(i int) NodeID { return NodeID(f.hosts + i) }

// AggID returns the NodeID of aggregation switch i.
func (f *Fabric) AggID(i int) NodeID { return NodeID(f.hosts + f.tors + i) }

// CoreID returns the NodeID of core switch i.
func (f *Fabric) CoreID(i int) NodeID { return NodeID(f.hosts + f.tors + f.aggs + i) }

// Nodes returns the number of nodes.
func (f *Fabric) Nodes() int { return len(f.nodes) }

// Node returns a node. The pointer is into the fabric and must not be written
// through.
func (f *Fabric) Node(id NodeID) *Node { return &f.nodes[id] }

// Links returns the number of links.
func (f *Fabric) Links() int { return len(f.links) }

// Link returns a link. The pointer is into the fabric and must not be written
// through.
func (f *Fabric) Link(id LinkID) *Link { return &f.links[id] }

// ToROf returns the ToR of a host; with planes the ToR in plane 0, which names the rack.
func (f *Fabric) ToROf(host NodeID) NodeID {
	return f.ToRID(int(host) / f.spec.HostsPerToR)
}

// HostsOf returns the first host under a ToR and the number of hosts.
func (f *Fabric) HostsOf(tor NodeID) (first NodeID, count int) {
	return NodeID(f.nodes[tor].Index % f.racks * f.spec.HostsPerToR), f.spec.HostsPerToR
}

// Name returns a node's name: h3, tor0, agg1, core2, or spine2 in a two-tier fabric. Switches of plane 1 and up are
// prefixed with the plane and numbered from 0: p1tor0.
func (f *Fabric) Name(id NodeID) string {
	n := &f.nodes[id]
	kind, count := n.Tier.String(), 0
	switch n.Tier {
	case Host:
		return fmt.Sprintf("h%d", n.Index)
	case ToR:
		count = f.tors
	case Aggregation:
		count = f.aggs
	case Core:
		count = f.cores
		if !f.ThreeTier() {
			kind = "spine"
		}
	}
	name := fmt.Sprintf("%s%d", kind, n.Index%(count/f.planes))
	if n.Plane > 0 {
		return fmt.Sprintf("p%d%s", n.Plane, name)
	}
	return name
}

// NodeByName returns the node with a name.
func (f *Fabric) NodeByName(name string) (NodeID, error) {
	var digits int
	for digits = len(name); digits > 0 && name[digits-1] >= '0' && name[digits-1] <= '9'; digits-- {
	}
	var index int
	if _, err := fmt.Sscanf(name[digits:], "%d", &index); err == nil {
		base, count := NodeID(0), 0
		kind, plane := name[:digits], 0
		if n, err := fmt.Sscanf(kind, "p%d%s", &plane, &kind); err != nil || n != 2 || plane < 0 || plane >= f.planes {
			plane, kind = 0, name[:digits]
		}
		switch {
		case kind == "h":
			base, count = 0, f.hosts
		case kind == "tor":
			base, count = f.ToRID(0), f.tors
		case kind == "agg":
			base, count = f.AggID(0), f.aggs
		case kind == "core" && f.ThreeTier(), kind == "spine" && !f.ThreeTier():
			base, count = f.CoreID(0), f.cores
		}
		if index < count/f.planes || kind == "h" && index < count {
			if id := base + NodeID(plane*(count/f.planes)+index); f.Name(id) == name {
				return id, nil
			}
		}
	}
	return 0, fmt.Errorf("fabric: no node %q; nodes are %s", name, f.nodeRanges())
}

// nodeRanges lists the nodes of each tier: "h0 to h15, tor0 to tor7".
func (f *Fabric) nodeRanges() string {
	var parts []string
	for first := 0; first < len(f.nodes); {
		last := first
		for last+1 < len(f.nodes) && f.nodes[last+1].Tier == f.nodes[first].Tier && f.nodes[last+1].Plane == f.nodes[first].Plane {
			last++
		}
		part := f.Name(NodeID(first))
		if last > first {
			part += " to " + f.Name(NodeID(last))
		}
		parts = append(parts, part)
		first = last + 1
	}
	return strings.Join(parts, ", ")
}

// LinkName returns a link's name, the lower node first: "tor0-agg1".
func (f *Fabric) LinkName(id LinkID) string {
	l := &f.links[id]
	return f.Name(l.A.Node) + "-" + f.Name(l.B.Node)
}

// LinkBetween returns the link between two nodes.
func (f *Fabric) LinkBetween(a, b NodeID) (LinkID, bool) {
	for _, id := range f.nodes[a].ports {
		if f.links[id].Peer(a).Node == b {
			return id, true
		}
	}
	return 0, false
}

// LinkByName returns the link with a name; either node may come first.
func (f *Fabric) LinkByName(name string) (LinkID, error) {
	for i := range len(name) {
		if name[i] != '-' {
			continue
		}
		a, err := f.NodeByName(name[:i])
		if err != nil {
			return 0, err
		}
		b, err := f.NodeByName(name[i+1:])
		if err != nil {
			return 0, err
		}
		if id, ok := f.LinkBetween(a, b); ok {
			return id, nil
		}
		return 0, fmt.Errorf("fabric: no link between %s and %s", name[:i], name[i+1:])
	}
	return 0, fmt.Errorf("fabric: %q is not a link; write two nodes joined by a dash, as in tor0-%s",
		name, f.Name(f.links[f.HostLinks()].B.Node))
}

// HostAddr4 returns a host's IPv4 address, 10.pod.tor.(2+host), where tor and
// host count within the pod and the rack.
func (f *Fabric) HostAddr4(host NodeID) netip.Addr {
	pod, tor, i := f.positionOf(host)
	return netip.AddrFrom4([4]byte{10, byte(pod), byte(tor), byte(2 + i)})
}

// HostAddr6 returns a host's IPv6 address, fd00:e7:pod:tor::(2+host).
func (f *Fabric) HostAddr6(host NodeID) netip.Addr {
	pod, tor, i := f.positionOf(host)
	return netip.AddrFrom16([16]byte{0xfd, 0, 0, 0xe7, 0, byte(pod), 0, byte(tor), 15: byte(2 + i)})
}

// ToRPrefix4 returns the IPv4 prefix of a ToR's hosts, a /24.
func (f *Fabric) ToRPrefix4(tor NodeID) netip.Prefix {
	first, _ := f.HostsOf(tor)
	return netip.PrefixFrom(f.HostAddr4(first), 24).Masked()
}

// ToRPrefix6 returns the IPv6 prefix of a ToR's hosts, a /64.
func (f *Fabric) ToRPrefix6(tor NodeID) netip.Prefix {
	first, _ := f.HostsOf(tor)
	return netip.PrefixFrom(f.HostAddr6(first), 64).Masked()
}

// PodPrefix4 returns the IPv4 prefix of a pod's hosts, a /16.
func (f *Fabric) PodPrefix4(pod int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(pod)}), 16)
}

// PodPrefix6 returns the IPv6 prefix of a pod's hosts, a /48.
func (f *Fabric) PodPrefix6(pod int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0, 0, 0xe7, 0, byte(pod)}), 48)
}

// HostByAddr returns the host that has the address, of either family.
func (f *Fabric) HostByAddr(a netip.Addr) (NodeID, bool) {
	var pod, tor, i int
	if a.Is4() {
		b := a.As4()
		pod, tor, i = int(b[1]), int(b[2]), int(b[3])-2
	} else {
		b := a.As16()
		pod, tor, i = int(b[5]), int(b[7]), int(b[15])-2
	}
	if i < 0 || i >= f.spec.HostsPerToR || tor >= f.spec.ToRsPerPod || pod >= f.spec.Pods {
		return 0, false
	}
	h := NodeID((pod*f.spec.ToRsPerPod+tor)*f.spec.HostsPerToR + i)
	return h, a == f.HostAddr4(h) || a == f.HostAddr6(h)
}

// MAC returns a node's locally administered MAC address, made from its NodeID.
func (f *Fabric) MAC(id NodeID) [6]byte {
	return [6]byte{0x02, 0xe7, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
}

func (f *Fabric) positionOf(host NodeID) (pod, tor, i int) {
	t := int(host) / f.spec.HostsPerToR
	return t / f.spec.ToRsPerPod, t % f.spec.ToRsPerPod, int(host) % f.spec.HostsPerToR
}
