package transport

import "github.com/ethereal-fabric/ethereal/fabric"

// Balancer chooses the path of each packet of the QPs whose messages are [Message].Balanced, and learns what became of
// the packets. Its methods must not call the endpoint.
type Balancer interface {
	// Label returns the path label of the data packet, new or retransmitted, that a QP sends now.
	Label(now fabric.Time, qp QP) fabric.Label
	// Echo reports an ACK's information about the data packet that caused it, before the [Handler] gets the ACK's
	// events. NAKs are not reported.
	Echo(now fabric.Time, qp QP, e Echo)
}

// PathLosses is a [Balancer] that learns which paths lose packets. LostBy is called when later packets' ACKs, or the
// timer, reveal a loss. Trimmed packets are not lost. LostBy must not call the endpoint.
type PathLosses interface {
	LostBy(now fabric.Time, qp QP, l fabric.Label)
}

// WindowedBalancer is a [Balancer] with a window per path. Room reports whether a QP with inFlight packets in flight
// has a path whose window has room for another packet. If not, the QP sends nothing until an ACK comes. An ACK may
// acknowledge packets for which there is no Echo.
type WindowedBalancer interface {
	Room(qp QP, onTheWay int32) bool
}

// Echo is an ACK's information about the data packet that caused it.
type Echo struct {
	// Label is the ACK's path label. It is that of the data packet if the responder copies labels.
	Label  fabric.Label
	Marked bool // the packet, or another one that the ACK covers, arrived with an ECN mark (CE)
	// RTT is the time from sending the packet to its ACK. One packet per round trip is measured, if it was sent only
	// once; 0: not measured.
	RTT fabric.Time
	// Trip is the same for every packet that was sent only once, if the endpoint keeps sending times
	// ([Needs].SendTimes, or a [PathLosses]); otherwise 0.
	Trip fabric.Time `json:",omitempty"`
}

// packetTiming times one packet of a QP at a time.
type packetTiming struct {
	packet int32 // + 1; 0: none
	at     fabric.Time
}

func (t *packetTiming) sent(now fabric.Time, packet int32) {
	if t.packet == 0 {
		*t = packetTiming{packet + 1, now}
	}
}

// acked returns the round trip of the timed packet, if its number is at least from and below to.
func (t *packetTiming) acked(now fabric.Time, from, to int32) fabric.Time {
	if t.packet <= from || t.packet > to {
		return 0
	}
	t.packet = 0
	return now - t.at
}
