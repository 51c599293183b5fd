package hostagent

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Resume takes over a queue pair that is in use and carries a label: one that
// an agent before this one opened, or somebody else's. It is not in
// [Ready.Open]; if its path is known to be dead it flips like any other. Under
// the own ToR the label does not matter. An error wraps [ErrFlow].
func (c *Core) Resume(now fabric.Time, f Flow, l fabric.Label) (QP, error) {
	c.advance(now)
	if err := c.checkBatch([]Flow{f}); err != nil {
		return 0, err
	}
	cut := Cut{Bytes: f.Bytes}
	var d *destination
	if tor := c.fabric.ToROf(f.Dst); tor != c.tor {
		d = c.destination(tor)
		path, ok := c.pathOf(d, l)
		if !ok {
			return 0, fmt.Errorf("%w: label %d names no path to host %d", ErrFlow, l, f.Dst)
		}
		cut.Path = path
	}
	c.stats.Flows++
	c.openPiece(f, cut, d)
	c.open = c.open[:len(c.open)-1]
	if d != nil && !d.isGood(cut.Path) {
		d.dirty = true
		c.settle(ByPush)
	}
	return c.nextQP, nil
}
