// Package export writes a fabric's static paths for systems without labels: routers that forward SRv6 micro
// segments (uSID), and libraries that choose a queue pair's UDP source port.
//
// A [Plan] describes the paths; each format is a thin writer of it. A label becomes the list of the switches on its
// path, each a uSID of 16 bits below a common block of 32 bits, followed by the receiving host's uSID: at most six,
// which fit into one IPv6 address. A switch shifts the list and looks up the next uSID in its static routes;
// nothing is learned. A host chooses the list by the label's source port.
package export

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// ErrPlan is wrapped by every error of this package.
var ErrPlan = errors.New("export")

// Plan is a fabric's static paths.
type Plan struct {
	Fabric *fabric.Fabric
}

// New returns the plan of a fabric, or an error if the fabric has more nodes than micro segments (uSIDs, RFC 9800) can
// number.
func New(f *fabric.Fabric) (*Plan, error) {
	if !f.HasUSIDs() {
		return nil, fmt.Errorf("%w: %d nodes, and uSIDs for %d; export a smaller fabric", ErrPlan, f.Nodes(), fabric.MaxUSID)
	}
	return &Plan{f}, nil
}

// Path is one static path between two hosts, with what a packet carries to take it.
type Path struct {
	Src, Dst fabric.NodeID
	Label    fabric.Label
	Nodes    []fabric.NodeID // switches from ToR to ToR, and Dst
	SID      netip.Addr      // IPv6 destination of the outer header: the uSIDs of Nodes
	Port     uint16          // UDP source port that carries Label
}

// Paths returns the paths from one host to another, by label. Hosts of one ToR have none, since no label applies
// between them.
func (p *Plan) Paths(src, dst fabric.NodeID) []Path {
	from, to := p.Fabric.ToROf(src), p.Fabric.ToROf(dst)
	var out []Path
	for _, l := range p.Fabric.PathLabels(from, to) {
		if nodes, ok := p.Fabric.Segments(nil, src, dst, l); ok {
			out = append(out, Path{src, dst, l, nodes, fabric.SID(nodes...), fabric.FirstLabelPort | uint16(l)})
		}
	}
	return out
}

// LinkLocal returns the IPv6 link-local address of a port. The neighbour on the link uses it as next hop.
func LinkLocal(e fabric.End) netip.Addr {
	a := [16]byte{0: 0xfe, 1: 0x80, 12: byte(e.Node >> 8), 13: byte(e.Node), 14: byte(e.Port >> 8), 15: byte(e.Port)}
	return netip.AddrFrom16(a)
}

// Interface returns the name of a port's interface: eth1, eth2, ...
func Interface(p fabric.PortNo) string { return fmt.Sprintf("eth%d", p) }

// Route is a static route of a switch. With several next hops, the hash of the flow selects one.
type Route struct {
	To   netip.Prefix
	Hops []NextHop
}

// NextHop is a next hop of a route: a port, and the neighbour behind it.
type NextHop struct {
	Port fabric.PortNo
	Via  netip.Addr
}

// Routes returns a switch's static routes: to its neighbours' uSIDs, which suffice for labelled packets, and to
// hosts' addresses, for packets without a label.
func (p *Plan) Routes(id fabric.NodeID) []Route {
	var uSIDs, plain []Route
	n := p.Fabric.Node(id)
	var up []NextHop
	for port := fabric.PortNo(1); int(port) <= n.Ports(); port++ {
		there := p.Fabric.Link(n.Link(port)).Peer(id)
		hop := NextHop{port, LinkLocal(there)}
		uSIDs = append(uSIDs, Route{fabric.Locator(there.Node), []NextHop{hop}})
		if p.Fabric.Node(there.Node).Tier > n.Tier {
			up = append(up, hop)
		}
	}
	plain = append(plain, p.routesBelow(id)...)
	if len(up) > 0 {
		plain = append(plain, Route{fabricPrefix6, up})
	}
	return append(uSIDs, plain...)
}

// fabricPrefix6 contains all hosts' addresses.
var fabricPrefix6 = netip.MustParsePrefix("fd00:e7::/32")

// routesBelow returns the routes to hosts below a switch.
func (p *Plan) routesBelow(id fabric.NodeID) []Route {
	var out []Route
	f, n := p.Fabric, p.Fabric.Node(id)
	for port := fabric.PortNo(1); int(port) <= n.Ports(); port++ {
		there := f.Link(n.Link(port)).Peer(id)
		hop := []NextHop{{port, LinkLocal(there)}}
		switch x := f.Node(there.Node); {
		case x.Tier > n.Tier:
		case x.Tier == fabric.Host:
			out = append(out, Route{netip.PrefixFrom(f.HostAddr6(there.Node), 128), hop})
		case x.Tier == fabric.ToR:
			out = append(out, Route{f.ToRPrefix6(there.Node), hop})
		default:
			out = append(out, Route{f.PodPrefix6(x.Pod), hop})
		}
	}
	return out
}
