package live

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// addressHosts gives every host its addresses and a way to all others, again whenever its interface comes back: the
// kernel removes routes and neighbours with it.
func (x *Fabric) addressHosts() error {
	each := make([]*port.Links, len(x.hosts))
	for i, n := range x.hosts {
		if err := x.address(n); err != nil {
			return fmt.Errorf("live: %s: address: %w", x.f.Name(n.id), err)
		}
		err := x.thread.in(n.ns, func() (err error) {
			each[i], err = port.OpenLinks()
			return errors.Join(err, segmentsHere(HostInterface))
		})
		if err != nil {
			return err
		}
	}
	away := make([]bool, len(x.hosts))
	var err error
	x.addresses, err = followLinks(each, func(i int, l port.Link) {
		if l.Name != HostInterface {
			return
		}
		back := l.Enabled && away[i]
		if away[i] = !l.Enabled; back {
			if err := x.address(x.hosts[i]); err != nil { // it went down again
				x.log.Warn("address of a host whose interface came back", "host", x.f.Name(x.hosts[i].id), "err", err)
			}
		}
	})
	return err
}

// address gives a host its address and routes. Switches do not speak ARP: the ToR's address is entered by hand.
func (x *Fabric) address(n *hostNode) error {
	w, tor, addr := x.wires[x.f.Node(n.id).Link(1)][0], x.f.MAC(x.f.ToROf(n.id)), x.f.HostAddr4(n.id)
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: w.index}}
	own := &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}
	if err := n.handle.AddrReplace(link, &netlink.Addr{IPNet: own}); err != nil {
		return err
	}
	// Everything else lies behind the ToR, which is under the first address of the
	// host's prefix.
	gateway := x.f.ToRPrefix4(x.f.ToROf(n.id)).Addr().Next()
	neighbour := &netlink.Neigh{
		LinkIndex: w.index, State: netlink.NUD_PERMANENT, IP: gateway.AsSlice(), HardwareAddr: tor[:],
	}
	if err := n.handle.NeighSet(neighbour); err != nil {
		return err
	}
	return n.handle.RouteReplace(&netlink.Route{
		LinkIndex: w.index, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}, Gw: gateway.AsSlice(),
		Flags: int(netlink.FLAG_ONLINK), Src: addr.AsSlice(),
	})
}
