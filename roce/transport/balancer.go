package transport

import "github.com/ethereal-fabric/ethereal/fabric"

// Balancer chooses the paths of balanced QPs packet by packet, and learns of their packets' fate. Its methods must
// not call the endpoint.
type Balancer interface {
	// Label returns the label of the data packet that a QP sends now, whether new or retransmitted.
	Label(now fabric.Time, qp QP) fabric.Label
	// Echo reports an ACK's information about the packet that caused it, before the ACK's events go to the
	// [Handler]. NAKs are not reported.
	Echo(now fabric.Time, qp QP, e Echo)
}

// PathLosses is a [Balancer] that learns of lost packets, which later packets or the timer reveal. Trimmed packets
// are not lost. It must not call the endpoint.
type PathLosses interface {
	LostBy(now fabric.Time, qp QP, l fabric.Label)
}

// Roomy is a [Balancer] with a window per path. Room reports whether a QP, of whose packets some are on the way, has a
// path with room for another. If it has none, the QP sends nothing until an answer comes. An answer may acknowledge
// packets for which there is no Echo.
type Roomy interface {
	Room(qp QP, onTheWay int32) bool
}

// Echo is an ACK's information about the data packet that caused it.
type Echo struct {
	// Label is the ACK's label, which is the packet's if the responder keeps labels.
	Label  fabric.Label
	Marked bool // the packet, or another one that the ACK covers, arrived with CE
	// RTT is the time from the packet's sending to its ACK. It is measured for one packet per round trip that was
	// sent once; 0: not measured.
	RTT fabric.Time
	// Trip is the time from the packet's sending to its ACK, if sending times are kept ([Needs].SendTimes, or a
	// [PathLosses]) and it was sent once; otherwise 0.
	Trip fabric.Time `json:",omitempty"`
}

// timing times one packet of a QP at a time.
type timing struct {
	packet int32 // + 1; 0: none
	at     fabric.Time
}

func (t *timing) sent(now fabric.Time, packet int32) {
	if t.packet == 0 {
		*t = timing{packet + 1, now}
	}
}

// acked returns the round trip of the timed packet, if its number is at least from and below to.
func (t *timing) acked(now fabric.Time, from, to int32) fabric.Time {
	if t.packet <= from || t.packet > to {
		return 0
	}
	t.packet = 0
	return now - t.at
}
