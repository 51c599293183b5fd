// Package dragonfly describes dragonfly fabrics (Kim, Dally, Scott and Abts, ISCA
// 2008) and names the paths through them. A [Fabric] is built once from a [Spec]
// and never changes; it is safe for concurrent use.
//
// # Shape
//
// Groups of a routers, each router with p hosts and h global links. The routers of
// a group are linked with each other, and a*h global links lead from each group to
// the others: one to each if there are a*h+1 groups, the canonical size. Of fewer
// groups every two have as many links as divide evenly, and the ports left over
// stay empty. Which port leads where is the [Arrangement].
//
// # Channels
//
// A channel is one direction of a link: channel 2*l leads from link l's A to its B,
// channel 2*l+1 back. A path is a list of channels, those of the hosts' links
// included. There is no tier, no up and no down: nothing here is a Clos, and package
// fabric's types for nodes and labels are not used, only its units.
//
// # Path names
//
// A [Name] says how to get from any router to any other: minimally, by an
// intermediate group, or by an intermediate router. It generalises [fabric.Label],
// which names a way up and leaves the way down to the fabric: a Name is read with
// both ends of the path, and the same Name may be of two links for one pair and of six for
// another, or no path at all. It fits the bits that a label has.
package dragonfly
