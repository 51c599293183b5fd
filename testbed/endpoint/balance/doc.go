// Package balance puts the host side of the load balancers behind one small
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
// [Specs] lists the schemes with their parameters, and `ethereal validate --keys schemes`
// prints them. The switches of hosts' schemes hash what no label guides. The other schemes
// are the switches' ([Spec.Switches]), and their hosts do as those of ecmp; see
// docs/balancers.md.
//
// [PacketHost]s choose per packet, and learn from each ACK how its packet fared.
// Notifications of failures are not part of any published one; some react to losses,
// and the switches repair their own. [Spec] says which receiver a scheme's authors
// assume.
//
// Random source ports are those of no label ([fabric.Fabric.LabelSpan] and up),
// so that no switch takes one for a path.
package balance
