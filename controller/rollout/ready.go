package rollout

import (
	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// Write is a write to one switch. The requests of a switch are sent in the order in which they are made.
type Write struct {
	ID      uint64 // number to pass to [Core.Written]
	Node    fabric.NodeID
	Stage   int // stage of the change: see the package comment
	Updates []controller.Update
	// Repair marks a write that follows a read-back. It also deletes the stray entities found; Updates may then be
	// empty.
	Repair bool
}

// PortEvent is a port's state, of which the controller notifies a switch's data plane.
type PortEvent struct {
	Node fabric.NodeID
	Port fabric.PortNo
	Up   bool
}

// Ready is what the caller has to do: fields in their order, and within a field in its order.
type Ready struct {
	Events  []Event           // the core's decisions, to be logged
	Start   *statepb.Update   // the first snapshot for agents; not nil once
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
	PortReported  EventKind = iota // Node, Port, Up, Damped: a switch reported the port's state
	Believed                       // Node, Port, Up: the state that tables and notices now use
	FlappingEnded                  // Node, Port: it is no longer held down for flapping
	LinkChanged                    // Link, Up, Epoch, Node: the switch that reported it; NoNode: an operator
	Drained                        // Link was drained, or, if Up, put back into use
	DrainReverted                  // Link: its drain was undone, because hosts would lose their last path
	Suspected                      // Link, Up: true if no longer suspected; Confirmed
	Started                        // the start is over; Epoch: the number of changes of links so far
	Repaired                       // Node, Count: updates written because the tables read from it differed
	Refused                        // switch Node refused a table write
	Late                           // Node: it did not acknowledge in time, and the stage no longer waits for it
	Changed                        // Change: all its writes are done, except for Missed
	PortSpeed                      // Node, Port, Rate: as reported by a switch; 0: unknown to it
)

// NoNode means no switch.
const NoNode fabric.NodeID = -1

// Event is a decision of the core, for logs. Its kind says which fields are used.
type Event struct {
	Kind      EventKind
	Node      fabric.NodeID
	Port      fabric.PortNo
	Link      fabric.LinkID
	Up        bool
	Damped    bool
	Confirmed bool
	Rate      fabric.Rate
	Epoch     uint64 // number of changes of links so far
	Count     int
	Change    Change
}

// Change is how long the writing of a change of links took, and its extent.
type Change struct {
	// Trigger is the time of the first event, Written that of the last acknowledged (or no longer awaited) write.
	Trigger, Written fabric.Time
	Epoch            uint64 // number of changes of links so far
	Switches         int    // writes sent; a switch may get several
	Missed           int    // writes that were late, refused or not sent; the switches' tables are repaired later
	Updates          int
}

func (c *Core) emitEvent(e Event) { c.ready.Events = append(c.ready.Events, e) }

// Ready returns the work since the last call, for the caller to carry out. Call it after all inputs of one time:
// inputs between two calls make one change.
func (c *Core) Ready(now fabric.Time) Ready {
	c.decide(now)
	if c.started && !c.change.inProgress {
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
