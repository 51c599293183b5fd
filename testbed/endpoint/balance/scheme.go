package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
)

// Host balances the flows of one host.
type Host interface {
	// Post takes the flows of one batching window.
	Post(now fabric.Time, batch []hostagent.Flow) error
	// Acked, Done and Timeout are what the NIC says of a queue pair: payload
	// bytes newly acknowledged; all of it acknowledged; timer expired.
	Acked(now fabric.Time, qp hostagent.QP, bytes int64)
	Done(now fabric.Time, qp hostagent.QP)
	Timeout(now fabric.Time, qp hostagent.QP)
	// Quench and Update are news of failures, from a switch and a controller. The
	// verdict on a quench is for the record.
	Quench(now fabric.Time, q hostagent.Quench) hostagent.Verdict
	Update(now fabric.Time, u *statepb.Update)
	// AckLabel chooses the label of a control packet to peer, given that of the
	// data packet that caused it, and whether a switch sent that packet round a
	// dead uplink.
	AckLabel(now fabric.Time, peer fabric.NodeID, mirrored fabric.Label, rerouted bool) fabric.Label
	// Tick does what is due; Deadline returns when it is to be called next, ok
	// false if not at all.
	Tick(now fabric.Time)
	Deadline() (at fabric.Time, ok bool)
	// Ready returns, once, what the calls since the last Ready ask for. The
	// slices are valid until the next call. A piece of no bytes is a probe.
	Ready() hostagent.Ready
}

// LossHost is a [Host] that leaves paths for what they lose. The methods are its queue
// pairs' [endpoint.PathWatcher], and can ask for things by Ready.
type LossHost interface {
	Host
	Lost(now fabric.Time, qp hostagent.QP, l hostagent.Loss)
	Unanswered(now fabric.Time, qp hostagent.QP, l hostagent.Silence)
	Late(now fabric.Time, peer fabric.NodeID, l fabric.Label)
	Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool)
}

// PacketHost is a [Host] that chooses a label for every data packet: all its
// queue pairs are balanced ones, as package endpoint calls them, and these two
// methods are their [endpoint.Balancer]. Echo can ask for things by Ready.
type PacketHost interface {
	Host
	Label(now fabric.Time, qp hostagent.QP) fabric.Label
	Echo(now fabric.Time, qp hostagent.QP, e endpoint.Echo)
}

// Holder is a [PacketHost] that can have queue pairs send nothing for a while.
type Holder interface {
	// Holds returns, once, what the calls since the last Holds ask for. The slice
	// is valid until the next call.
	Holds() []Hold
}

// Ender is a [PacketHost] that can lose interest in a probe before it is answered.
type Ender interface {
	// Ends returns, once, the probes whose results are no longer needed. The slice is
	// valid until the next call.
	Ends() []hostagent.QP
}

// Hold has a queue pair send nothing before a time.
type Hold struct {
	QP    hostagent.QP
	Until fabric.Time
}

// Config says for which host a [Host] decides. All schemes but ethereal use
// Fabric, Host, Seed and StartJitter of the agent's configuration alone.
type Config struct {
	hostagent.Config
	MTU int `json:",omitempty"` // bytes of payload in a full packet; 0: endpoint.DefaultMTU

	news bool // the scheme's parameter
}
