package cabling

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// exchangedNodes finds pairs of switches that are in each other's place: everything that they received is right
// once their names are exchanged.
func (c *comparison) exchangedNodes() {
	tried := map[fabric.NodeID]bool{}
	for _, p := range c.wrongPlugs() {
		x := p.Node
		if tried[x] || c.f.Node(x).Tier == fabric.Host {
			continue
		}
		tried[x] = true
		// The switch that the other end should have found in x's place.
		want, ok := plannedPeer(c.f, c.partner[p])
		if !ok || want.Port != p.Port || want.Node == x || tried[want.Node] {
			continue
		}
		if at := c.explainedBy(x, want.Node); len(at) > 0 {
			tried[want.Node] = true
			nx, ny := c.f.Name(x), c.f.Name(want.Node)
			c.addFault(fmt.Sprintf("%s and %s stand in each other's place: all their cables are as planned for the other", nx, ny),
				fmt.Sprintf("exchange the addresses of %s and %s in the targets file (p4runtime, gnmi, ports); the cables can stay", nx, ny), at...)
		}
	}
}

// explainedBy returns the places of x and y, and of their neighbours, if all are right once x and y are exchanged,
// and both x and y now have two or more wrong ones.
func (c *comparison) explainedBy(x, y fabric.NodeID) []Place {
	if c.f.Node(x).Tier != c.f.Node(y).Tier {
		return nil
	}
	swap := func(p Place) Place {
		switch p.Node {
		case x:
			p.Node = y
		case y:
			p.Node = x
		}
		return p
	}
	var at []Place
	count := map[fabric.NodeID]int{}
	for _, p := range sorted(c.partner) {
		if p.Node != x && p.Node != y {
			continue
		}
		q := c.partner[p]
		want, ok := plannedPeer(c.f, swap(p))
		if !ok || want != swap(q) {
			return nil
		}
		if !c.pluggedAsPlanned(p) {
			count[p.Node]++
			at = append(at, p, q)
		}
	}
	if count[x] < 2 || count[y] < 2 {
		return nil // an exchange of two cables is likelier than one of two switches
	}
	return at
}

// cable is a cable that leads elsewhere. Planned cables and actual ones alternate in chains and rings; side 0 and
// side 1 are every other end along them.
type cable struct{ end [2]Place }

// movedPlugs reports the cables that lead elsewhere; cables whose ends were exchanged among each other are one
// fault.
func (c *comparison) movedPlugs() {
	wrong := c.wrongPlugs()
	seen := map[Place]bool{}
	for _, p := range wrong {
		if seen[p] {
			continue
		}
		cables := c.connectedCables(p, seen)
		var at []Place
		var found []string
		for _, w := range cables {
			at = append(at, w.end[0], w.end[1])
			found = append(found, c.name(w.end[0])+" leads to "+c.name(w.end[1]))
		}
		what := strings.Join(found, ", ")
		if len(cables) > 1 {
			what = fmt.Sprintf("%d cables are exchanged: %s", len(cables), what)
		}
		c.addFault(what, c.remedy(cables), at...)
	}
}

// connectedCables collects the cables that are connected with a place's cable by planned links.
func (c *comparison) connectedCables(from Place, seen map[Place]bool) []cable {
	type sided struct {
		Place
		side int
	}
	todo := []sided{{from, 0}}
	var out []cable
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		if seen[p.Place] {
			continue
		}
		q, ok := c.partner[p.Place]
		if !ok || c.reported[p.Place] || c.pluggedAsPlanned(p.Place) {
			continue
		}
		seen[p.Place], seen[q] = true, true
		var w cable
		w.end[p.side], w.end[1-p.side] = p.Place, q
		out = append(out, w)
		if next, ok := plannedPeer(c.f, p.Place); ok {
			todo = append(todo, sided{next, 1 - p.side})
		}
		if next, ok := plannedPeer(c.f, q); ok {
			todo = append(todo, sided{next, p.side})
		}
	}
	return out
}

// remedy returns which plugs to move to which ports. Of the two sides it chooses the one with fewer moves.
func (c *comparison) remedy(cables []cable) string {
	side := 0
	if c.moveCost(cables, 1) < c.moveCost(cables, 0) {
		side = 1
	}
	var moves []string
	var plugs []Place
	for _, w := range cables {
		from, to, ok := c.moveOf(w, side)
		if !ok {
			if from, to, ok = c.moveOf(w, 1-side); !ok {
				moves = append(moves, "pull the cable at "+c.name(from))
				continue
			}
		}
		plugs = append(plugs, from)
		moves = append(moves, fmt.Sprintf("move the plug in %s to %s", c.name(from), c.name(to)))
	}
	if len(cables) == 2 && len(plugs) == 2 {
		from, to, _ := c.moveOf(cables[0], side)
		if from == plugs[0] && to == plugs[1] {
			return fmt.Sprintf("exchange the plugs in %s and %s", c.name(plugs[0]), c.name(plugs[1]))
		}
	}
	return strings.Join(moves, "; ")
}

// moveOf returns where the plug at one end of a cable belongs: the planned partner of the other end.
func (c *comparison) moveOf(w cable, side int) (from, to Place, ok bool) {
	to, ok = plannedPeer(c.f, w.end[1-side])
	return w.end[side], to, ok
}

// moveCost ranks the sides by the work of moving plugs: impossible moves, then nodes to visit, then hosts among them,
// which have no spare plugs.
func (c *comparison) moveCost(cables []cable, side int) int {
	var nodes []fabric.NodeID
	bad, hosts := 0, 0
	for _, w := range cables {
		_, to, ok := c.moveOf(w, side)
		if !ok {
			bad++
			continue
		}
		for _, n := range []fabric.NodeID{w.end[side].Node, to.Node} {
			if !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
				if c.f.Node(n).Tier == fabric.Host {
					hosts++
				}
			}
		}
	}
	return bad<<20 + len(nodes)<<10 + hosts
}
