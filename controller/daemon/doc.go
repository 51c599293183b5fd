// Package daemon runs the controller of a fabric on a network: a P4Runtime and a
// gNMI session per switch, the service that agents watch, and between them the
// controller's core.
//
// A [Daemon] is made with [New] and works while [Daemon.Run] runs. One goroutine
// owns the core, package rollout's, and all that is known of switches; sessions post
// what they receive to it and take writes from it. Its other methods are safe for concurrent use
// and ask that goroutine.
//
// Package rollout decides when tables are written and agents notified: the start, the order of changes,
// bad and good news, and the waits of [Config].
//
// # Death
//
// A session that dies takes no link down: switches forward without a controller.
// A link is down when one of its ends says so. [Judge] concludes from the neighbours
// whether a switch without sessions is dead or only cut off.
//
// # End
//
// When Run's context ends the sessions are closed and nothing is written: the
// switches go on forwarding as they are, and a standby takes over.
package daemon
