package sim

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// alphaUnit is the denominator of the dynamic threshold's fixed point.
const alphaUnit = 256

// maxCopies is the maximum number of packets that one packet can become within one event, by clones and recirculation.
const maxCopies = 512

// switchNode is the traffic manager of one switch.
type switchNode struct {
	pipeline Pipeline
	inPlace  InPlace   // the pipeline, if it is one
	out      []LinkDir // by port number less 1
	used     int64     // bytes of buffer taken
	maxUsed  int64
	drops    [numDropReasons]uint64
}

// port is the queues of one egress port.
type port struct {
	// Of the data class:
	changedAt fabric.Time // when its bytes last changed
	area      [2]uint64   // integral of its bytes over time, byte*ps, 128 bits: high, low
	maxBytes  int32

	classes [MaxClasses]classQueue
}

// classQueue is the packets of one class that wait at a port.
type classQueue struct {
	packetList
	bytes int32
}

// account brings the integral up to now; bytes[0] is about to change.
func (q *port) account(now fabric.Time) {
	hi, lo := bits.Mul64(uint64(q.classes[0].bytes), uint64(now-q.changedAt))
	var carry uint64
	q.area[1], carry = bits.Add64(q.area[1], lo, 0)
	q.area[0], _ = bits.Add64(q.area[0], hi, carry)
	q.changedAt = now
}

// mean returns the mean of the data class over the time up to now, in bytes.
func (q *port) mean(now fabric.Time) float64 {
	if now <= 0 {
		return 0
	}
	c := *q
	c.account(now)
	return (float64(c.area[0])*math.Exp2(64) + float64(c.area[1])) / float64(now)
}

// ingress takes a packet that arrived at a switch's port through its pipeline.
func (r *region) ingress(node fabric.NodeID, ingressPort uint32, id packetID, p *packet) {
	s := r.switchAt(node)
	a := Arrival{Now: r.now, Port: ingressPort, Header: p.data[:p.header], Length: int(p.length)}
	if s.inPlace != nil {
		if c, drop, ok := s.inPlace.IngressInPlace(a, &p.held); ok {
			r.forwardInPlace(node, s, c, drop, id, p)
			return
		}
	}
	copies := s.pipeline.Ingress(a, r.copies[:0])
	r.forward(node, s, copies, 0, id, p)
}

// forwardInPlace queues a packet that was processed in place.
func (r *region) forwardInPlace(node fabric.NodeID, s *switchNode, c Copy, drop bool, id packetID, p *packet) {
	if drop {
		r.drop(node, -1, DropPipeline, id, p)
		return
	}
	p.class = r.classOf(c.Priority, p)
	if c.Port >= 1 && int(c.Port) <= len(s.out) {
		p.is |= inPlace
		if copies := r.enqueue(node, s, s.out[c.Port-1], id, p, r.copies[:0]); len(copies) > 0 {
			r.forward(node, s, copies, 0, 0, nil)
		}
		return
	}
	s.inPlace.KeepInPlace(p.data[:p.header])
	_, copies, ok := s.inPlace.EgressInPlace(p.data[:p.header], int(p.length), &p.held,
		QueueState{EnqTime: r.now, DeqTime: r.now}, r.copies[:0])
	r.leave(node, c.Port, ok, id, p)
	if len(copies) > 0 {
		r.forward(node, s, copies, 0, 0, nil)
	}
}

// forward queues copies[from:] and whatever they turn into. id is the packet
// they were made of, which it consumes; 0 if they are new. Copies inherit its
// payload, as far as they are long enough.
func (r *region) forward(node fabric.NodeID, s *switchNode, copies []Copy, from int, id packetID, origin *packet) {
	payload, by := int32(0), LinkDir(-1)
	if id != 0 {
		payload, by = origin.payload, origin.from
		if len(copies) == from {
			r.drop(node, -1, DropPipeline, id, origin)
		}
	}
	for i := from; i < len(copies); i++ {
		c := copies[i]
		pid, p := id, origin
		if pid == 0 {
			pid, p = r.pool.get()
			p.header, p.pause, p.from, p.is = 0, 0, by, 0
			r.totals.Created++
		}
		id = 0 // the first copy takes the original's place
		p.length = int32(c.Length)
		p.payload = min(payload, p.length)
		p.class = r.classOf(c.Priority, p)
		p.setHandle(c.Handle)
		switch {
		case i >= maxCopies:
			s.pipeline.Free(c.Handle)
			r.drop(node, -1, DropRecirculation, pid, p)
		case c.Resume:
			before := len(copies)
			copies = s.pipeline.Resume(c.Handle, r.now, copies)
			r.replaced(node, pid, p, len(copies)-before)
		case c.Port >= 1 && int(c.Port) <= len(s.out):
			copies = r.enqueue(node, s, s.out[c.Port-1], pid, p, copies)
		default:
			var ok bool
			_, copies, ok = s.pipeline.Egress(c.Handle, QueueState{EnqTime: r.now, DeqTime: r.now}, copies)
			r.leave(node, c.Port, ok, pid, p)
		}
	}
	r.copies = copies[:0]
}

// leave ends a packet for the controller, or for a port that does not exist. The latter is known only after egress; ok
// says that egress did not drop it.
func (r *region) leave(node fabric.NodeID, port uint32, ok bool, id packetID, p *packet) {
	switch {
	case !ok:
		r.drop(node, -1, DropPipeline, id, p)
	case port == r.cfg.CPUPort:
		r.totals.ToCPU++
		r.pool.put(id)
	default:
		r.drop(node, -1, DropNoPort, id, p)
	}
}

// replaced accounts for a recirculated packet that became count copies, each of which needs a slot.
func (r *region) replaced(node fabric.NodeID, id packetID, p *packet, count int) {
	if count == 0 {
		r.drop(node, -1, DropPipeline, id, p)
		return
	}
	r.totals.Created--
	r.pool.put(id)
}

// enqueue admits a packet to an egress port's queue, or sends it on at once
// when the port is idle.
func (r *region) enqueue(node fabric.NodeID, s *switchNode, dir LinkDir, id packetID, p *packet, copies []Copy) []Copy {
	d := &r.dirs[dir]
	q := &d.queues
	verdict, reason := r.admission.admit(s, &q.classes[p.class], p), DropBuffer
	if r.flow != nil && p.class == 0 && r.flow.guard.drops(dir) {
		verdict, reason = refusePacket, DropWatchdog
	}
	switch verdict {
	case trimPacket:
		p.trim()
		p.class = r.topClass
		d.counters.Trimmed++
		if r.admission.admit(s, &q.classes[p.class], p) == admitPacket {
			if p.is&inPlace == 0 {
				s.pipeline.Trim(p.handle())
			}
			break
		}
		fallthrough
	case refusePacket:
		if p.is&inPlace != 0 {
			s.inPlace.FreeInPlace()
		} else {
			s.pipeline.Free(p.handle())
		}
		d.counters.Dropped++
		r.drop(node, dir, reason, id, p)
		return copies
	}
	length := int64(p.length)
	if p.is&inPlace != 0 {
		s.inPlace.KeepInPlace(p.data[:p.header])
	}
	if r.now >= d.busyUntil && d.nonEmpty == 0 && (d.paused == 0 || p.class != 0) {
		s.maxUsed = max(s.maxUsed, s.used+length)
		_, copies = r.egress(node, s, dir, d, id, p, QueueState{EnqTime: r.now, DeqTime: r.now}, copies)
		return copies
	}
	p.at = r.now
	p.depth = q.classes[0].bytes
	s.used += length
	s.maxUsed = max(s.maxUsed, s.used)
	if p.class == 0 {
		q.account(r.now)
		q.classes[0].bytes += p.length
		q.maxBytes = max(q.maxBytes, q.classes[0].bytes)
	} else {
		q.classes[p.class].bytes += p.length
	}
	q.classes[p.class].push(r.pool, id, p)
	d.nonEmpty |= 1 << p.class
	r.arm(r.now, dir, d)
	if r.flow != nil && p.class == 0 {
		r.countQueued(node, s, p.from, length)
	}
	return copies
}

// ready processes a ready event: the port is idle and has packets waiting.
func (r *region) ready(dir LinkDir) {
	d := &r.dirs[dir]
	d.readyPending = false
	node := d.from
	s := r.switchAt(node)
	copies := r.serve(node, s, dir, d, r.copies[:0])
	if len(copies) > 0 {
		r.forward(node, s, copies, 0, 0, nil)
	}
	r.copies = copies[:0]
}

// serve sends the first packet of the highest class that has one and may send.
func (r *region) serve(node fabric.NodeID, s *switchNode, dir LinkDir, d *direction, copies []Copy) []Copy {
	q := &d.queues
	sent := false
	for d.nonEmpty&^d.paused != 0 && !sent {
		class := bits.Len8(d.nonEmpty&^d.paused) - 1
		id, p := q.classes[class].pop(r.pool)
		if q.classes[class].head == 0 {
			d.nonEmpty &^= 1 << class
		}
		s.used -= int64(p.length)
		if class == 0 {
			q.account(r.now)
		}
		q.classes[class].bytes -= p.length
		if p.pause != 0 {
			r.transmit(dir, id, p)
			sent = true
			continue
		}
		from, length := p.from, int64(p.length)
		state := QueueState{EnqTime: p.at, DeqTime: r.now, EnqDepth: r.cells(p.depth), DeqDepth: r.cells(q.classes[0].bytes)}
		sent, copies = r.egress(node, s, dir, d, id, p, state, copies)
		if r.flow != nil && class == 0 {
			r.uncountQueued(node, s, from, length)
		}
	}
	r.arm(r.now, dir, d)
	return copies
}

// classOf returns the class that a packet joins by the priority that the program gave it.
func (r *region) classOf(priority uint8, p *packet) uint8 {
	if p.is&stateTrimmed != 0 {
		return r.topClass
	}
	return min(priority, r.topClass)
}

func (r *region) cells(bytes int32) uint32 {
	if r.cellShift >= 0 {
		return uint32(int(bytes)+r.cfg.Cell-1) >> r.cellShift
	}
	return uint32((int(bytes) + r.cfg.Cell - 1) / r.cfg.Cell)
}

// egress runs a packet through the second half of the pipeline and sends it.
func (r *region) egress(node fabric.NodeID, s *switchNode, dir LinkDir, d *direction,
	id packetID, p *packet, state QueueState, copies []Copy) (sent bool, _ []Copy) {
	var dep Departure
	var ok bool
	if p.is&inPlace != 0 {
		dep, copies, ok = s.inPlace.EgressInPlace(p.data[:p.header], int(p.length), &p.held, state, copies)
		if ok && dep.Header == nil {
			r.transmit(dir, id, p)
			return true, copies
		}
	} else {
		dep, copies, ok = s.pipeline.Egress(p.handle(), state, copies)
	}
	switch {
	case !ok:
		r.drop(node, dir, DropPipeline, id, p)
		return false, copies
	case len(dep.Header) > MaxHeader || dep.Length > MaxPacket:
		r.drop(node, dir, DropOversize, id, p)
		return false, copies
	}
	p.header = uint8(copy(p.data[:], dep.Header))
	p.length = int32(max(dep.Length, len(dep.Header)))
	p.payload = min(p.payload, p.length-int32(p.header))
	r.transmit(dir, id, p)
	return true, copies
}

// Inject gives a switch a packet as if it had arrived at a port now: a packet-out at the CPU port, a port event at
// [EventPort], a test packet at any other. data is its first bytes, length its whole length with payload.
func (n *Network) Inject(node fabric.NodeID, ingressPort uint32, data []byte, length int) error {
	if node < fabric.NodeID(len(n.hosts)) || int(node) >= n.fab.Nodes() {
		return fmt.Errorf("%w: node %d is not a switch", ErrPacket, node)
	}
	if len(data) > MaxHeader || length < len(data) || length > MaxPacket {
		return fmt.Errorf("%w: %d real bytes of %d at %s; the most is %d of %d", ErrPacket,
			len(data), length, n.fab.Name(node), MaxHeader, MaxPacket)
	}
	r := n.regionOf(node)
	if n.switchAt(node).pipeline == nil {
		return fmt.Errorf("%w: %s has no pipeline", ErrNoSwitch, n.fab.Name(node))
	}
	id, p := r.pool.get()
	p.header = uint8(copy(p.data[:], data))
	p.length, p.payload, p.class, p.pause, p.from, p.is = int32(length), 0, 0, 0, -1, 0
	r.totals.Created++
	r.record(RecordInject, node, -1, 0, p)
	r.ingress(node, ingressPort, id, p)
	return nil
}

// drop ends a packet that is not on a link.
func (r *region) drop(node fabric.NodeID, dir LinkDir, reason DropReason, id packetID, p *packet) {
	r.switchAt(node).drops[reason]++
	r.totals.Dropped[reason]++
	r.record(RecordDrop, node, dir, uint8(reason), p)
	r.pool.put(id)
}

func (n *Network) switchAt(node fabric.NodeID) *switchNode {
	return &n.switches[int(node)-len(n.hosts)]
}

func (r *region) switchAt(node fabric.NodeID) *switchNode {
	return &r.switches[int(node)-len(r.hosts)]
}
