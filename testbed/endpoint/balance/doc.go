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
//   - ethereal: the host agent's core, [hostagent.Core], as it ships. Parameter
//     suspicion: on shares what agents time out on ([Spec.SharesSuspicion]); off,
//     the paper's. Parameter uplinks: how many of each ToR's a host uses, all unless
//     given ([hostagent.Config.Uplinks]). Parameter slow: unload, or keep, which has hosts keep to paths that are slow.
//   - ecmp: one queue pair per flow, its source port drawn at random; the
//     switches hash. Nothing moves, whatever fails.
//   - mp-rdma: every flow cut into pieces of its own queue pair and random
//     source port each, statically. Parameter ways: how many, 4 unless given.
//   - mp-rdma-clocked: MP-RDMA as published, ACKs choosing paths: a packet goes
//     where the ACK that makes room for it came from. Parameter entropy, as below.
//   - spray: a label for every packet. Parameter mode: random or round-robin;
//     parameter entropy: path, labels of paths, or port, source ports that the
//     switches hash.
//   - reps: recycled entropies. Parameters: entropies, the size of a queue
//     pair's ring, 8; explore, how many packets draw at random first, a
//     bandwidth-delay product unless given; freeze, for how long a time-out
//     freezes the ring, 1ms, the reference's time-out (the paper gives no number,
//     its artifact's runs have 100us); entropy, as above.
//   - drb: for every packet the next path, by a pointer per destination host.
//   - hopper: one path per queue pair, left for a better one when its round
//     trip grows. Parameters entropy: port, as its paper has it, or path; wait:
//     on, or off, which moves at once and reorders.
//   - flowcut: a new path for a queue pair when nothing of it is in flight.
//     Parameters drain: percent of the base round trip above which it waits until
//     that is so, 200; 0: never; entropy, as above.
//   - lpt: each flow whole to the path on which the host has least to send, the
//     longest of a batch first.
//   - mrc: multipath RC's set of entropy values, in turn; marked ones are skipped, those
//     that lose packets retired. Parameters values: how many, 128; probes: how many in a
//     row bring one back, 16; entropy, as above.
//
// The switches of these hash what no label guides. The others are the switches'
// ([Spec.Switches] says what they do), and their hosts do as those of ecmp; see
// docs/balancers.md:
//
//   - switch-spray: packets in turn. Parameter reshuffle: after how many rounds
//     the order is shuffled, 5; 0: never. Parameter acks: hash leaves what is not
//     data to ECMP, so that it does not move the pointer.
//   - switch-spray-random: packets at random.
//   - jsq: the uplink with the shortest queue. Parameter bins: none, or three
//     percentages of a port's share of the buffer, such as 5,10,20, between
//     which queues count as equal.
//   - flowlet: the best uplink until a pause. Parameters mode: flowlet, assigned
//     (no pause frees a flow) or per-packet (a flow is always free); gap: how
//     long a pause, 16us.
//   - ofan: packets in turn, by destination.
//
// [PacketHost]s choose per packet, and learn from each ACK how its packet fared.
// Notifications of failures are not part of any published one; some react to losses,
// and the switches repair their own. [Spec] says which receiver a scheme's authors
// assume.
//
// Random source ports are those of no label ([fabric.Fabric.LabelSpan] and up),
// so that no switch takes one for a path.
package balance
