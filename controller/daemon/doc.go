// Package daemon runs the controller of a fabric on a network. It has a P4Runtime and a gNMI session per switch,
// the service that agents watch, and the controller's core.
//
// [New] makes a [Daemon]; [Daemon.Run] runs it. One goroutine owns the core (package rollout) and the state of all
// switches. Sessions post what they receive to this goroutine and take writes from it. The Daemon's other methods
// ask this goroutine and are safe for concurrent use.
//
// Package rollout decides when tables are written and agents notified: the start, the order of changes, bad and
// good news, and the waits of [Config].
//
// # Death
//
// A session that ends takes no link down, because switches forward without a controller. A link is down when one of
// its ends reports it down. From the neighbours' reports [JudgeSwitch] concludes whether a switch without sessions is
// dead or only unreachable.
//
// # End
//
// When Run's context ends, the sessions are closed and nothing is written. The switches go on forwarding with their
// present tables, and a standby takes over.
package daemon
