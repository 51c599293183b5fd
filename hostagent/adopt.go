package hostagent

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Held is a queue pair that is not done, as an agent that is started again needs
// to know it.
type Held struct {
	QP       QP            `json:"qp"`
	Dst      fabric.NodeID `json:"dst"`
	Left     int64         `json:"left"` // bytes not acknowledged
	Label    fabric.Label  `json:"label"`
	Home     fabric.Label  `json:"home"`     // the label that it was opened with
	Labelled bool          `json:"labelled"` // false: under the host's own ToR
}

// Held returns the queue pairs that are not done, in order of their numbers. host
// tells a queue pair's destination, which the core does not keep.
func (c *Core) Held(host func(QP) fabric.NodeID) []Held {
	out := make([]Held, 0, len(c.pieces))
	for qp, p := range c.pieces {
		h := Held{QP: qp, Dst: host(qp), Left: p.left}
		if p.dst != nil {
			h.Labelled, h.Label, h.Home = true, c.label(p.dst, p.path), c.label(p.dst, p.home)
		}
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b Held) int { return int(int64(a.QP) - int64(b.QP)) })
	return out
}

// Adopt takes over a queue pair that another core has opened and labelled: an
// agent that was started again goes on where it stopped. Nothing is opened or
// relabelled by it; what is known to be dead moves the queue pair with the next
// word of a failure, or at once by an Update that comes after. Numbers of new
// queue pairs follow the largest adopted. The error wraps [ErrFlow].
func (c *Core) Adopt(now fabric.Time, h Held) error {
	c.advance(now)
	switch {
	case h.QP == 0 || c.pieces[h.QP] != nil:
		return fmt.Errorf("%w: adopt: queue pair %d is 0 or known already", ErrFlow, h.QP)
	case h.Dst < 0 || int(h.Dst) >= c.fabric.Hosts() || h.Dst == c.cfg.Host || h.Left < 0:
		return fmt.Errorf("%w: adopt: queue pair %d: %d bytes to node %d", ErrFlow, h.QP, h.Left, h.Dst)
	}
	p := &piece{qp: h.QP, left: h.Left}
	tor := c.fabric.ToROf(h.Dst)
	if h.Labelled != (tor != c.tor) {
		return fmt.Errorf("%w: adopt: queue pair %d: labelled is %v; it is what leads to another ToR", ErrFlow, h.QP, h.Labelled)
	}
	if h.Labelled {
		d := c.destination(tor)
		var ok, home bool
		p.path, ok = c.pathOf(d, h.Label)
		p.home, home = c.pathOf(d, h.Home)
		if !ok || !home {
			return fmt.Errorf("%w: adopt: queue pair %d: label %d or %d names no path to %s", ErrFlow, h.QP, h.Label, h.Home, c.fabric.Name(tor))
		}
		p.dst, p.everMoved = d, p.path != p.home
		p.flipped = c.now
		d.link(p)
		d.used.set(p.path)
		c.load(d, p.path, p.left)
	}
	c.pieces[h.QP] = p
	c.nextQP = max(c.nextQP, h.QP)
	return nil
}
