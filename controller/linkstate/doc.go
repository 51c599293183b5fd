// Package linkstate learns the states of a switch's ports over gNMI, from
// openconfig-interfaces' oper-status.
//
// [Subscription.Request] makes the subscription, [Decode] reads what comes back,
// and a [Monitor] keeps one switch's port states: it reports changes only, and
// reports when the subscription has gone silent. None of it has a goroutine, a
// socket or a clock; a Monitor is not safe for concurrent use. A [Session] is the
// shell around them: it subscribes over gRPC, ON_CHANGE with heartbeats or, where
// a switch does not understand that, by samples, and again after a back-off
// whenever the subscription breaks or falls silent.
//
// Port p of the P4 program is interface "Ethernet<p>". Other interfaces, such as
// a management port, are passed over.
//
// # Traps
//
// A switch that is silent may be well. A stale Monitor keeps the last states; it
// is for its owner to distinguish a dead switch from a dead session, with the help of
// the other ends of its links.
package linkstate
