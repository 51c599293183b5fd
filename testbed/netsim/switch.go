package netsim

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// alphaUnit is the denominator of the dynamic threshold's fixed point.
const alphaUnit = 256

// maxCopies bounds what one packet can turn into within one event, through
// clones and recirculation.
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
	lists    [MaxClasses]list
	bytes    [MaxClasses]int32
	nonEmpty uint8 // bit per class

	// Of the data class:
	maxBytes int32
	changed  fabric.Time // when bytes[0] last changed
	area     [2]uint64   // integral of bytes[0] over time, byte*ps, 128 bits: high, low
}

// account brings the integral up to now; bytes[0] is about to change.
func (q *port) account(now fabric.Time) {
	hi, lo := bits.Mul64(uint64(q.bytes[0]), uint64(now-q.changed))
	var carry uint64
	q.area[1], carry = bits.Add64(q.area[1], lo, 0)
	q.area[0], _ = bits.Add64(q.area[0], hi, carry)
	q.changed = now
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
func (n *Network) ingress(node fabric.NodeID, ingressPort uint32, id packetID, p *packet) {
	s := n.switchAt(node)
	a := Arrival{Now: n.now, Port: ingressPort, Header: p.data[:p.header], Length: int(p.length)}
	if s.inPlace != nil {
		if c, drop, ok := s.inPlace.IngressInPlace(a, &p.held); ok {
			n.forwardInPlace(node, s, c, drop, id, p)
			return
		}
	}
	copies := s.pipeline.Ingress(a, n.copies[:0])
	n.forward(node, s, copies, 0, id, p)
}

// forwardInPlace queues a packet that was processed in place.
func (n *Network) forwardInPlace(node fabric.NodeID, s *switchNode, c Copy, drop bool, id packetID, p *packet) {
	if drop {
		n.drop(node, -1, DropPipeline, id, p)
		return
	}
	p.class = min(c.Priority, n.topClass)
	if c.Port >= 1 && int(c.Port) <= len(s.out) {
		p.inPlace = true
		if copies := n.enqueue(node, s, s.out[c.Port-1], id, p, n.copies[:0]); len(copies) > 0 {
			n.forward(node, s, copies, 0, 0, nil)
		}
		return
	}
	if c.Port != n.cfg.CPUPort {
		s.inPlace.FreeInPlace()
		n.drop(node, -1, DropNoPort, id, p)
		return
	}
	s.inPlace.KeepInPlace(p.data[:p.header])
	d, copies, ok := s.inPlace.EgressInPlace(p.data[:p.header], int(p.length), &p.held,
		QueueState{EnqTime: n.now, DeqTime: n.now}, n.copies[:0])
	if !ok {
		n.drop(node, -1, DropPipeline, id, p)
	} else {
		if d.Header == nil {
			d.Header, d.Length = p.data[:p.header], int(p.length)
		}
		n.totals.ToCPU++
		if n.cfg.ToCPU != nil {
			n.inPipeline = true
			n.cfg.ToCPU(n.now, node, d.Header, d.Length)
			n.inPipeline = false
		}
		n.pool.put(id)
	}
	if len(copies) > 0 {
		n.forward(node, s, copies, 0, 0, nil)
	}
}

// forward queues copies[from:] and whatever they turn into. id is the packet
// they were made of, which it consumes; 0 if they are new. Copies inherit its
// payload, as far as they are long enough.
func (n *Network) forward(node fabric.NodeID, s *switchNode, copies []Copy, from int, id packetID, origin *packet) {
	payload := int32(0)
	if id != 0 {
		payload = origin.payload
		if len(copies) == from {
			n.drop(node, -1, DropPipeline, id, origin)
		}
	}
	for i := from; i < len(copies); i++ {
		c := copies[i]
		pid, p := id, origin
		if pid == 0 {
			pid, p = n.pool.get()
			p.header = 0
			n.totals.Created++
		}
		id = 0 // the first copy takes the original's place
		p.length = int32(c.Length)
		p.payload = min(payload, p.length)
		p.class = min(c.Priority, n.topClass)
		p.handle, p.inPlace = c.Handle, false
		switch {
		case i >= maxCopies:
			s.pipeline.Free(c.Handle)
			n.drop(node, -1, DropRecirculation, pid, p)
		case c.Resume:
			before := len(copies)
			copies = s.pipeline.Resume(c.Handle, n.now, copies)
			n.replaced(node, pid, p, len(copies)-before)
		case c.Port >= 1 && int(c.Port) <= len(s.out):
			copies = n.enqueue(node, s, s.out[c.Port-1], pid, p, copies)
		case c.Port == n.cfg.CPUPort:
			var d Departure
			var ok bool
			d, copies, ok = s.pipeline.Egress(c.Handle, QueueState{EnqTime: n.now, DeqTime: n.now}, copies)
			if !ok {
				n.drop(node, -1, DropPipeline, pid, p)
				break
			}
			n.totals.ToCPU++
			n.pool.put(pid)
			if n.cfg.ToCPU != nil {
				n.inPipeline = true // its copies are in our hands
				n.cfg.ToCPU(n.now, node, d.Header, d.Length)
				n.inPipeline = false
			}
		default:
			s.pipeline.Free(c.Handle)
			n.drop(node, -1, DropNoPort, pid, p)
		}
	}
	n.copies = copies[:0]
}

// replaced accounts for a recirculated packet, which came back as count
// copies, each of which will take a slot of its own.
func (n *Network) replaced(node fabric.NodeID, id packetID, p *packet, count int) {
	if count == 0 {
		n.drop(node, -1, DropPipeline, id, p)
		return
	}
	n.totals.Created--
	n.pool.put(id)
}

// enqueue admits a packet to an egress port's queue, or sends it on at once
// when the port is idle.
func (n *Network) enqueue(node fabric.NodeID, s *switchNode, dir LinkDir, id packetID, p *packet, copies []Copy) []Copy {
	d := &n.dirs[dir]
	q := &d.queues
	length := int64(p.length)
	free := n.buffer - s.used
	if length > free || int64(q.bytes[p.class]) >= free*n.alpha/alphaUnit {
		if p.inPlace {
			s.inPlace.FreeInPlace()
		} else {
			s.pipeline.Free(p.handle)
		}
		d.counters.Dropped++
		if p.class == 0 {
			d.counters.DroppedData++
		}
		n.drop(node, dir, DropBuffer, id, p)
		return copies
	}
	if p.inPlace {
		s.inPlace.KeepInPlace(p.data[:p.header])
	}
	if n.now >= d.busyUntil && q.nonEmpty == 0 {
		s.maxUsed = max(s.maxUsed, s.used+length)
		_, copies = n.egress(node, s, dir, d, id, p, QueueState{EnqTime: n.now, DeqTime: n.now}, copies)
		return copies
	}
	p.at = n.now
	p.depth = q.bytes[0]
	s.used += length
	s.maxUsed = max(s.maxUsed, s.used)
	if p.class == 0 {
		q.account(n.now)
		q.bytes[0] += p.length
		q.maxBytes = max(q.maxBytes, q.bytes[0])
	} else {
		q.bytes[p.class] += p.length
	}
	q.lists[p.class].push(&n.pool, id, p)
	q.nonEmpty |= 1 << p.class
	if !d.ready {
		d.ready = true
		n.queue.push(eventOf(d.busyUntil, eventReady, uint32(dir), 0))
	}
	return copies
}

// ready handles a ready event: the port is idle and has packets waiting.
func (n *Network) ready(dir LinkDir) {
	d := &n.dirs[dir]
	d.ready = false
	node := d.from.Node
	s := n.switchAt(node)
	copies := n.serve(node, s, dir, d, n.copies[:0])
	if len(copies) > 0 {
		n.forward(node, s, copies, 0, 0, nil)
	}
	n.copies = copies[:0]
}

// serve sends the first packet of the highest class that has one. Flow control
// per class (PFC) would mask classes here.
func (n *Network) serve(node fabric.NodeID, s *switchNode, dir LinkDir, d *direction, copies []Copy) []Copy {
	q := &d.queues
	sent := false
	for q.nonEmpty != 0 && !sent {
		class := bits.Len8(q.nonEmpty) - 1
		id, p := q.lists[class].pop(&n.pool)
		if q.lists[class].head == 0 {
			q.nonEmpty &^= 1 << class
		}
		s.used -= int64(p.length)
		if class == 0 {
			q.account(n.now)
		}
		q.bytes[class] -= p.length
		state := QueueState{EnqTime: p.at, DeqTime: n.now, EnqDepth: n.cells(p.depth), DeqDepth: n.cells(q.bytes[0])}
		sent, copies = n.egress(node, s, dir, d, id, p, state, copies)
	}
	if q.nonEmpty != 0 {
		d.ready = true
		n.queue.push(eventOf(d.busyUntil, eventReady, uint32(dir), 0))
	}
	return copies
}

func (n *Network) cells(bytes int32) uint32 {
	if n.cellShift >= 0 {
		return uint32(int(bytes)+n.cfg.Cell-1) >> n.cellShift
	}
	return uint32((int(bytes) + n.cfg.Cell - 1) / n.cfg.Cell)
}

// egress runs a packet through the second half of the pipeline and sends it.
func (n *Network) egress(node fabric.NodeID, s *switchNode, dir LinkDir, d *direction,
	id packetID, p *packet, state QueueState, copies []Copy) (sent bool, _ []Copy) {
	var dep Departure
	var ok bool
	if p.inPlace {
		dep, copies, ok = s.inPlace.EgressInPlace(p.data[:p.header], int(p.length), &p.held, state, copies)
		if ok && dep.Header == nil {
			n.transmit(dir, id, p)
			return true, copies
		}
	} else {
		dep, copies, ok = s.pipeline.Egress(p.handle, state, copies)
	}
	switch {
	case !ok:
		n.drop(node, dir, DropPipeline, id, p)
		return false, copies
	case len(dep.Header) > MaxHeader || dep.Length > MaxPacket:
		n.drop(node, dir, DropOversize, id, p)
		return false, copies
	}
	p.header = uint16(copy(p.data[:], dep.Header))
	p.length = int32(max(dep.Length, len(dep.Header)))
	p.payload = min(p.payload, p.length-int32(p.header))
	n.transmit(dir, id, p)
	return true, copies
}

// Inject puts a packet into a switch as if it had arrived at a port now: a
// packet-out at the CPU port, a port event at [EventPort], a test packet at any
// other. data are its real bytes, length its bytes with virtual payload.
func (n *Network) Inject(node fabric.NodeID, ingressPort uint32, data []byte, length int) error {
	if node < fabric.NodeID(len(n.hosts)) || int(node) >= n.fab.Nodes() {
		return fmt.Errorf("%w: node %d is not a switch", ErrPacket, node)
	}
	if len(data) > MaxHeader || length < len(data) || length > MaxPacket {
		return fmt.Errorf("%w: %d real bytes of %d at %s; the most is %d of %d", ErrPacket,
			len(data), length, n.fab.Name(node), MaxHeader, MaxPacket)
	}
	if n.inPipeline {
		return fmt.Errorf("%w: injected at %s from ToCPU; schedule it with At instead", ErrPacket, n.fab.Name(node))
	}
	if n.switchAt(node).pipeline == nil {
		return fmt.Errorf("%w: %s has no pipeline", ErrNoSwitch, n.fab.Name(node))
	}
	id, p := n.pool.get()
	p.header = uint16(copy(p.data[:], data))
	p.length, p.payload, p.class = int32(length), 0, 0
	n.totals.Created++
	n.record(RecordInject, node, -1, 0, p)
	n.ingress(node, ingressPort, id, p)
	return nil
}

// drop ends a packet that is not on a link.
func (n *Network) drop(node fabric.NodeID, dir LinkDir, reason DropReason, id packetID, p *packet) {
	n.switchAt(node).drops[reason]++
	n.totals.Dropped[reason]++
	n.record(RecordDrop, node, dir, uint8(reason), p)
	n.pool.put(id)
}

func (n *Network) switchAt(node fabric.NodeID) *switchNode {
	return &n.switches[int(node)-len(n.hosts)]
}
