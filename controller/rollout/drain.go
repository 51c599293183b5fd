package rollout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/drains"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/durable"
)

// ErrSevers is wrapped by the error of a drain that would remove the last path between hosts.
var ErrSevers = errors.New("would cut off")

// Marks returns the records of links that are, or were, drained.
func (c *Core) Marks() []drains.Mark { return c.drains.Marks() }

// Remember sets the drained links from before a restart. Call it before any other input.
func (c *Core) Remember(marks []drains.Mark) error {
	c.drains.Merge(marks)
	return c.applyMarks(c.began, c.drains.Drained())
}

// Drain takes links out of use while they still work, or back into use. Without force, if hosts would lose their
// last path, it drains nothing and returns an error that wraps [ErrSevers]. changed reports whether [Core.Marks]
// changed.
func (c *Core) Drain(now fabric.Time, ids []fabric.LinkID, drained, force bool) (changed bool, err error) {
	for _, id := range ids {
		if err := c.tables.CanDrain(id); err != nil {
			return false, err
		}
	}
	if src, dst, ok := c.tables.SeveredToRs(ids); ok && drained && !force {
		return false, fmt.Errorf("%w: %s and %s would lose their last path", ErrSevers, c.f.Name(src), c.f.Name(dst))
	}
	before := c.drains.Clone()
	var news []drains.Mark
	for _, id := range ids {
		if c.drains.Put(id, drained, force, c.cfg.Core.Instance) {
			news = append(news, drains.Mark{Link: id, Drained: drained})
		}
	}
	return c.storeMarks(now, before, news)
}

// Merge adds another controller's records of drained links. changed reports whether [Core.Marks] changed.
func (c *Core) Merge(now fabric.Time, marks []drains.Mark) (changed bool, err error) {
	for _, m := range marks {
		if err := c.tables.CanDrain(m.Link); err != nil {
			return false, fmt.Errorf("%w: do both have the same fabric?", err)
		}
	}
	before := c.drains.Clone()
	return c.storeMarks(now, before, c.reconcileDrains(c.drains.Merge(marks)))
}

// storeMarks stores new marks and carries them out. before is the set without them.
func (c *Core) storeMarks(now fabric.Time, before drains.Set, news []drains.Mark) (changed bool, err error) {
	if len(news) == 0 {
		return false, nil
	}
	if c.cfg.StoreMarks != nil {
		if err := c.cfg.StoreMarks(c.drains.Marks()); err != nil {
			c.drains = before
			if errors.Is(err, durable.ErrUnsure) {
				err = errors.Join(err, c.cfg.StoreMarks(before.Marks()))
			}
			return false, err
		}
	}
	return true, c.applyMarks(now, news)
}

// reconcileDrains reverts marks that would cost hosts their last path: two operators may have drained, at controllers
// that could not reach each other, links that only together are too many. All controllers revert the same marks. It
// returns the marks to carry out. Before the ports' states are known it reverts nothing: a peer's marks have been
// agreed before.
func (c *Core) reconcileDrains(news []drains.Mark) []drains.Mark {
	var added []fabric.LinkID
	for _, m := range news {
		if m.Drained && !m.Forced {
			added = append(added, m.Link)
		}
	}
	if _, _, cut := c.tables.SeveredToRs(added); !c.started || !cut {
		return news
	}
	var forced, asked []fabric.LinkID
	for _, m := range c.drains.Drained() {
		if m.Forced {
			forced = append(forced, m.Link)
		} else {
			asked = append(asked, m.Link)
		}
	}
	for _, id := range c.tables.SeveringLinks(forced, asked) {
		c.drains.Put(id, false, false, c.cfg.Core.Instance)
		c.emitEvent(Event{Kind: DrainReverted, Link: id})
		news = slices.DeleteFunc(news, func(m drains.Mark) bool { return m.Link == id })
		news = append(news, drains.Mark{Link: id})
	}
	return news
}

// applyMarks carries out new marks.
func (c *Core) applyMarks(now fabric.Time, news []drains.Mark) error {
	for _, m := range news {
		before := c.tables.Epoch()
		if err := c.tables.Drain(now, m.Link, m.Drained); err != nil {
			return err
		}
		c.emitEvent(Event{Kind: Drained, Link: m.Link, Up: !m.Drained})
		if c.tables.Epoch() != before {
			c.linkChanged(now, m.Link, NoNode)
		}
	}
	return nil
}

// Behind returns those of the switches that may still have tables of earlier states of the links, because they have
// not acknowledged what follows from the present ones. [controller.Core.SwitchesUsing] returns the switches to ask
// about.
func (c *Core) Behind(ids []fabric.LinkID, switches []fabric.NodeID) []fabric.NodeID {
	if !c.started || slices.ContainsFunc(ids, c.tables.Pending) {
		return slices.Clone(switches)
	}
	var behind []fabric.NodeID
	for _, id := range switches {
		unsent := slices.ContainsFunc(c.change.rest, func(x controller.SwitchDelta) bool { return x.Node == id })
		if unsent || !c.Synced(id) {
			behind = append(behind, id)
		}
	}
	return behind
}
