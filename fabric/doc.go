// Package fabric describes Clos fabrics: their nodes, ports and links, the
// paths between top-of-rack switches, and the labels that name those paths.
//
// A [Fabric] is built once from a [Spec] and never changes; link state, load
// and tables live elsewhere. It is safe for concurrent use.
//
// # Shape
//
// Two tiers (leaf-spine): every ToR has one uplink to every spine. Three tiers
// (fat-tree and its relatives): pods of ToRs and aggregation switches, every
// ToR linked to every aggregation switch of its pod, aggregation switch a of
// every pod linked to the cores a*U .. a*U+U-1, where U is the number of
// uplinks of an aggregation switch.
//
// Planes: either of these, several times over, each with its own switches and links.
// A host has a port into each. The ToRs of a host, one a plane, make its rack; where
// a rack is to be named, [Fabric.ToROf] does, by its ToR in plane 0.
//
// Nodes are numbered hosts first, so that a host's [NodeID] is its rank, then
// ToRs, aggregation switches and cores (or spines), plane by plane within a tier.
// Switch ports are numbered from 1, down-facing ports first; a host has port 1 only,
// with planes port 1+q into plane q.
//
// # Labels
//
// A [Label] names one up-path: the ToR's uplink (two tiers), or the core switch
// (three tiers). Down-paths in a Clos fabric are unique. The bits above name the
// plane, and with it the hosts' ports at both ends. Labels are laid out in
// bits so that a switch of any tier can be programmed with value/mask entries;
// see [Fabric.UplinkMatches].
package fabric
