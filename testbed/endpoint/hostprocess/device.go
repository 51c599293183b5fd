package hostprocess

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/soft"
)

// Device is what sends other programs' messages by a rank's endpoint and agent: a
// nic.NIC. It calls [Rank.PostFlow] and [Rank.CloseFlow].
type Device interface {
	// Reset ends what is under way: endpoint and agent begin anew.
	Reset(now fabric.Time)
	// Open says what the bytes of a queue pair are, where they go and whose they are:
	// From, Key, Address and Share; ok is false if nobody wants them any more.
	Open(qp endpoint.QP, flow uint64, off, bytes int64) (m soft.Message, ok bool)
	// Acked, Done and Refused say what became of a queue pair, which may not be the
	// device's.
	Acked(now fabric.Time, qp endpoint.QP)
	Done(now fabric.Time, qp endpoint.QP)
	Refused(now fabric.Time, qp endpoint.QP, s rocev2.Syndrome)
	// Place is soft.Config.Place.
	Place(now fabric.Time, p *endpoint.Placement, payload []byte) endpoint.Placing
	// Tick and Wake are [soft.Driven]'s.
	Tick(now fabric.Time)
	Wake() (at fabric.Time, ok bool)
}

// ownFlow marks a device's flows among the messages.
const ownFlow = 1 << 63

// wholeFlow is up to how many bytes a device's flow stays in one piece: most messages
// of programs are short, and all are in order at the other side.
const wholeFlow = 8 << 10

// PostFlow has the agent deal out a flow of the device's. Its number is above 1<<63.
func (r *Rank) PostFlow(now fabric.Time, flow uint64, dst fabric.NodeID, bytes int64) {
	r.core.Post(now, hostagent.Flow{ID: ownFlow | flow, Dst: dst, Bytes: bytes})
}

// CloseFlow ends a queue pair of a flow.
func (r *Rank) CloseFlow(now fabric.Time, qp endpoint.QP) {
	r.engine.Close(qp)
	if id, ok := r.core.Refuse(now, qp); ok {
		r.core.Forget(id)
	}
}

func (r *Rank) placeForDevice() func(fabric.Time, *endpoint.Placement, []byte) endpoint.Placing {
	if r.device == nil {
		return nil
	}
	return r.device.Place
}
