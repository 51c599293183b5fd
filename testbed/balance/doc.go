// Package balance implements the host side of the load balancers behind one small interface: a [Host] receives the
// flows that a collective sends and decides on the queue pairs of the host's NIC.
//
// A Host is a pure state machine, as the agent core that it wraps is: flows, acknowledgements, time-outs and
// notifications of failures go in with the time; [Host.Ready] returns queue pairs to open and to move. It is not
// safe for concurrent use.
//
// # Schemes
//
// [Specs] lists the schemes with their parameters, and `ethereal validate --keys schemes` prints them. With hosts'
// schemes, switches hash packets without label. The other schemes are the switches' ([Spec.Switches]), and their
// hosts behave as those of ecmp; see docs/balancers.md.
//
// [PacketHost]s choose a path per packet, and learn from each ACK the fate of its packet. No published scheme of
// this kind takes notifications of failures; some react to losses, and the switches repair their tables. [Spec]
// names the receiver that a scheme's authors assume.
//
// Random source ports are outside the labels' range ([fabric.Fabric.LabelSpan] and up), so that no switch takes one
// for a path.
package balance
