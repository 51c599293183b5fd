package rollout

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// PortState processes a switch's report of a port. It ignores ports that the fabric does not have.
func (c *Core) PortState(now fabric.Time, node fabric.NodeID, port fabric.PortNo, up bool) {
	if _, ok := c.f.LinkAt(node, port); !ok {
		return
	}
	d := c.device(node)
	d.reportedPorts[port] = true
	c.notifyPort(d, port, up)
	end := fabric.End{Node: node, Port: port}
	believed := c.damper.Reported(now, end, up)
	c.emitEvent(Event{Kind: PortReported, Node: node, Port: port, Up: up, Damped: !believed})
	if believed {
		c.believe(now, end, up)
	}
}

// PortRate processes a switch's report of a port's speed: see [controller.Core.PortRate]. It ignores ports that the
// fabric does not have.
func (c *Core) PortRate(node fabric.NodeID, port fabric.PortNo, rate fabric.Rate) {
	if c.tables.PortRate(node, port, rate) == nil {
		c.emitEvent(Event{Kind: PortSpeed, Node: node, Port: port, Rate: rate})
	}
}

// Unreported returns the ports of the fabric that a switch has never reported. They count as up.
func (c *Core) Unreported(node fabric.NodeID) []fabric.PortNo {
	var out []fabric.PortNo
	for p := fabric.PortNo(1); int(p) <= c.f.Node(node).Ports(); p++ {
		if _, ok := c.f.LinkAt(node, p); ok && !c.device(node).reportedPorts[p] {
			out = append(out, p)
		}
	}
	return out
}

// PortsKnown reports whether the states of all of a switch's ports are known and up to date.
func (c *Core) PortsKnown(now fabric.Time, node fabric.NodeID, known bool) {
	d := c.device(node)
	if d.portsCurrent = known; !known {
		return
	}
	d.portsReported = true
	if d.synced {
		c.notifyAllPorts(now, d)
	}
	c.startIfReported(now)
}

// believe acts on a port's state, unless it is up too early: a switch that starts has its links up before it has
// its tables, and packets through it are lost until then. So a link that was down and comes back counts as down
// until the switches at its ends have their tables.
func (c *Core) believe(now fabric.Time, p fabric.End, up bool) {
	if up && c.tooEarly(now, p) {
		return
	}
	delete(c.earlyPorts, p)
	c.applyPortState(now, p, up)
}

// tooEarly reports whether a port is up too early, and records it.
func (c *Core) tooEarly(now fabric.Time, p fabric.End) bool {
	id, _ := c.f.LinkAt(p.Node, p.Port)
	r, l := c.tables.LinkReport(id), c.f.Link(id)
	if was := p == l.A && r.DownA || p == l.B && r.DownB; !was || c.cfg.TablesWait == 0 || c.haveTables(l) {
		return false
	}
	if _, known := c.earlyPorts[p]; !known {
		c.earlyPorts[p] = now + c.cfg.TablesWait
	}
	return true
}

// haveTables reports whether the switches at a link's ends have their tables, as far as this controller knows.
func (c *Core) haveTables(l *fabric.Link) bool {
	for _, e := range []fabric.End{l.A, l.B} {
		if c.f.Node(e.Node).Tier == fabric.Host {
			continue
		}
		if d := c.device(e.Node); (!d.synced || d.pending > 0) && !d.standby {
			return false
		}
	}
	return true
}

// releaseEarly believes the ports whose wait is over.
func (c *Core) releaseEarly(now fabric.Time) {
	if len(c.earlyPorts) == 0 {
		return
	}
	for _, p := range slices.SortedFunc(maps.Keys(c.earlyPorts), compareEnds) {
		id, _ := c.f.LinkAt(p.Node, p.Port)
		if c.haveTables(c.f.Link(id)) || now >= c.earlyPorts[p] {
			delete(c.earlyPorts, p)
			c.applyPortState(now, p, true)
		}
	}
}

func compareEnds(a, b fabric.End) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port))
}

// applyPortState applies a port's new state: to the tables, and to the links that agents use.
func (c *Core) applyPortState(now fabric.Time, p fabric.End, up bool) {
	c.emitEvent(Event{Kind: Believed, Node: p.Node, Port: p.Port, Up: up})
	before := c.tables.Epoch()
	if err := c.tables.PortState(now, p.Node, p.Port, up); err != nil {
		return // a port that the fabric does not have was rejected before
	}
	id, _ := c.f.LinkAt(p.Node, p.Port)
	if c.tables.Epoch() != before {
		c.linkChanged(now, id, p.Node)
	}
	if c.suspicion != nil {
		r := c.tables.LinkReport(id)
		c.suspicion.LinkState(now, id, !r.DownA && !r.DownB)
	}
}

func (c *Core) linkChanged(now fabric.Time, id fabric.LinkID, by fabric.NodeID) {
	c.emitEvent(Event{Kind: LinkChanged, Link: id, Node: by, Up: c.tables.LinkUp(id), Epoch: c.tables.Epoch()})
	if !c.triggered {
		c.trigger, c.triggered = now, true
	}
}

// renotifyInterval is the interval at which all port states are sent. A port that went down and came back between two
// reports of the switch shows no change, but the chip has latched that it went down. It is long, because a port
// that has just gone down is reported up if the switch's message about it is still in flight.
const renotifyInterval = 30 * fabric.Second

// notifyPort sends a port's state to a switch's data plane, if nothing on the switch reports it completely: a chip
// learns at once that a port went down, but only from the controller that it is back. States that cannot be sent
// now are sent with all others when the tables are in place.
func (c *Core) notifyPort(d *device, p fabric.PortNo, up bool) {
	if c.cfg.NotifyPorts == nil || !c.cfg.NotifyPorts(d.id) {
		return
	}
	if d.ports == nil {
		d.ports = map[fabric.PortNo]bool{}
	}
	d.ports[p] = up
	if d.synced {
		c.ready.Ports = append(c.ready.Ports, PortEvent{d.id, p, up})
	}
}

// notifyAllPorts sends the states of all ports: the data plane may be new, or have missed some. Uplinks are then in
// the table that gives their index among the live ones. While the switch is not connected, the chip may be the
// first to know that a port is down.
func (c *Core) notifyAllPorts(now fabric.Time, d *device) {
	d.renotify = now + renotifyInterval
	for _, p := range slices.Sorted(maps.Keys(d.ports)) {
		if up := d.ports[p]; !up || d.portsCurrent {
			c.ready.Ports = append(c.ready.Ports, PortEvent{d.id, p, up})
		}
	}
}
