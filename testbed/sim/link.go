package sim

import (
	"github.com/ethereal-fabric/ethereal/fabric"
)

// LinkDir is one direction of a link: 2*link away from the hosts (from end A to
// end B), 2*link+1 towards them.
type LinkDir int32

// Upward returns the direction of a link that leads away from the hosts.
func Upward(l fabric.LinkID) LinkDir { return LinkDir(2 * l) }

// Downward returns the direction of a link that leads towards the hosts.
func Downward(l fabric.LinkID) LinkDir { return LinkDir(2*l + 1) }

// Link returns the link of which d is a direction.
func (d LinkDir) Link() fabric.LinkID { return fabric.LinkID(d / 2) }

// Up reports whether d leads away from the hosts.
func (d LinkDir) Up() bool { return d&1 == 0 }

// SendDirection returns the direction in which a node's port sends.
func (n *Network) SendDirection(node fabric.NodeID, port fabric.PortNo) LinkDir {
	l := n.fab.Link(n.fab.Node(node).Link(port))
	if l.A.Node == node {
		return Upward(l.ID)
	}
	return Downward(l.ID)
}

// DirName returns a direction's name, the sender first: "tor0>agg1".
func (n *Network) DirName(d LinkDir) string {
	return n.fab.Name(n.dirs[d].from) + ">" + n.fab.Name(n.arrivals[d].to.Node)
}

// direction is the sending half of a direction of a link: the port that feeds it.
// What a packet that finds the port idle touches is one cache line, the data and
// control queues are the second, the counters of what was sent the third.
type direction struct {
	busyUntil    fabric.Time // the port sends until then
	perByte      fabric.Time // serialisation per byte; 0: not a whole number, use rate
	delay        fabric.Time
	from         fabric.NodeID
	readyPending bool // a ready event is pending
	down         bool
	paused       uint8   // classes, a bit each, that may not send
	nonEmpty     uint8   // classes that wait
	farRegion    *region // where it leads to; nil: the region it comes from
	tap          *captureTap
	gray         *grayDirection // nil: the link loses nothing by chance
	rate         fabric.Rate

	queues port

	counters LinkCounters
}

// arrival is the receiving half.
type arrival struct {
	flight  packetList // on the wire, oldest first
	to      fabric.End
	toHost  bool
	armed   bool // an arrival event is pending
	arrived int64
}

// serialisation returns how long the port sends a packet of that length.
func (r *region) serialisation(d *direction, length int32) fabric.Time {
	wire := max(1, int64(length)+r.overhead)
	if d.perByte != 0 {
		return d.perByte * fabric.Time(wire)
	}
	return d.rate.TimeFor(wire)
}

// transmit puts a packet on the wire; the port must be idle.
func (r *region) transmit(dir LinkDir, id packetID, p *packet) {
	d := &r.dirs[dir]
	d.busyUntil = r.now + r.serialisation(d, p.length)
	c := &d.counters
	if r.cfg.Stamp != nil && p.class == 0 && int(d.from) >= len(r.hosts) {
		l := r.fab.Link(dir.Link())
		port := l.Peer(l.Peer(d.from).Node).Port
		r.cfg.Stamp(p.data[:p.header], Hop{d.from, port, r.now, c.Bytes, int64(d.queues.classes[0].bytes), d.rate})
	}
	if p.class == 0 {
		c.DataPackets++
		c.DataPayload += int64(p.payload)
	} else {
		c.ControlPackets++
	}
	c.Bytes += int64(p.length)
	r.record(RecordSend, d.from, dir, 0, p)
	if d.tap != nil {
		r.capture(d, p)
	}
	if d.down || d.gray != nil && p.pause == 0 && d.gray.drops() {
		r.lose(dir, d, id, p)
		return
	}
	p.at = d.busyUntil + d.delay
	if d.farRegion != nil {
		r.cross(d.farRegion, dir, id, p)
		return
	}
	r.fly(dir, id, p)
}

// fly puts a packet on the wire to this region; p.at is its time of arrival.
func (r *region) fly(dir LinkDir, id packetID, p *packet) {
	a := &r.arrivals[dir]
	if tail := a.flight.tail; tail != 0 {
		r.pool.at(tail).setNextArrival(p.at)
	}
	a.flight.push(r.pool, id, p)
	if !a.armed {
		a.armed = true
		r.queue.push(eventOf(p.at, eventArrive, uint32(dir), 0))
	}
}

// arrive handles an arrival event: the oldest packet on the wire has arrived,
// unless a cut has emptied the wire since.
func (r *region) arrive(dir LinkDir) {
	a := &r.arrivals[dir]
	a.armed = false
	id := a.flight.head
	if id == 0 {
		return
	}
	p := r.pool.at(id)
	if p.at != r.now {
		// The packet the event was for is lost; this one was sent later.
		a.armed = true
		r.queue.push(eventOf(p.at, eventArrive, uint32(dir), 0))
		return
	}
	a.flight.pop(r.pool)
	if next := a.flight.head; next != 0 {
		at, ok := p.nextArrival()
		if !ok {
			at = r.pool.at(next).at
		}
		a.armed = true
		r.queue.push(eventOf(at, eventArrive, uint32(dir), 0))
	}
	r.hops++
	a.arrived++
	if p.pause != 0 {
		r.receivePause(dir, id, p)
		return
	}
	p.from = dir
	if a.toHost {
		r.deliver(a.to, id, p)
		return
	}
	r.ingress(a.to.Node, uint32(a.to.Port), id, p)
}

// Cut cuts directions of links: packets on the wire are lost now, and later packets when they are sent. A direction
// that is cut already stays so.
func (n *Network) Cut(dirs ...LinkDir) {
	for _, dir := range dirs {
		d := &n.dirs[dir]
		if d.down {
			continue
		}
		d.down = true
		n.regionOf(d.from).record(RecordCut, d.from, dir, 0, nil)
		a := &n.arrivals[dir]
		for r := n.regionOf(a.to.Node); a.flight.head != 0; {
			id, p := a.flight.pop(r.pool)
			r.lose(dir, d, id, p)
		}
		n.setPauseBelief(dir^1, true)
	}
}

// Restore undoes [Network.Cut]. Packets lost before stay lost.
func (n *Network) Restore(dirs ...LinkDir) {
	for _, dir := range dirs {
		d := &n.dirs[dir]
		if !d.down {
			continue
		}
		d.down = false
		n.setPauseBelief(dir^1, false)
		n.regionOf(d.from).record(RecordRestore, d.from, dir, 0, nil)
	}
}

// IsDown reports whether a direction is cut.
func (n *Network) IsDown(dir LinkDir) bool { return n.dirs[dir].down }

// lose counts a packet as lost because of a failed link direction.
func (r *region) lose(dir LinkDir, d *direction, id packetID, p *packet) {
	c := &d.counters
	if c.Lost == 0 {
		c.FirstLost = r.now
	}
	c.LastLost = r.now
	c.Lost++
	if p.class == 0 {
		c.LostData++
	}
	c.LostPayload += int64(p.payload)
	r.totals.Lost++
	r.record(RecordLost, d.from, dir, 0, p)
	r.pool.put(id)
}
