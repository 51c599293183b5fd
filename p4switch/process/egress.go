package process

import (
	"sync/atomic"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// Limits of a port's batch of frames.
const (
	batchFrames = 64
	batchBytes  = 128 << 10
)

// queued is a packet between the pipelines, with the switch that made it.
type queued struct {
	sw      *interp.Switch
	p       *interp.Packet
	at      int64  // ns: when it was queued
	depth   uint32 // number of packets before it in the queue
	release int64  // ns: earliest time by the queue's rate
}

// fifo is a bounded queue of packets.
type fifo struct {
	items []queued // a ring
	head  int
	n     int
	last  int64 // ns: release of the last packet queued
}

func (q *fifo) push(x queued) {
	if q.n == len(q.items) {
		grown := make([]queued, max(16, 2*q.n))
		for i := range q.n {
			grown[i] = q.items[(q.head+i)%len(q.items)]
		}
		q.items, q.head = grown, 0
	}
	q.items[(q.head+q.n)%len(q.items)] = x
	q.n++
}

func (q *fifo) pop() queued {
	x := q.items[q.head]
	q.items[q.head] = queued{}
	q.head = (q.head + 1) % len(q.items)
	q.n--
	return x
}

// egress is a port with its queues and its batch of outgoing frames.
type egress struct {
	d      *Device
	port   port.Port
	number uint32
	name   string
	index  atomic.Int64 // of its interface in Config.Links; 0: none
	gone   bool         // the interface was removed

	hardware bool // its interface has a speed

	up         bool
	notifiedUp bool   // the state last sent to the program
	epoch      uint32 // number of port events
	isReady    bool
	receive    func([]byte)
	tagged     taggedPort // the port, if it supports tags

	queues  []fifo // by priority
	waiting int    // packets in all queues
	blocked bool   // the port accepted fewer frames than offered
	limit   int    // frames in a batch; fewer if the port was blocked recently
	arena   []byte // bytes of the batch
	frames  [][]byte
	tags    []uint64 // of the frames; used with tagged
	staged  bool     // on the device's list of batches to send
	drops   uint64
}

func newEgress(d *Device, pc PortConfig) *egress {
	e := &egress{d: d, port: pc.Port, number: pc.Number, name: pc.Name, notifiedUp: true, limit: batchFrames}
	e.index.Store(int64(pc.Index))
	e.queues = make([]fifo, d.cfg.Queues)
	e.arena = make([]byte, 0, batchBytes)
	e.frames = make([][]byte, 0, batchFrames)
	e.receive = func(b []byte) { d.processFrame(e.number, b, 0) }
	if t, ok := pc.Port.(taggedPort); ok {
		e.tagged = t
		e.receive = func(b []byte) { d.processFrame(e.number, b, t.Tag()) }
	}
	return e
}

// taggedPort is a port whose frames have tags. Packets that result from a frame leave with the frame's tag.
type taggedPort interface {
	Tag() uint64                                   // of the frame in Receive
	SendTagged(frames [][]byte, tags []uint64) int // as Send
}

// batchFull reports whether the batch is full.
func (e *egress) batchFull() bool {
	return len(e.frames) >= e.limit || len(e.arena) > batchBytes/2
}

// sendBatch offers the batch to the port.
func (e *egress) sendBatch() {
	n := len(e.frames)
	if n == 0 {
		return
	}
	k := 0
	if e.tagged != nil {
		k = e.tagged.SendTagged(e.frames, e.tags)
		e.tags = append(e.tags[:0], e.tags[k:]...)
	} else {
		k = e.port.Send(e.frames)
	}
	e.d.stats.Sent += uint64(k)
	if k == n {
		e.frames, e.arena = e.frames[:0], e.arena[:0]
		e.limit = min(e.limit*2, batchFrames)
		return
	}
	e.blocked = true
	e.d.blocked++
	e.limit = 1
	e.frames = append(e.frames[:0], e.frames[k:]...)
}

// addToBatch adds a frame to the batch, which must not be full.
func (e *egress) addToBatch(b []byte, tag uint64) {
	if e.tagged != nil {
		e.tags = append(e.tags, tag)
	}
	at := len(e.arena)
	e.arena = append(e.arena, b...) // if it grows, staged frames keep the old bytes
	e.frames = append(e.frames, e.arena[at:len(e.arena):len(e.arena)])
	if !e.staged {
		e.staged = true
		e.d.staged = append(e.d.staged, e)
	}
}

// makeRoom tries to make room in the batch, and reports whether there is room.
func (e *egress) makeRoom() bool {
	if e.blocked {
		return false
	}
	if e.batchFull() {
		e.sendBatch()
	}
	return !e.blocked
}

// acceptPacket queues a packet for the port, or sends it at once.
func (e *egress) acceptPacket(x queued) {
	d := e.d
	if !e.up {
		d.stats.PortDown++
		e.drops++
		x.sw.Free(x.p)
		return
	}
	if e.waiting == 0 && d.cfg.QueueRate == 0 && e.makeRoom() {
		x.at = d.now
		e.runEgress(x, 0)
		return
	}
	q := &e.queues[min(int(x.p.Priority), len(e.queues)-1)]
	if q.n >= d.cfg.QueueDepth {
		d.stats.TailDrops++
		e.drops++
		x.sw.Free(x.p)
		return
	}
	x.at, x.depth = d.now, uint32(q.n)
	if r := d.cfg.QueueRate; r > 0 {
		x.release = max(d.now, q.last+1e9/int64(r))
		q.last = x.release
	}
	q.push(x)
	e.waiting++
	if d.cfg.QueueRate > 0 {
		e.sendQueued()
	}
}

// sendQueued sends packets from the queues while the port accepts them.
func (e *egress) sendQueued() {
	for e.waiting > 0 && e.makeRoom() {
		var q *fifo
		for i := len(e.queues) - 1; i >= 0; i-- {
			if c := &e.queues[i]; c.n > 0 && c.items[c.head].release <= e.d.now {
				q = c
				break
			}
		}
		if q == nil {
			return
		}
		x := q.pop()
		e.waiting--
		e.runEgress(x, uint32(q.n))
	}
}

// nextRelease returns when a queue's rate next permits a packet, in ns.
func (e *egress) nextRelease() (int64, bool) {
	next, ok := int64(0), false
	for i := range e.queues {
		if q := &e.queues[i]; q.n > 0 {
			if at := q.items[q.head].release; !ok || at < next {
				next, ok = at, true
			}
		}
	}
	return next, ok
}

// runEgress runs the egress pipeline on a packet and adds its output to the batch.
func (e *egress) runEgress(x queued, depth uint32) {
	d := e.d
	at := len(d.batch.Packets)
	waits, below := d.datapath.waits(e)
	state := interp.QueueState{EnqTime: max(x.at-waits, 0), DeqTime: d.now, EnqDepth: x.depth + below, DeqDepth: depth + below}
	tag := x.p.Tag
	o, ok := x.sw.Egress(x.p, state, &d.batch)
	if ok {
		e.addToBatch(o.Data, tag)
		d.datapath.noteSent(e, len(o.Data))
	}
	d.routeSpawned(x.sw, at, tag)
}

// dropQueued drops the waiting packets of a port that went down.
func (e *egress) dropQueued() {
	for i := range e.queues {
		for q := &e.queues[i]; q.n > 0; {
			x := q.pop()
			x.sw.Free(x.p)
			e.d.stats.PortDown++
			e.drops++
		}
	}
	e.waiting = 0
	e.d.stats.PortDown += uint64(len(e.frames))
	e.drops += uint64(len(e.frames))
	e.frames, e.tags, e.arena = e.frames[:0], e.tags[:0], e.arena[:0]
	e.unblock()
	e.limit = batchFrames
}

// unblock records that the port may accept frames again.
func (e *egress) unblock() {
	if e.blocked {
		e.blocked = false
		e.d.blocked--
	}
}
