package controller

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Drain takes a link between switches out of use, or back into it, regardless of its ends' reports. For a host's
// link, which has no alternative, it returns an error and changes nothing.
func (c *Core) Drain(now fabric.Time, id fabric.LinkID, drained bool) error {
	if err := c.CanDrain(id); err != nil {
		return err
	}
	was := c.links[id].up()
	c.links[id].drained = drained
	c.linkChanged(now, id, was)
	return nil
}

// CanDrain returns why a link cannot be drained, regardless of its state; nil if it can.
func (c *Core) CanDrain(id fabric.LinkID) error {
	switch {
	case c.cfg.LinksOnly:
		return fmt.Errorf("controller: %s cannot be drained: the fabric is too large for tables", c.f.LinkName(id))
	case id < 0 || int(id) >= len(c.links):
		return fmt.Errorf("controller: no link %d; links are 0 to %d", id, len(c.links)-1)
	case int(id) < c.f.Hosts():
		return fmt.Errorf("controller: %s is a host's only link and cannot be drained", c.f.LinkName(id))
	}
	return nil
}

// SwitchesUsing returns the switches whose tables depend on whether any of the links is used, sorted: those that have
// to acknowledge a drain.
func (c *Core) SwitchesUsing(links []fabric.LinkID) []fabric.NodeID {
	used, unused := c.now.clone(), c.now.clone()
	var between []fabric.LinkID // hosts' links are in no table
	for _, id := range links {
		if c.CanDrain(id) == nil {
			between = append(between, id)
			c.setUplink(used, id, true)
			c.setUplink(unused, id, false)
		}
	}
	if len(between) == 0 {
		return nil
	}
	var nodes []fabric.NodeID
	for _, x := range c.appendChange(nil, between, false, used, unused) {
		nodes = append(nodes, x.Node)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// Pending reports whether the next [Core.Ready] has to write a link's state.
func (c *Core) Pending(id fabric.LinkID) bool { return c.links[id].pending }

// LinkReport is what the controller knows about a link.
type LinkReport struct {
	DownA, DownB bool // an end's last report was "down"
	Drained      bool
	Suspected    bool        // see Core.Suspect; the link is used nevertheless
	Confirmed    bool        // suspected, and probes over it were lost
	Rate         fabric.Rate // as its switches report it; 0: its full rate
	Epoch        uint64      // number of changes of the link so far
}

// Up reports whether the link is used.
func (r LinkReport) Up() bool { return !r.DownA && !r.DownB && !r.Drained }

// LinkReport returns the known state of a link of the fabric.
func (c *Core) LinkReport(id fabric.LinkID) LinkReport {
	l := &c.links[id]
	return LinkReport{DownA: l.downA, DownB: l.downB, Drained: l.drained, Suspected: l.suspected, Confirmed: l.confirmed, Rate: l.rate(), Epoch: l.epoch}
}

// DrainLinks returns the links to drain so that no traffic crosses a switch. It returns an error for a host, or a ToR
// with hosts.
func (c *Core) DrainLinks(node fabric.NodeID) ([]fabric.LinkID, error) {
	if node < 0 || int(node) >= c.f.Nodes() {
		return nil, c.unknownPort(node, 0)
	}
	n := c.f.Node(node)
	if n.Tier <= fabric.ToR {
		return nil, fmt.Errorf("controller: %s cannot be drained: its hosts have no other way; drain its uplinks one by one", c.f.Name(node))
	}
	var ids []fabric.LinkID
	for p := range n.Ports() {
		ids = append(ids, n.Link(fabric.PortNo(p+1)))
	}
	return ids, nil
}

// SeveringLinks returns those of the links whose drain would remove the last path between two ToRs, if the links are
// drained one after the other, starting from the drains in given. Severing links are skipped before the next ones
// are tried.
func (c *Core) SeveringLinks(given, links []fabric.LinkID) []fabric.LinkID {
	base := c.now.clone()
	for id := range c.links {
		if l := &c.links[id]; l.drained && !l.downA && !l.downB {
			c.setUplink(base, fabric.LinkID(id), true)
		}
	}
	for _, id := range given {
		c.setUplink(base, id, false)
	}
	tried := base
	var bad []fabric.LinkID
	for _, id := range links {
		if l := &c.links[id]; l.downA || l.downB {
			continue
		}
		next := tried.clone()
		c.setUplink(next, id, false)
		if _, _, cut := c.severedToRs(base, next); cut {
			bad = append(bad, id)
			continue
		}
		tried = next
	}
	return bad
}

// SeveredToRs returns two ToRs that would lose their last path to each other with the links. ok is false if there are
// none.
func (c *Core) SeveredToRs(links []fabric.LinkID) (src, dst fabric.NodeID, ok bool) {
	after := c.now.clone()
	for _, id := range links {
		if c.links[id].up() {
			c.setUplink(after, id, false)
		}
	}
	return c.severedToRs(c.now, after)
}

// severedToRs returns two ToRs that have a path before and none after.
func (c *Core) severedToRs(before, after *state) (src, dst fabric.NodeID, ok bool) {
	// A path between two ToRs, in both directions, needs an uplink of each to the same switch, or to switches of
	// two pods that share a core.
	joined := func(s *state, a, b int) bool {
		if s.deadLinks != nil {
			return c.reaches(s, a, b) && c.reaches(s, b, a)
		}
		return s.uplinksToward(s.tor[a]&s.tor[b], s.podOfToR(a), s.podOfToR(b)) != 0
	}
	if slices.Equal(after.tor, before.tor) && slices.Equal(after.agg, before.agg) && slices.Equal(after.deadLinks, before.deadLinks) {
		return 0, 0, false
	}
	for a := range after.tor {
		for b := range a {
			if !joined(after, a, b) && joined(before, a, b) {
				return c.f.ToRID(b), c.f.ToRID(a), true
			}
		}
	}
	return 0, 0, false
}
