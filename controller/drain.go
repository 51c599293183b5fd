package controller

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Drain takes a link between switches out of use, or back into it, whatever its
// ends say. It returns an error, and changes nothing, for a host's link: a host
// has no other.
func (c *Core) Drain(now fabric.Time, id fabric.LinkID, drained bool) error {
	if err := c.CanDrain(id); err != nil {
		return err
	}
	was := c.links[id].up()
	c.links[id].drained = drained
	c.linkChanged(now, id, was)
	return nil
}

// CanDrain returns why a link cannot be drained, whatever its state; nil if it can.
func (c *Core) CanDrain(id fabric.LinkID) error {
	switch {
	case id < 0 || int(id) >= len(c.links):
		return fmt.Errorf("controller: no link %d; links are 0 to %d", id, len(c.links)-1)
	case int(id) < c.f.Hosts():
		return fmt.Errorf("controller: %s is a host's only link and cannot be drained", c.f.LinkName(id))
	}
	return nil
}

// LinkReport is all that is known of a link.
type LinkReport struct {
	DownA, DownB bool // what its ends said last
	Drained      bool
	Suspected    bool   // see Core.Suspect; it is used nevertheless
	Confirmed    bool   // by probes
	Epoch        uint64 // counts its changes
}

// Up reports whether the link is used.
func (r LinkReport) Up() bool { return !r.DownA && !r.DownB && !r.Drained }

// LinkReport returns what is known of a link of the fabric.
func (c *Core) LinkReport(id fabric.LinkID) LinkReport {
	l := &c.links[id]
	return LinkReport{DownA: l.downA, DownB: l.downB, Drained: l.drained, Suspected: l.suspected, Confirmed: l.confirmed, Epoch: l.epoch}
}

// DrainLinks returns the links to drain so that a switch carries nothing. It
// returns an error for a node that cannot be spared: a host, or a ToR with its
// hosts.
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

// Severed returns two ToRs that would lose their last path to each other with the
// links. ok is false when there are none.
func (c *Core) Severed(links []fabric.LinkID) (src, dst fabric.NodeID, ok bool) {
	after := c.now.clone()
	for _, id := range links {
		if c.links[id].up() {
			c.setUplink(after, id, false)
		}
	}
	// A path between two ToRs, in both directions, is an uplink of each to the
	// same switch, or to switches of two pods that share a core.
	joined := func(s *state, a, b int) bool {
		return s.support(s.tor[a]&s.tor[b], s.podOfToR(a), s.podOfToR(b)) != 0
	}
	if slices.Equal(after.tor, c.now.tor) && slices.Equal(after.agg, c.now.agg) {
		return 0, 0, false
	}
	for a := range after.tor {
		for b := range a {
			if !joined(after, a, b) && joined(c.now, a, b) {
				return c.f.ToRID(b), c.f.ToRID(a), true
			}
		}
	}
	return 0, 0, false
}
