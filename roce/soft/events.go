package soft

import (
	"net/netip"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// events is the engine as the endpoint's handler.
type events Engine

var (
	_ transport.Handler        = (*events)(nil)
	_ transport.FailureHandler = (*events)(nil)
)

// Acked implements [transport.Handler].
func (x *events) Acked(now fabric.Time, qp transport.QP, bytes int64) {
	x.handler.Acked(now, qp, bytes)
}

// Done implements [transport.Handler].
func (x *events) Done(now fabric.Time, qp transport.QP) {
	delete(x.sources, qp)
	x.handler.Done(now, qp)
}

// Timeout implements [transport.Handler].
func (x *events) Timeout(now fabric.Time, qp transport.QP) { x.handler.Timeout(now, qp) }

// Failed implements [transport.FailureHandler].
func (x *events) Failed(now fabric.Time, qp transport.QP, s frame.Syndrome) {
	delete(x.sources, qp)
	x.ep.Close(qp) //nolint:errcheck // it is open: it just failed
	x.handler.Failed(now, qp, s)
}

// Delivered implements [transport.Handler]: the placement before it was the message's
// last.
func (x *events) Delivered(now fabric.Time, src fabric.NodeID, _ uint64, bytes int64) {
	x.handler.Written(now, src, x.last.RKey, x.last.Address, bytes)
}

// Quench implements [transport.Handler]. The engine reads quenches itself: the
// endpoint would not check their lengths.
func (x *events) Quench(fabric.Time, []byte, netip.Addr) {}
