package transport

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// Placement says where in the receiver's memory the payload of one data packet belongs. It is valid during the call.
type Placement struct {
	Src     fabric.NodeID
	QPN     uint32 // the queue pair's number on the wire; with Src it identifies the queue pair
	Address uint64 // the message's address, from its RETH
	RKey    uint32
	Length  int64 // length of the whole message in bytes
	Offset  int64 // byte of the message at which the payload begins
	Payload int   // bytes of payload: the end of the packet without pad and ICRC
	Last    bool  // the message is complete with this packet
}

// Placing is the result of placing the payload of a packet: see [Config].Place.
type Placing uint8

// Answers. All but Placed leave the queue pair unchanged, and notify the sender.
const (
	Placed  Placing = iota
	Refused         // address, key or length is wrong: a permanent error of the sender
	Unable          // the payload cannot be placed now, by no fault of the sender, which has to start the message again
	Invalid         // the receiving queue pair has failed, and accepts nothing more
)

func (p Placing) syndrome() frame.Syndrome {
	switch p {
	case Unable:
		return frame.NAKRemoteOperation
	case Invalid:
		return frame.NAKInvalidRequest
	}
	return frame.NAKRemoteAccess
}

// place passes a packet's payload to Config.Place.
func (e *Endpoint) place(now fabric.Time, c *context, p *packet, payload int) Placing {
	e.placement = Placement{
		Src: p.src, QPN: p.qpn, Address: c.message, RKey: c.rkey,
		Length: c.length, Offset: c.received, Payload: payload, Last: !c.writing,
	}
	return e.cfg.Place(now, &e.placement)
}

// FailureHandler is a [Handler] that also receives QPs whose message was refused.
type FailureHandler interface {
	// Failed reports that the responder permanently refused the queue pair's message. The rest will not be sent.
	Failed(now fabric.Time, qp QP, s frame.Syndrome)
}
