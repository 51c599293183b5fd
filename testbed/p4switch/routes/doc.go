// Package routes has a Linux machine's own routes forward what a switch's tables say: a Linux router as a switch.
//
// [Desired] reads the tables of the Ethereal program from the interpreter's switch, which controllers write over
// P4Runtime as any other, and says which routes mean the same. [Mirror] keeps the kernel's so, by netlink:
//
//	own_segment            seg6local End with the flavour next-csid
//	route_v6, route_v4     routes; forward_up is a multipath route of the ECMP group's members
//	forward_uplink, dead   the outer header comes off (End.DT6, End.DX4), and the packet goes on by route_v6 or route_v4
//	discard                blackhole
//
// A port that is down is in no route. Next hops have no addresses of their own: each is a link-local address made from
// its MAC address, and a permanent neighbour entry.
//
// # What routes cannot say
//
// Labels within a packet (source_route, label_carrier), balancers other than ECMP, marks of congestion, source quenches,
// the mark of a packet that went round a dead uplink, priorities. Such entries have no effect. Whatever is within an
// outer header that comes off is sent on, RoCEv2 or not.
//
// # Needs
//
// CAP_NET_ADMIN, a network namespace of its own for each switch (its routes are the main table's), and Linux 6.1 or later.
// Routes are found again by their protocol number, [Protocol]: those of a process that was killed are taken away by the
// next one.
package routes
