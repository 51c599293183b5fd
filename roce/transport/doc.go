// Package transport models the RoCEv2 network interface of one host: reliable connected (RC) queue pairs that carry
// one RDMA WRITE each.
//
// An [Endpoint] is a pure state machine: it takes time and packets, and returns packets and events. It has no
// goroutine, socket or clock and is not safe for concurrent use. Header bytes are real, payload is a length: a
// packet is Frame.Len bytes of headers in the caller's buffer. On the wire, Frame.Tail bytes follow (payload,
// padding, ICRC), which are only counted.
//
// # Pull
//
// The owner of the host's port calls [Endpoint.Next] whenever the port can take a packet, and gets one or none.
// [Endpoint.NextWake] then says when to ask again, unless [Endpoint.Receive] or [Endpoint.Open] comes first.
// Control packets (ACK, NAK) go before data; data QPs take turns, one packet each, at their own pace. Messages to
// the same host are sent one after the other: the QPs of a message wait until all packets of the previous message
// have been sent once and, if [Config].Trip is set, no more than two idle round trips of them are unacknowledged. (Each
// QP begins at line rate. Many short messages through a long queue would otherwise be sent before marks of the first
// ones are back, and nothing would slow them down.) A message has no window, but see below for receivers that reorder.
//
// # Sending
//
// A QP is opened for one message of known size, or without data for a probe, and ends when the last byte is
// acknowledged. Loss is repaired by going back to the first unacknowledged packet, on a NAK or when the
// retransmission timer expires. There is one timer per QP, restarted by each data packet and each ACK. A QP is on
// one path, named by its label, until [Endpoint.Relabel] moves it. If everything is sent by then but not
// acknowledged, the receiver would not notice the losses on the old path, and the timer would have to expire. So
// the QP sends a zero-length WRITE, the nudge, whose PSN shows the receiver the gap. An RNIC does the same when a
// program posts a zero-byte RDMA WRITE. An interface that takes commands from an agent does better: with
// [Endpoint.Resend] it goes back at once and saves the round trip of the receiver's NAK.
//
// A balanced QP asks a [Balancer] for the label of every data packet instead, and its ACK reports the packet's
// fate. An RNIC that sprays packets by a given rule does that.
//
// # Receivers
//
// The above describes [GoBackN], the default. With [SelectiveRepeat] and [Ideal] the responder keeps packets that
// arrive out of order, and there are no NAKs: every packet is acknowledged by its own PSN, in the AETH's MSN field
// because there is no other, together with all packets before the expected one. (The idea is IRN's, SIGCOMM 2018,
// whose NAKs carry both.) The sender retransmits only lost packets; see [Config].ReorderWindow for when it does.
// Any answer restarts the timer of a QP with one path. With several paths, an answer restarts it only when the
// first unacknowledged packet changes, or is known to be trimmed, so that working paths do not hide a dead one.
//
// # Queue pair numbers
//
// There is no connection set-up. A QP has the same number at both ends, and the responder keeps its state under
// (source address, number); an ACK carries the same number. The number has 24 bits: a slot of the pair of hosts (16
// bits, reused when a QP ends) and above it a generation that counts the slot's QPs (8 bits). The first PSN is a
// hash of both hosts and the number, so that either end knows it and sequence numbers do wrap around.
//
// The responder never forgets a slot's latest QP: its last ACK can be lost, the sender may retransmit packets at
// any later time, and the responder acknowledges these again. A sender gives a slot to its next QP only when the
// previous QP is completely acknowledged. So the first packet of the next generation shows the responder that the
// old state is no longer needed, and a packet of an older generation is a late duplicate. State is bounded by the
// largest number of QPs that were ever open at once between two hosts.
//
// In real processes a host that can only guess must not be taken for a peer, nor a process that began anew for the one
// before it. There each pair of processes has a [Session], of random numbers (package soft). The partition and first
// PSNs follow from the session, and the number on the wire is a permutation of the above one by the session's key. A
// packet creates state only if it is of the session and near the first PSN. [Endpoint.SetSession] drops the state of a
// peer's former process. Simulations have no sessions.
//
// # Transports and rate controls
//
// Two interfaces contain the choices that RoCEv2 leaves open. [Config].Receiver chooses a transport: how a
// requester sends, retransmits and ends, how a responder accepts, answers and reorders (goback.go, selective.go
// with reorder.go). [Config].Control chooses a rate control: how fast a queue pair sends, and how many bytes it may
// have in flight (dctcp.go, dcqcn.go).
//
// A new transport is a file and a line of [Specs]. It also changes receive.go if its packets have fields that RC's
// lack (an opcode, a trimmed packet's DSCP, a path's own sequence numbers), and responder.go if its answers do (a
// bitmap). A new rate control is a file and a line of [Specs], with its parameters and its requirements on packets,
// ACKs and switches. Schemes with a path per packet are [Balancer]s, which learn of each ACK, with any transport
// that reorders.
//
// Every transport sends probes about the last packets of a message (tail.go). A [PathWatcher] learns of overdue
// answers, and asks the paths by path probes (ask.go).
//
// # Congestion
//
// Data is sent as ECT(0). The ACK of a data packet that arrived with CE carries BECN. With [DCTCP] the sender
// reacts to BECN, by a rate instead of a window. With [DCQCN] the responder also sends CNPs, and the sender reacts
// to these alone.
//
// # Events
//
// A [Handler] is called from Next and Receive only, after the endpoint's state is settled. It may call Open and
// Relabel, but not Next, Receive or NextWake.
package transport
