// Package linkstate learns the states of a switch's ports over gNMI, from openconfig-interfaces' oper-status.
//
// [Subscription.Request] makes the subscription and [Decode] reads the answers. A [Monitor] keeps the port states
// of one switch; it reports changes only, and reports when the subscription has gone silent. These parts have no
// goroutine, socket or clock; a Monitor is not safe for concurrent use. A [Session] drives them: it subscribes over
// gRPC, ON_CHANGE with heartbeats or, if the switch does not support that, by samples. It subscribes again, after a
// back-off, whenever the subscription breaks or falls silent.
//
// Port p of the P4 program is interface "Ethernet<p>". Other interfaces, such as a management port, are ignored.
//
// # Traps
//
// A silent switch may work. A stale Monitor keeps the last states. Its owner has to distinguish a dead switch from
// a dead session, by the other ends of the switch's links.
package linkstate
