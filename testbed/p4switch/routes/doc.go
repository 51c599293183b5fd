// Package routes makes a Linux machine's own routes forward as a switch's tables say: a Linux router as a switch.
//
// [Desired] reads the tables of the Ethereal program from the interpreter's switch, which controllers write over
// P4Runtime as for any other switch, and returns the equivalent routes. [Mirror] writes them to the kernel by
// netlink:
//
//	own_segment            seg6local End with the flavour next-csid
//	route_v6, route_v4     routes; forward_up is a multipath route of the ECMP group's members
//	forward_uplink, dead   the outer header comes off (End.DT6, End.DX4), and the packet goes on by route_v6 or route_v4
//	discard                blackhole
//
// A port that is down is in no route. Next hops need no configured addresses: each is a link-local address made
// from its MAC address, and a permanent neighbour entry.
//
// # What routes cannot express
//
// Labels within a packet (source_route, label_carrier), balancers other than ECMP, ECN marks, source quenches, the
// mark of a rerouted packet, priorities. Such entries have no effect. Every packet within a removed outer header is
// sent on, RoCEv2 or not.
//
// # Needs
//
// CAP_NET_ADMIN, one network namespace per switch (its routes are the main table's), and Linux 6.1 or later. The
// routes have their own protocol number, [Protocol]: the next process finds and removes the routes of a process
// that was killed.
package routes
