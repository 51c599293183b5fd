// Package endpoint models the RoCEv2 network interface of one host: reliable
// connected (RC) queue pairs that carry one RDMA WRITE each.
//
// An [Endpoint] is a pure state machine: time and packets go in, packets and
// events come out. It has no goroutine, socket or clock and is not safe for
// concurrent use. Header bytes are real, payload is a length: a packet is
// Frame.Len bytes of headers in the caller's buffer, followed on the wire by
// Frame.Tail bytes that exist in number only (payload, padding, ICRC).
//
// # Pull
//
// The owner of the host's port calls [Endpoint.Next] whenever the port can take
// a packet and gets one or none; [Endpoint.NextWake] then says when to ask again
// unless [Endpoint.Receive] or [Endpoint.Open] comes first. Control packets (ACK,
// NAK) go before data; data QPs take turns, one packet each, at their own pace.
// Messages to the same host go one after the other: the QPs of a message are held
// back until all packets of the one before have been sent once. There is no window,
// but see below for receivers that reorder.
//
// # Sending
//
// A QP is opened for one message of known size, or none for a probe, and ends when the last byte is
// acknowledged. Loss is repaired by going back to the first unacknowledged
// packet, on a NAK or when the retransmission timer expires: one timer per QP,
// started anew by each data packet and each ACK. A QP is on one path, named by
// its label, until [Endpoint.Relabel] moves it. If everything is sent by then
// but not acknowledged, the receiver would not notice what the old path lost,
// and the timer would have to expire. So the QP sends a zero-length WRITE, the
// nudge, whose PSN shows the receiver the gap. An RNIC does that if it is given
// a zero-byte RDMA WRITE. An interface that takes an agent's word does better:
// with [Endpoint.Resend] it goes back at once, and saves the receiver's question
// its round trip.
//
// A balanced QP asks a [Balancer] for the label of every data packet instead,
// and its ACK says how the packet fared. That is what an RNIC does
// that sprays packets, by a rule that it is given.
//
// # Receivers
//
// With [GoBackN], the default, the above is all. With [SelectiveRepeat] and
// [Ideal] the responder keeps packets that come before their turn and there are
// no NAKs: every packet is acknowledged by its own PSN, in the AETH's MSN field
// for want of another, and all packets before the expected one with it. (The
// idea is IRN's, SIGCOMM 2018, whose NAKs carry both.) The sender repeats what is
// lost and no more; see [Config].ReorderWindow for when that is. Any answer restarts
// the timer of a QP with one path. With several paths, an answer restarts it only when the first
// unacknowledged packet changes, or is known to be trimmed, so that working paths do not hide a dead one.
//
// # Queue pair numbers
//
// There is no connection set-up. A QP has the same number at both ends, and the
// responder keeps its state under (source address, number); an ACK goes back
// under the same number. The number is 24 bits: a slot of the pair of hosts
// (16 bits, reused when a QP ends) and a generation above it that counts the
// slot's QPs (8 bits). The first PSN is a hash of both hosts and the number, so
// that either end knows it and sequence numbers do wrap around.
//
// The responder never forgets a slot's latest QP, since its last ACK can be lost
// and the sender may repeat packets at any later time: those are acknowledged
// again. A sender gives a slot to its next QP only when the one before is
// acknowledged to the end. So the first packet of the next generation notifies the
// responder that the old state is of no use, and a packet of an older
// generation is a late duplicate that nobody waits for. State is bounded by the
// largest number of QPs that were ever open at once between two hosts.
//
// # Transports and rate controls
//
// What RoCEv2 leaves to choice is behind two interfaces. [Config].Receiver chooses a
// transport: how a requester sends, repeats and ends, how a responder accepts, answers
// and reorders (goback.go, selective.go with reorder.go). [Config].Control chooses a
// rate control: how fast a queue pair sends, and how much it may have on the way
// (dctcp.go, dcqcn.go).
//
// A new transport is a file and a line of [Specs]; receive.go where its packets say more than RC's (an opcode, a trimmed
// packet's DSCP, a path's own sequence numbers); responder.go where its answers do (a bitmap). A new rate control is a file and
// a line of [Specs], which has its parameters and what it needs of packets, ACKs and switches. A path for each packet is a
// [Balancer]'s, which learns of each ACK, with any transport that reorders.
//
// A probe of what the last packets of a message met is sent whatever the transport
// (tail.go); what must be known of paths is a [PathWatcher]'s.
//
// # Congestion
//
// Data is sent as ECT(0). A data packet that arrives with CE has its ACK carry
// BECN. With [DCTCP] the sender reacts to those, with a rate in place of a
// window. With [DCQCN] the responder sends CNPs as well, and the sender reacts to
// them alone.
//
// # Events
//
// A [Handler] is called from Next, Receive and nowhere else, after the
// endpoint's state is settled. It may call Open and Relabel, but not Next,
// Receive or NextWake.
package endpoint
