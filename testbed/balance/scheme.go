package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Host balances the flows of one host.
type Host interface {
	// Post takes the flows of one batching window.
	Post(now fabric.Time, batch []hostagent.Flow) error
	// Acked, Done and Timeout are the NIC's reports about a queue pair: payload bytes newly acknowledged; all of it
	// acknowledged; timer expired.
	Acked(now fabric.Time, qp hostagent.QP, bytes int64)
	Done(now fabric.Time, qp hostagent.QP)
	Timeout(now fabric.Time, qp hostagent.QP)
	// Quench and Update are notifications of failures, from a switch and a controller. The verdict on a quench is
	// for the log.
	Quench(now fabric.Time, q frame.Quench) hostagent.Verdict
	Update(now fabric.Time, u *statepb.Update)
	// AckLabel chooses the label of a control packet to peer, from the label of the data packet that caused it, and
	// from whether a switch rerouted that packet around a dead uplink.
	AckLabel(now fabric.Time, peer fabric.NodeID, mirrored fabric.Label, rerouted bool) fabric.Label
	// Tick does what is due; Deadline returns when to call it next; ok is false if no timer runs.
	Tick(now fabric.Time)
	Deadline() (at fabric.Time, ok bool)
	// Ready returns the requests of the calls since the last Ready, once. The slices are valid until the next call.
	// A piece of no bytes is a probe.
	Ready() hostagent.Ready
}

// LossHost is a [Host] that leaves paths because of losses. Its methods are its queue pairs'
// [transport.PathWatcher], and can make requests that Ready returns.
type LossHost interface {
	Host
	Lost(now fabric.Time, qp hostagent.QP, l hostagent.Loss)
	Overdue(now fabric.Time, qp hostagent.QP, o hostagent.Overdue)
	// Answered reports the answer to a path probe of [hostagent.Ready].
	Answered(now fabric.Time, peer fabric.NodeID, id uint32)
	Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool)
}

// PacketHost is a [Host] that chooses a label for every data packet. All its queue pairs are balanced ones in the
// sense of package transport, and these two methods are their [transport.Balancer]. Echo can make requests that Ready
// returns.
type PacketHost interface {
	Host
	Label(now fabric.Time, qp hostagent.QP) fabric.Label
	Echo(now fabric.Time, qp hostagent.QP, e transport.Echo)
}

// PathLossHost is a [PacketHost] that uses the labels of lost packets: LostBy is its queue pairs'
// [transport.PathLosses].
type PathLossHost interface {
	PacketHost
	LostBy(now fabric.Time, qp hostagent.QP, l fabric.Label)
}

// RoomyHost is a [PacketHost] with a window per path: Room is its queue pairs' [transport.Roomy].
type RoomyHost interface {
	PacketHost
	Room(qp hostagent.QP, onTheWay int32) bool
}

// Holder is a [PacketHost] that can make queue pairs send nothing for a time.
type Holder interface {
	// Holds returns the holds that the calls since the last Holds requested, once. The slice is valid until the
	// next call.
	Holds() []Hold
}

// Ender is a [PacketHost] that can end a probe before it is answered.
type Ender interface {
	// Ends returns, once, the probes whose results are no longer needed. The slice is
	// valid until the next call.
	Ends() []hostagent.QP
}

// Hold makes a queue pair send nothing before a time.
type Hold struct {
	QP    hostagent.QP
	Until fabric.Time
}

// Config sets up a [Host]. All schemes except ethereal use only Fabric, Host, Seed and StartJitter of the agent's
// configuration.
type Config struct {
	hostagent.Config
	MTU int `json:",omitempty"` // bytes of payload in a full packet; 0: transport.DefaultMTU

	news bool // the scheme's parameter
}
