// Package controller computes the tables of every switch of a fabric, and the link states that host agents should
// know, from the fabric's shape and the state of its links.
//
// A [Core] is a state machine without goroutines, clock or network. [Core.PortState] takes port states.
// [Core.Ready] returns writes for switches and updates for agents. [Core.Desired] returns the full tables of one
// switch at any time. A Core is not safe for concurrent use.
//
// # Routes
//
// Down-facing routes never change: the data plane drops packets for a dead down port and notifies the source, which
// carries more information than a missing route. A link failure changes the routes that lead up:
//
//   - the ECMP groups. They hold the live uplinks; each has as its weight the number of live paths through it, divided
//     by the greatest common divisor of all weights;
//   - extra routes, more specific than the default, for pods and ToRs that some live uplink no longer reaches in
//     proportion to its weight in the default group;
//   - at the two ends of the link, the label entries of the dead uplink, so that its packets fall back to ECMP.
//
// A destination without any path keeps the default route. Tables depend on the present link states alone, not on
// their history, so a restarted controller computes the tables that its predecessor left.
//
// # Order
//
// The updates of a [SwitchDelta] are in make-before-break order. [Update.Phase] says where a target that reorders
// the updates of one request needs a new request. The deltas of one [Ready] have stages: deltas of one stage may be
// written at the same time, and a later stage is written after the earlier one is acknowledged. In this order, no
// packet without a label meets a gap that the failure itself did not make, and no packet is sent to a switch whose
// tables are not ready for it.
//
// # Drains
//
// [Core.Drain] takes a link out of use while it still carries packets. Tables are written and agents notified as if
// it were down, in the same order. Once the writes are acknowledged and the agents have flipped, the link carries
// no more packets. [Core.SeveredToRs] returns the hosts that a drain would cut off; call it first.
//
// Package rollout decides when tables are written and agents notified.
//
// # Traps
//
// A group's weights may have to be approximated to fit the target's group size; see [Config.MaxGroupSize]. Slices
// inside entries are shared and must not be written to. An end of a link that never reported counts as up.
package controller
