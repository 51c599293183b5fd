package transport

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// Placement describes where the payload of one data packet belongs. It is valid during the call.
type Placement struct {
	Src     fabric.NodeID
	QPN     uint32 // with Src it identifies the queue pair
	Address uint64 // from the message's RETH
	RKey    uint32
	Length  int64 // of the message
	Offset  int64 // of the payload in the message
	Payload int   // bytes; all of the packet's last part except pad and ICRC
	Last    bool  // the message is complete with this packet
}

// Placing is the answer to a [Placement].
type Placing uint8

// Answers. All but Placed leave the queue pair unchanged, and notify the sender.
const (
	Placed  Placing = iota
	Refused         // the address, key or length is wrong: the sender's fault, permanently
	Unable          // it cannot be taken, through no fault of the sender, which has to begin again
	Invalid         // its receiver has failed, and accepts nothing more
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
		Length: c.length, Offset: c.got, Payload: payload, Last: !c.writing,
	}
	return e.cfg.Place(now, &e.placement)
}

// FailureHandler is a [Handler] that also receives failed queue pairs.
type FailureHandler interface {
	// Failed reports that the responder permanently refused the queue pair's message. The rest will not be sent.
	Failed(now fabric.Time, qp QP, s frame.Syndrome)
}
