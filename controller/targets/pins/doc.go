// Package pins is switches that run SONiC's PINS, whose program is sai_p4 of sonic-net/sonic-pins.
// sai_p4 is no program of ours: it models what a switch chip does with routes, next hops and access lists. What the
// controller's core wants fits into it:
//
//	route_v4, route_v6   ipv4_table, ipv6_table of the default VRF
//	ecmp                 wcmp_group_table, whose members watch their ports
//	source_route         acl_ingress_table: UDP to RoCEv2's port, the label's bits of the source port -> redirect_to_nexthop
//
// A [Program] holds the numbers of one sai_p4, of any instantiation that can redirect to a next hop. A [Client] stands in
// for the P4Runtime client of one switch: it takes what is written in the words of p4src's program and says it in
// sai_p4's, and answers reads the other way. A next hop a port, with its neighbour and router interface, the admission to
// routing, and the two access-list entries that let packets for hosts below pass by the labels, follow from the place of
// the switch in the fabric and never change: the foundation. It is written before all else, in order of
// reference, since PINS refuses what refers to nothing and does not undo part of a batch. An entry that is read back counts only if all
// that it leads to is there as it should be; otherwise it is handed on as one to be deleted, and its like is written anew.
//
// What such a chip does not do: it sends no quench and no notice, so hosts learn of a dead link from the controller
// alone; it does not try another uplink for a label, so the controller takes the label's entry away and the packet
// follows the route's group; its marks of congestion, its buffers and its hash are SONiC's configuration. Labels are
// in the source port alone. Entries that are none of the controller's are left as they are, also those of the access
// list: one that comes before the labels' decides, and nothing here sees it.
//
// Sources: sai_p4/fixed/routing.p4, l3_admit.p4 and instantiations/google/acl_ingress.p4 of sonic-net/sonic-pins, and
// the restrictions annotated there. No PINS switch has been met; our switch executes sai_p4 in a test.
//
// A Program is immutable. A Client is made for one session and is not safe for concurrent use by several that write.
package pins
