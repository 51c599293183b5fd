// Package pins supports switches that run SONiC's PINS, whose program is sai_p4 of sonic-net/sonic-pins. sai_p4
// models the routes, next hops and access lists of a switch chip. The controller's tables are translated to
// sai_p4's tables:
//
//	route_v4, route_v6   ipv4_table, ipv6_table of the default VRF
//	ecmp                 wcmp_group_table, whose members watch their ports
//	source_route         acl_ingress_table: UDP to RoCEv2's port, the label's bits of the source port ->
//	redirect_to_nexthop
//
// A [Program] holds the numbers of one sai_p4, of any instantiation that can redirect to a next hop. A [Client]
// replaces the P4Runtime client of one switch: it translates writes from p4src's tables to sai_p4's, and translates
// the answers to reads back. The foundation follows from the switch's place in the fabric and never changes: one
// next hop per port, with its neighbour and router interface, the admission to routing, and the two access-list
// entries that let packets for hosts below skip the labels. The foundation is written first, in the order of
// references, because PINS refuses an entry that refers to a missing one and does not undo part of a batch. An
// entry that is read back counts only if every entry that it refers to is correct. Otherwise the Client reports it
// as one to delete, and it is written anew.
//
// Such a chip sends no quench and no notice, so hosts learn of a dead link from the controller alone. It does not
// try another uplink for a label, so the controller deletes the label's entry, and the packet then follows the
// route's group. ECN marks, buffers and the hash are configured in SONiC. Labels are in the source port only.
// Entries that are not the controller's are left unchanged, also in the access list: such an entry, if it comes
// before the labels' entries, decides, and this package does not see it.
//
// Sources: sai_p4/fixed/routing.p4, l3_admit.p4 and instantiations/google/acl_ingress.p4 of sonic-net/sonic-pins,
// and the restrictions annotated there. No PINS switch has been tried; our switch executes sai_p4 in a test.
//
// A Program is immutable. A Client belongs to one session and is not safe for concurrent use by several writers.
package pins
