// Package controller decides what every switch of a fabric should hold in its
// tables, and what the host agents should know, from the fabric's shape and the
// state of its links.
//
// A [Core] is a state machine without goroutines, clock or network. Port states
// go in by [Core.PortState]; writes for switches and updates for
// agents come out of [Core.Ready]; [Core.Desired] gives the full tables of one
// switch at any time. It is not safe for concurrent use.
//
// # Routes
//
// Down-facing routes never change: the data plane drops what is sent down a dead
// port and notifies the source, which carries more information than a missing route. What a
// link failure changes is the way up:
//
//   - the ECMP groups, which hold the live uplinks, each with the number of live
//     paths through it as weight, divided by their greatest common divisor;
//   - routes of their own, more specific than the default, for the pods and ToRs
//     that some live uplink no longer reaches as the default group says;
//   - at the link's own ends, the label entries of the dead uplink, so that its
//     packets fall back to ECMP.
//
// A destination that cannot be reached at all keeps following the default.
// Tables are a function of the present link states alone, not of how they came
// about, so a restarted controller asks for what its predecessor left.
//
// # Order
//
// The updates of a [SwitchDelta] are in make-before-break order, and
// [Update.Phase] says where a target that reorders the updates of one request
// needs a new request. The deltas of one [Ready] carry stages: those of one
// stage may be written at the same time, a later stage once the earlier one is
// acknowledged. Applied so, no packet without a label meets a hole that the
// failure itself did not make, and no packet is sent towards a switch that is
// not ready for it.
//
// # Drains
//
// [Core.Drain] takes a link out of use while it still carries packets: tables and
// agents are notified as if it were down, in the same order, so that nothing is sent
// over it any more once the writes are acknowledged and the agents have flipped.
// [Core.Severed] returns beforehand the hosts that this would cut off.
//
// Package rollout decides when tables are written and agents notified.
//
// # Traps
//
// A group's weights may have to be approximated to fit the target's group size;
// see [Config.MaxGroupSize]. Slices inside entries are shared and must not be
// written to. An end of a link that never reported counts as up.
package controller
