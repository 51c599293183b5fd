package rollout

import (
	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// Write is a write to one switch. The requests of a switch are sent in the order in which they are made.
type Write struct {
	ID      uint64 // for [Core.Written]
	Node    fabric.NodeID
	Stage   int // of a change
	Updates []controller.Update
	// Repair marks a write that follows a read-back. It also deletes the stray entities found; Updates may then be
	// empty.
	Repair bool
}

// PortEvent is a port's state, for a switch's data plane.
type PortEvent struct {
	Node fabric.NodeID
	Port fabric.PortNo
	Up   bool
}

// Ready is the caller's work, in the order of the fields, and within a field in its order.
type Ready struct {
	Events  []Event           // decisions, for logs
	Start   *statepb.Update   // the snapshot with which agents begin; not nil once
	Notices []*statepb.Update // for all agents; their epochs are consecutive
	Writes  []Write           // each needs a call of [Core.Written]
	Ports   []PortEvent       // for switches whose data plane the controller notifies
	Reads   []fabric.NodeID   // switches whose tables are to be read; each needs a call of [Core.TablesRead]
	Probes  []suspicion.Probe // each for one agent; needs a call of [Core.ProbeResult]
}

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events, and the fields that they use.
const (
	PortHeard   EventKind = iota // Node, Port, Up, Damped: a switch's report
	Believed                     // Node, Port, Up: the state that is used
	Calmed                       // Node, Port: no longer held down for flapping
	LinkChanged                  // Link, Up, Epoch, Node: the reporting switch; NoNode: an operator
	Drained                      // Link, Up
	TakenBack                    // Link: its drain was reverted, because it would cut hosts off
	Suspected                    // Link, Up: true: no longer suspected; Confirmed
	Started                      // Epoch
	Repaired                     // Node, Count: updates after its read-back
	Refused                      // Node: a write
	Late                         // Node: the stage no longer waits for it
	Changed                      // Change: it was written, except for Missed
	PortSpeed                    // Node, Port, Rate: as reported by a switch; 0: unknown to it
)

// NoNode means no switch.
const NoNode fabric.NodeID = -1

// Event is a decision.
type Event struct {
	Kind      EventKind
	Node      fabric.NodeID
	Port      fabric.PortNo
	Link      fabric.LinkID
	Up        bool
	Damped    bool
	Confirmed bool
	Rate      fabric.Rate
	Epoch     uint64 // number of changes of links
	Count     int
	Change    Change
}

// Change describes how a change of links was written.
type Change struct {
	Trigger, Written fabric.Time // time of the first event; time when the last write was answered or given up
	Epoch            uint64      // number of changes of links
	Switches         int         // writes sent; a switch may get several
	Missed           int         // writes that were late, refused or not sent: the switches' repairs follow
	Updates          int
}

func (c *Core) event(e Event) { c.ready.Events = append(c.ready.Events, e) }

// Ready returns the work since the last call, for the caller to carry out. Call it after all inputs of one time:
// inputs between two calls make one change.
func (c *Core) Ready(now fabric.Time) Ready {
	c.decide(now)
	if c.started && !c.change.busy {
		c.beginChange(now)
	}
	r := c.ready
	c.ready = Ready{}
	return r
}

// TakeNotices returns the part of the next [Core.Ready] that is for agents, and removes it there: everything except
// Writes, Ports and Reads. It computes no tables, which took 46 ms for a link of a fat-tree of 64-port switches
// with failures elsewhere (BenchmarkBadNews). A caller whose clock runs meanwhile carries it out first; a caller
// whose time stands still needs only Ready.
func (c *Core) TakeNotices(now fabric.Time) Ready {
	c.decide(now)
	r := c.ready
	c.ready = Ready{Writes: r.Writes, Ports: r.Ports, Reads: r.Reads}
	r.Writes, r.Ports, r.Reads = nil, nil, nil
	return r
}

// decide makes the decisions that need no tables.
func (c *Core) decide(now fabric.Time) {
	if now >= c.began+c.cfg.StartWait {
		c.start(now)
	}
	c.startIfReported(now)
	if c.started {
		c.takeSuspicions()
		c.takeNotices()
	}
}
