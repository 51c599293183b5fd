package hostagent

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Resume takes over a queue pair that is in use and carries a label: one that
// an agent before this one opened, or somebody else's. It is not in
// [Ready.Open]; if its path is known to be dead it flips like any other. Under
// the own ToR the label does not matter. home is the label of the path that it
// returns to when it can: the one that it was opened with. An error wraps
// [ErrFlow].
func (c *Core) Resume(now fabric.Time, f Flow, l, home fabric.Label) (QP, error) {
	c.advance(now)
	if err := c.checkBatch([]Flow{f}); err != nil {
		return 0, err
	}
	cut, path := Cut{Bytes: f.Bytes}, 0
	var d *destination
	if c.choice(f.Dst) {
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
	c.open = c.open[:len(c.open)-1]
	if d == nil {
		return c.nextQP, nil
	}
	if p := c.pieces.get(c.nextQP); path != int(p.home) {
		c.load(d, int(p.home), -p.left)
		c.load(d, path, p.left)
		d.used.set(path)
		p.path, p.flipped = int16(path), c.now
	}
	// While its home is dead for all that is known it stays, or moves off a path
	// that is dead. When its home is not, it stays too, until the next word: an
	// agent that has just started has not received yet.
	if !d.isGood(path) {
		d.dirty = true
		c.movePieces(ByPush)
	}
	return c.nextQP, nil
}
