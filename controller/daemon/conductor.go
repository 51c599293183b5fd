package daemon

import (
	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// conductor carries one change out at a time, stage by stage. It has no
// goroutine, socket or clock: it says what to write, and is told what became of
// it.
type conductor struct {
	rest    []controller.SwitchDelta // of the stages to come
	waiting map[fabric.NodeID]int    // deltas of the present stage that are under way
	busy    bool
	stage   uint64 // counts stages, so that what comes late is told apart
	written int    // updates of the present change
}

// begin starts a change and returns the deltas of its first stage. The conductor
// must not be busy.
func (c *conductor) begin(deltas []controller.SwitchDelta) []controller.SwitchDelta {
	c.rest, c.busy, c.written = deltas, true, 0
	return c.next()
}

// next goes on to the next stage and returns its deltas; none, and the conductor
// idle, when the change is carried out.
func (c *conductor) next() []controller.SwitchDelta {
	c.stage++
	c.waiting = map[fabric.NodeID]int{}
	n := 0
	for n < len(c.rest) && c.rest[n].Stage == c.rest[0].Stage {
		c.waiting[c.rest[n].Node]++
		c.written += len(c.rest[n].Updates)
		n++
	}
	now := c.rest[:n]
	c.rest = c.rest[n:]
	c.busy = n > 0
	return now
}

// done notes that a delta of a stage was carried out, or will not be, and reports
// whether that ends the stage: next is due then.
func (c *conductor) done(stage uint64, node fabric.NodeID) bool {
	if stage != c.stage || c.waiting[node] == 0 {
		return false
	}
	if c.waiting[node]--; c.waiting[node] == 0 {
		delete(c.waiting, node)
	}
	return len(c.waiting) == 0
}

// late returns the switches that the present stage waits for.
func (c *conductor) late() []fabric.NodeID {
	var ids []fabric.NodeID
	for id := range c.waiting {
		ids = append(ids, id)
	}
	return ids
}
