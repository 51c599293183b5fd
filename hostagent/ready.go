package hostagent

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// QP identifies a queue pair of this agent. Numbers start at 1 and are never reused; they are not the NIC's.
type QP uint32

// Flow is one message to send.
type Flow struct {
	ID    uint64        // the caller's; not interpreted
	Dst   fabric.NodeID // a host
	Bytes int64         // at least 1
}

// Piece is a part of a flow, or all of it, on its own queue pair.
//
// A piece of no bytes is a probe: a zero-length write, about which the core needs the same reports as about the
// others.
type Piece struct {
	QP       QP
	Flow     uint64 // the flow's ID
	Dst      fabric.NodeID
	Offset   int64 // in the flow, bytes
	Bytes    int64
	Label    fabric.Label
	Labelled bool        // false: the destination is under this host's own ToR
	Start    fabric.Time // earliest time to send
}

// Reason is why a piece changes its path.
type Reason uint8

// Reasons. All but Return name the report about the old path.
const (
	ByTimeout Reason = iota
	ByQuench
	ByPush    // a controller's update
	ByLoss    // the path loses packets, though not all
	BySlow    // the path works, but slower than others, and keeps a share
	BySilence // the path does not answer probes, though others do
	Return    // the piece's home path is good again, or any path after all were dead
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

// Flip moves a queue pair to another path. Bytes in flight on the old one may be lost.
type Flip struct {
	QP       QP
	From, To fabric.Label
	Reason   Reason
	Dead     bool // From is dead or suspected: retransmit what is in flight on it
}

// Ready lists the driver's work, in this order: open queue pairs for Open, then relabel those in Flip. A queue pair
// can be in both. Path probes are in Ask: see [Config].Asks.
//
// Failed is for a controller that combines the agents' time-outs; ignore it without one.
type Ready struct {
	Open   []Piece
	Flip   []Flip
	Ask    []Ask
	Failed []Failed
}

// Failed is a path that timed out, or was left because of losses, though no link on it was known to be dead.
type Failed struct {
	Dst, DstToR fabric.NodeID // destination host, and its ToR
	Label       fabric.Label
}
