// Package scheme puts the host side of the load balancers behind one small
// interface: a [Host] stands between what a collective sends and the queue
// pairs of the host's NIC.
//
// A Host is a pure state machine, as the agent core that it wraps is: flows,
// acknowledgements, time-outs and news of failures go in with the time; queue
// pairs to open and to move come out of [Host.Ready]. It is not safe for
// concurrent use.
//
// # Schemes
//
//   - ethereal: the host agent's core, [hostagent.Core], as it ships.
//   - ecmp: one queue pair per flow, its source port drawn at random; the
//     switches hash. Nothing moves, whatever fails.
//   - mp-rdma: every flow cut into pieces of its own queue pair and random
//     source port each, statically. Parameter ways: how many, 4 unless given.
//
// Random source ports are those of no label ([fabric.Fabric.LabelSpan] and up),
// so that no switch takes one for a path.
package scheme
