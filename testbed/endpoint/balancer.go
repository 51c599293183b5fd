package endpoint

import "github.com/ethereal-fabric/ethereal/fabric"

// Balancer chooses the paths of balanced QPs packet by packet, and learns how
// their packets fared. Its methods must not call the endpoint.
type Balancer interface {
	// Label returns the label of the data packet that a QP sends now, for the
	// first time or again.
	Label(now fabric.Time, qp QP) fabric.Label
	// Echo hands over what an ACK says about the packet that caused it, before
	// the ACK's events go to the [Handler]. NAKs are not passed on.
	Echo(now fabric.Time, qp QP, e Echo)
}

// PathLosses is a [Balancer]'s ear for packets that never came, as later ones that did or
// the timer show. One that a switch has cut is none of them. It must not call the endpoint.
type PathLosses interface {
	LostBy(now fabric.Time, qp QP, l fabric.Label)
}

// Echo is what an ACK says about the data packet that caused it.
type Echo struct {
	// Label is the ACK's, which is the packet's if the responder keeps labels.
	Label  fabric.Label
	Marked bool // the packet, or one that the ACK is for as well, came with CE
	// RTT is the time from the packet's sending to its ACK. It is measured for
	// one packet per round trip that was sent once; 0: not by this one.
	RTT fabric.Time
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

// acked returns the round trip of the timed packet, if it is among those from
// up to below to.
func (t *timing) acked(now fabric.Time, from, to int32) fabric.Time {
	if t.packet <= from || t.packet > to {
		return 0
	}
	t.packet = 0
	return now - t.at
}
