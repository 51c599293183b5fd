// Package fabric describes Clos fabrics, and dragonflies: their nodes, ports and links, the paths between top-of-rack
// switches, and the labels that name those paths.
//
// A [Fabric] is built once from a [Spec] and never changes; other packages keep link states, loads and tables. It
// is safe for concurrent use.
//
// # Shape
//
// Two tiers (leaf-spine): every ToR has one uplink to every spine. Three tiers (fat-tree and its relatives): pods
// of ToRs and aggregation switches. Every ToR is linked to every aggregation switch of its pod. Aggregation switch
// a of every pod is linked to the cores a*U .. a*U+U-1, where U is the number of uplinks of an aggregation switch.
//
// Planes: several copies of either shape, each with its own switches and links. A host has one port per plane. The
// ToRs of a host, one per plane, form its rack. [Fabric.ToROf] names a rack by its ToR in plane 0.
//
// Dragonfly: pods of ToRs, linked with each other; see dragonfly.go. It has no tiers above the ToRs.
//
// Nodes are numbered hosts first, so that a host's [NodeID] is its rank, then ToRs, aggregation switches and cores
// (or spines), plane by plane within a tier. Switch ports are numbered from 1, down-facing ports first. A host has
// port 1 only; with planes, port 1+q leads into plane q.
//
// # Labels
//
// A [Label] names one path up: the ToR's uplink (two tiers), or the core switch (three tiers). Paths down are
// unique in a Clos fabric. The higher bits name the plane, and so the hosts' ports at both ends. Labels are laid
// out in bits so that value/mask entries can program a switch of any tier; see [Fabric.UplinkMatches].
package fabric
