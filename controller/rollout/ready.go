package rollout

import (
	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// Write is what one switch is to be sent. The requests of a switch are sent in the order
// in which they are asked for.
type Write struct {
	ID      uint64 // for [Core.Written]
	Node    fabric.NodeID
	Stage   int // of a change
	Updates []controller.Update
	// Repair says that this follows from a read-back and is to delete what that found
	// besides entries. Updates may be empty then.
	Repair bool
}

// PortEvent is a port's state, for a switch's data plane.
type PortEvent struct {
	Node fabric.NodeID
	Port fabric.PortNo
	Up   bool
}

// Ready is what is to be done, in the order of the fields, and those of one field in
// theirs.
type Ready struct {
	Events  []Event           // what was decided, for logs
	Start   *statepb.Update   // the snapshot that agents begin with; not nil once
	Notices []*statepb.Update // for all agents; their epochs have no gap
	Writes  []Write           // each is answered by [Core.Written]
	Ports   []PortEvent       // for switches whose data plane has to be notified
	Reads   []fabric.NodeID   // whose tables are to be read; answered by [Core.TablesRead]
	Probes  []suspicion.Probe // each for one agent; answered by [Core.ProbeResult]
}

// EventKind says what an [Event] is.
type EventKind uint8

// The kinds of events, and which fields of an event they use.
const (
	PortHeard   EventKind = iota // Node, Port, Up, Damped: what a switch said
	Believed                     // Node, Port, Up: what is acted on
	Calmed                       // Node, Port: it is not held down for flapping any more
	LinkChanged                  // Link, Up, Epoch, Node: whose word did it; NoNode: an operator's
	Drained                      // Link, Up
	TakenBack                    // Link: its drain, which would cut hosts off
	Suspected                    // Link, Up: not suspected; Confirmed
	Started                      // Epoch
	Repaired                     // Node, Count: updates that its read-back asks for
	Refused                      // Node: a write
	Late                         // Node: it is not waited for any longer
	Changed                      // Change: it is written
	PortSpeed                    // Node, Port, Rate: what a switch reported; 0: it does not know
)

// NoNode says that no switch is meant.
const NoNode fabric.NodeID = -1

// Event is something that was decided.
type Event struct {
	Kind      EventKind
	Node      fabric.NodeID
	Port      fabric.PortNo
	Link      fabric.LinkID
	Up        bool
	Damped    bool
	Confirmed bool
	Rate      fabric.Rate
	Epoch     uint64 // of all changes of links
	Count     int
	Change    Change
}

// Change is how a change of links was written.
type Change struct {
	Trigger, Written fabric.Time // when the first event came; when the last write was answered or given up on
	Epoch            uint64      // of all changes of links
	Switches         int         // writes sent; a switch may get several
	Updates          int
}

func (c *Core) event(e Event) { c.ready.Events = append(c.ready.Events, e) }

// Ready returns what came up since the last call. The caller carries it out. It is to be
// called after all inputs of one time: inputs between two calls make one
// change.
func (c *Core) Ready(now fabric.Time) Ready {
	c.decide(now)
	if c.started && !c.change.busy {
		c.beginChange(now)
	}
	r := c.ready
	c.ready = Ready{}
	return r
}

// TakeNotices returns the part of the next [Core.Ready] that is for agents, and removes it there: all
// but Writes, Ports and Reads. It computes no tables, which took 46 ms for a link of a
// fat-tree of 64-port switches with failures elsewhere (BenchmarkBadNews). An owner whose clock runs meanwhile carries it out first;
// one whose time stands still needs only Ready.
func (c *Core) TakeNotices(now fabric.Time) Ready {
	c.decide(now)
	r := c.ready
	c.ready = Ready{Writes: r.Writes, Ports: r.Ports, Reads: r.Reads}
	r.Writes, r.Ports, r.Reads = nil, nil, nil
	return r
}

// decide finds what can be said without tables.
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
