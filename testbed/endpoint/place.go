package endpoint

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
)

// Placement says where the payload of one data packet belongs. It is valid
// during the call.
type Placement struct {
	Src     fabric.NodeID
	QPN     uint32 // with Src it names the queue pair
	Address uint64 // as the message's RETH has it
	RKey    uint32
	Length  int64 // of the message
	Offset  int64 // of the payload in the message
	Payload int   // bytes; the packet's last but for pad and ICRC
	Last    bool  // the message is complete with this packet
}

// Placing is an answer to a [Placement].
type Placing uint8

// Answers. All but Placed leave the queue pair as it was, and notify the sender.
const (
	Placed  Placing = iota
	Refused         // the address, key or length is wrong: the sender's fault, for ever
	Unable          // it cannot be taken, for no fault of the sender's, who has to begin anew
	Invalid         // whom it is for has failed, and takes nothing any more
)

func (p Placing) syndrome() rocev2.Syndrome {
	switch p {
	case Unable:
		return rocev2.NAKRemoteOperation
	case Invalid:
		return rocev2.NAKInvalidRequest
	}
	return rocev2.NAKRemoteAccess
}

// place hands a packet's payload over.
func (e *Endpoint) place(now fabric.Time, c *context, p *packet, payload int) Placing {
	e.placement = Placement{
		Src: p.src, QPN: p.qpn, Address: c.message, RKey: c.rkey,
		Length: c.length, Offset: c.got, Payload: payload, Last: !c.writing,
	}
	return e.cfg.Place(now, &e.placement)
}

// FailureHandler is a [Handler] that also receives failed queue pairs.
type FailureHandler interface {
	// Failed reports that the responder refused the queue pair's message for
	// good. What it had to send will not be sent.
	Failed(now fabric.Time, qp QP, s rocev2.Syndrome)
}
