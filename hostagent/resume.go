package hostagent

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Resume takes over a queue pair that is in use with label l: one of an earlier agent, or of another program. It is not
// in [Ready].Open. If its path is known to be dead, it moves as any other. home is the label of the path to which it
// returns when possible: the one with which it was opened. Under the same ToR labels do not matter. An error wraps
// [ErrFlow].
func (c *Core) Resume(now fabric.Time, f Flow, l, home fabric.Label) (QP, error) {
	c.advance(now)
	if err := c.checkBatch([]Flow{f}); err != nil {
		return 0, err
	}
	cut, path := Cut{Bytes: f.Bytes}, 0
	var d *destination
	if c.hasPathChoice(f.Dst) {
		d = c.towards(f.Dst)
		var ok bool
		if path, ok = c.pathOf(d, l); !ok {
			return 0, fmt.Errorf("%w: label %d names no path to host %d", ErrFlow, l, f.Dst)
		}
		if cut.Path, ok = c.pathOf(d, home); !ok {
			return 0, fmt.Errorf("%w: label %d names no path to host %d", ErrFlow, home, f.Dst)
		}
	}
	c.stats.Flows++
	c.openPiece(f, cut, d)
	c.ready.Open = c.ready.Open[:len(c.ready.Open)-1]
	if d == nil {
		return c.nextQP, nil
	}
	if p := c.pieces.get(c.nextQP); path != int(p.home) {
		c.addOutstanding(d, int(p.home), -p.left)
		c.addOutstanding(d, path, p.left)
		d.used.set(path)
		p.path, p.flipped = int16(path), c.now
	}
	// While its home is dead, it stays, or moves off a dead path. If its home seems good, it stays too, until the
	// next notification: an agent that has just started knows little.
	if !d.isGood(path) {
		d.dirty = true
		c.movePieces(ByPush)
	}
	return c.nextQP, nil
}
