package hostagent

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// QP identifies a queue pair of this agent. Numbers start at 1 and are never reused. They are not the numbers on the
// wire.
type QP uint32

// Flow is one message to send, which the agent splits into pieces.
type Flow struct {
	ID    uint64        // chosen by the caller; not interpreted
	Dst   fabric.NodeID // NodeID of the receiving host
	Bytes int64         // number of bytes of the flow, at least 1
}

// Piece is a part of a flow, or all of it, to be sent on its own queue pair.
//
// A piece of no bytes is a probe: a zero-length RDMA WRITE, whose acknowledgement or time-out must be reported as that
// of other pieces.
type Piece struct {
	QP       QP
	Flow     uint64 // ID of the flow that the piece is part of
	Dst      fabric.NodeID
	Offset   int64 // bytes, from the flow's beginning
	Bytes    int64
	Label    fabric.Label
	Labelled bool        // Label is valid; false if the destination is under this host's own ToR
	Start    fabric.Time // earliest time to send
}

// Reason is why a piece moved to another path.
type Reason uint8

// Reasons. All but Return name the report about the old path.
const (
	ByTimeout Reason = iota
	ByQuench
	ByPush    // a controller's update reports a link of the path dead
	ByLoss    // the path lost some packets
	BySlow    // the path works, but is slower than others; other pieces stay on it
	BySilence // the path does not answer probes, though others do
	Return    // the piece's first path works again, or any path after all were dead
)

var reasons = [...]string{"timeout", "quench", "push", "loss", "slow", "silence", "return"}

func (r Reason) String() string { return reasons[r] }

// MarshalText returns the reason's name.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name of a reason.
func (r *Reason) UnmarshalText(text []byte) error {
	i := slices.Index(reasons[:], string(text))
	if i < 0 {
		return fmt.Errorf("hostagent: reason %q is none of %v", text, reasons)
	}
	*r = Reason(i)
	return nil
}

// Flip is the move of a queue pair to another path. Bytes in flight on the old path may be lost.
type Flip struct {
	QP       QP
	From, To fabric.Label
	Reason   Reason
	Dead     bool // the old path is dead or suspected to be: retransmit its packets in flight
}

// Ready is what the caller has to do, in this order: open the queue pairs in Open, then relabel those in Flip (a queue
// pair can be in both); make those in Resend retransmit their packets in flight at once, on the path where they are, if
// it can do that before their timers expire; and send the path probes in Ask, if [Config].Asks is set.
//
// Failed is to be reported to a controller that compares the agents' time-outs; without such a controller ignore it.
type Ready struct {
	Open   []Piece
	Flip   []Flip
	Resend []QP
	Ask    []Ask
	Failed []Failed
}

// Failed is a path that timed out, or was left because of losses, though no link on it was known to be dead.
type Failed struct {
	Dst, DstToR fabric.NodeID // the path's destination host, and that host's ToR
	Label       fabric.Label
}
