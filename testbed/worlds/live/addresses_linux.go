package live

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// addressHosts gives every host its addresses and a way to all others. Switches do
// not speak ARP: the ToR's address is entered by hand.
func (x *Fabric) addressHosts() error {
	for _, n := range x.hosts {
		w := x.wires[x.f.Node(n.id).Link(1)][0]
		tor := x.f.MAC(x.f.ToROf(n.id))
		if err := x.address(n, w, tor[:], x.f.HostAddr4(n.id)); err != nil {
			return fmt.Errorf("live: %s: address: %w", x.f.Name(n.id), err)
		}
		if err := x.thread.in(n.ns, func() error { return segmentsHere(w.name) }); err != nil {
			return err
		}
	}
	return nil
}

func (x *Fabric) address(n *hostNode, w *wire, tor []byte, addr netip.Addr) error {
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: w.index}}
	own := &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}
	if err := n.handle.AddrAdd(link, &netlink.Addr{IPNet: own}); err != nil {
		return err
	}
	// Everything else lies behind the ToR, which is under the first address of the
	// host's prefix.
	gateway := x.f.ToRPrefix4(x.f.ToROf(n.id)).Addr().Next()
	neighbour := &netlink.Neigh{
		LinkIndex: w.index, State: netlink.NUD_PERMANENT, IP: gateway.AsSlice(), HardwareAddr: tor,
	}
	if err := n.handle.NeighSet(neighbour); err != nil {
		return err
	}
	return n.handle.RouteAdd(&netlink.Route{
		LinkIndex: w.index, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}, Gw: gateway.AsSlice(),
		Flags: int(netlink.FLAG_ONLINK), Src: addr.AsSlice(),
	})
}
