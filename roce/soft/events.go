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

// Acked processes newly acknowledged payload bytes of a queue pair, for [transport.Handler].
func (x *events) Acked(now fabric.Time, qp transport.QP, bytes int64) {
	x.handler.Acked(now, qp, bytes)
}

// Done processes the acknowledgement of a queue pair's last bytes, for [transport.Handler].
func (x *events) Done(now fabric.Time, qp transport.QP) {
	delete(x.sources, qp)
	x.handler.Done(now, qp)
}

// Timeout processes the expiry of a queue pair's retransmission timer, for [transport.Handler].
func (x *events) Timeout(now fabric.Time, qp transport.QP) { x.handler.Timeout(now, qp) }

// Failed processes the receiver's refusal of a queue pair's message, for [transport.FailureHandler].
func (x *events) Failed(now fabric.Time, qp transport.QP, s frame.Syndrome) {
	delete(x.sources, qp)
	x.ep.Close(qp) //nolint:errcheck // it is open: it just failed
	x.handler.Failed(now, qp, s)
}

// Delivered processes the complete arrival of a queue pair's bytes, for [transport.Handler]. The placement before it
// was the message's last.
func (x *events) Delivered(now fabric.Time, src fabric.NodeID, _ uint64, bytes int64) {
	x.handler.Written(now, src, x.last.RKey, x.last.Address, bytes)
}

// Quench does nothing: the engine reads quenches itself, since the endpoint would not check their lengths.
func (x *events) Quench(fabric.Time, []byte, netip.Addr) {}
