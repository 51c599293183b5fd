package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Host is the load balancer of one host.
type Host interface {
	// Post passes the flows of one batching window to the scheme.
	Post(now fabric.Time, batch []hostagent.Flow) error
	// Acked, Done and Timeout report events of a queue pair: more payload bytes are acknowledged; all are; the
	// retransmission timer expired.
	Acked(now fabric.Time, qp hostagent.QP, bytes int64)
	Done(now fabric.Time, qp hostagent.QP)
	Timeout(now fabric.Time, qp hostagent.QP)
	// Quench and Update are notifications of failures, from a switch and a controller. The verdict on a quench is
	// for the log.
	Quench(now fabric.Time, q frame.Quench) hostagent.Verdict
	Update(now fabric.Time, u *statepb.Update)
	// AckLabel returns the path label of an ACK, NAK or CNP to peer. mirrored is the label of the data packet that it
	// answers; rerouted says that a switch rerouted that packet around a dead uplink.
	AckLabel(now fabric.Time, peer fabric.NodeID, mirrored fabric.Label, rerouted bool) fabric.Label
	// Tick processes expired timers; Deadline returns when to call it next; its ok is false if no timer runs.
	Tick(now fabric.Time)
	Deadline() (at fabric.Time, ok bool)
	// Ready returns the caller's work since the last call. The slices are valid until the next call. A piece without
	// bytes is a probe.
	Ready() hostagent.Ready
}

// LossHost is a [Host] that leaves paths because of losses. Its methods are those of [transport.PathWatcher]; after
// them [Host].Ready may return requests.
type LossHost interface {
	Host
	Lost(now fabric.Time, qp hostagent.QP, l hostagent.Loss)
	Overdue(now fabric.Time, qp hostagent.QP, o hostagent.Overdue)
	// Answered reports the answer to a path probe of [hostagent.Ready].
	Answered(now fabric.Time, peer fabric.NodeID, id uint32)
	Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool)
}

// PacketHost is a [Host] that chooses the path of every data packet. All its queue pairs are
// [transport.Message].Balanced, and its methods are those of [transport.Balancer]. After Echo, [Host].Ready may return
// requests.
type PacketHost interface {
	Host
	Label(now fabric.Time, qp hostagent.QP) fabric.Label
	Echo(now fabric.Time, qp hostagent.QP, e transport.Echo)
}

// PathLossHost is a [PacketHost] that learns which paths lose packets: see [transport.PathLosses].
type PathLossHost interface {
	PacketHost
	LostBy(now fabric.Time, qp hostagent.QP, l fabric.Label)
}

// WindowedHost is a [PacketHost] with a window per path: see [transport.WindowedBalancer].
type WindowedHost interface {
	PacketHost
	Room(qp hostagent.QP, onTheWay int32) bool
}

// PausingHost is a [PacketHost] that can make queue pairs pause.
type PausingHost interface {
	// Holds returns the pauses requested since the last call. The slice is valid until the next call.
	Holds() []Hold
}

// ProbeEnder is a [PacketHost] that can end a probe before it is answered.
type ProbeEnder interface {
	// Ends returns, once, the probes whose results are no longer needed. The slice is
	// valid until the next call.
	Ends() []hostagent.QP
}

// Hold is the request that a queue pair sends nothing before a time.
type Hold struct {
	QP    hostagent.QP
	Until fabric.Time
}

// Config sets up a [Host]. All schemes except ethereal use only Fabric, Host, Seed and StartJitter of the agent's
// configuration.
type Config struct {
	hostagent.Config
	MTU int `json:",omitempty"` // bytes of payload in a full packet; 0: transport.DefaultMTU

	takesNotifications bool // the scheme's parameter
}
