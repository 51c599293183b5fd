package hostprocess

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/soft"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Device sends messages of other programs through a rank's endpoint and agent, such as an RDMA device in software. It
// calls [Rank.PostFlow] and [Rank.CloseFlow].
type Device interface {
	// Reset ends everything in progress: endpoint and agent restart.
	Reset(now fabric.Time)
	// Open describes the bytes that a queue pair carries: From, Key, Address and Share. ok is false if they are no
	// longer needed.
	Open(qp transport.QP, flow uint64, off, bytes int64) (m soft.Message, ok bool)
	// Acked, Done and Refused report events of a queue pair, which may not be the device's.
	Acked(now fabric.Time, qp transport.QP)
	Done(now fabric.Time, qp transport.QP)
	Refused(now fabric.Time, qp transport.QP, s frame.Syndrome)
	// Place is as in soft.Config.Place.
	Place(now fabric.Time, p *transport.Placement, payload []byte) transport.Placing
	// Tick and Wake are as in [soft.Driven].
	Tick(now fabric.Time)
	Wake() (at fabric.Time, ok bool)
}

// deviceFlowBit marks a device's flows among the messages.
const deviceFlowBit = 1 << 63

// maxWholeFlow is the largest size in bytes of a device's flow that is not split: most messages of programs are short,
// and the receiver delivers all in order.
const maxWholeFlow = 8 << 10

// PostFlow has the agent split a flow of the device. The flow's number is above 1<<63.
func (r *Rank) PostFlow(now fabric.Time, flow uint64, dst fabric.NodeID, bytes int64) {
	r.core.Post(now, hostagent.Flow{ID: deviceFlowBit | flow, Dst: dst, Bytes: bytes})
}

// CloseFlow closes a queue pair of a device's flow.
func (r *Rank) CloseFlow(now fabric.Time, qp transport.QP) {
	r.engine.Close(qp)
	if id, ok := r.core.Refuse(now, qp); ok {
		r.core.Forget(id)
	}
}

// Connected reports whether packets to a host can be sent at once; otherwise they wait for its answer.
func (r *Rank) Connected(dst fabric.NodeID) bool { return r.engine.Connected(dst) }

func (r *Rank) placeForDevice() func(fabric.Time, *transport.Placement, []byte) transport.Placing {
	if r.device == nil {
		return nil
	}
	return r.device.Place
}
