package sim

import (
	"fmt"
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// PFC is priority flow control (IEEE 802.1Qbb) of the data class. For each ingress port a switch counts the bytes in
// its buffer that came by it. Above a threshold it sends a pause frame to the link's other end; what is still on its
// way then goes into the port's headroom, which paused ports share. So no data packet that came by a link is dropped,
// unless other classes, or packets that switches generate, take the buffer: these are not paused, and admitted by the
// dynamic threshold of the whole buffer.
//
// A pause lasts until the frame that ends it, as if it were refreshed in time. If the direction of pause frames is cut,
// the pause ends, as it would expire; waiting packets then leave by the other direction, or are lost. When the
// direction is restored, a pause is sent again at once if needed.
type PFC struct {
	// Xoff is the threshold in bytes, if it is fixed; the Xoff and headroom of all ports must fit into the buffer
	// together. Alpha makes the threshold Alpha times the free buffer without headroom. Either turns PFC on.
	Xoff  fabric.Bytes
	Alpha float64
	// Xon is the number of bytes at which a port paused at Xoff is resumed. 0, and with Alpha: two frames below the
	// threshold.
	Xon   fabric.Bytes
	Frame int // bytes of a full packet, without Config.Overhead; required
	// Watchdog is how long a port must be paused without interruption before it drops its data, and how long not paused
	// before it sends again. 0: never. SONiC's default is 200 ms.
	Watchdog fabric.Time
}

// Enabled reports whether there is flow control.
func (c PFC) Enabled() bool { return c.Xoff > 0 || c.Alpha > 0 }

// HeadroomOf returns the number of bytes that can arrive by a link after the start of the packet that crosses the
// threshold: that packet; what is sent while the pause frame waits for a packet in transmission, is sent and travels; a
// packet that begins just before it arrives; and what is on the link then.
func (c PFC) HeadroomOf(l *fabric.Link) fabric.Bytes {
	onTheWay := fabric.Bytes(math.Ceil(float64(l.Delay) / float64(fabric.Second) * float64(l.Rate) / 8))
	return 3*fabric.Bytes(c.Frame) + pauseLength + 2*onTheWay
}

// validate reports the first thing wrong with the flow control of a network.
func (c PFC) validate(f *fabric.Fabric, buffer fabric.Bytes, classes int) (field string, err error) {
	switch {
	case !c.Enabled():
		if c != (PFC{}) {
			return "PFC", fmt.Errorf("neither Xoff nor Alpha is above 0")
		}
		return "", nil
	case c.Xoff > 0 && c.Alpha > 0:
		return "PFC.Alpha", fmt.Errorf("%v beside Xoff; give one of them", c.Alpha)
	case c.Xoff < 0:
		return "PFC.Xoff", fmt.Errorf("bytes below zero")
	case c.Alpha < 0 || c.Alpha > 1<<16 || c.Alpha > 0 && c.Alpha < 1.0/alphaUnit:
		return "PFC.Alpha", fmt.Errorf("%v is outside 1/%d to %d", c.Alpha, alphaUnit, 1<<16)
	case c.Xon < 0 || c.Xon > 0 && c.Xon >= c.Xoff:
		return "PFC.Xon", fmt.Errorf("%d bytes is not below Xoff", c.Xon)
	case c.Frame < 1 || c.Frame > MaxPacket:
		return "PFC.Frame", fmt.Errorf("%d bytes is outside 1 to %d", c.Frame, MaxPacket)
	case c.Watchdog < 0 || c.Watchdog > 1000*fabric.Second:
		return "PFC.Watchdog", fmt.Errorf("%v is outside 0 to 1000s", c.Watchdog)
	case classes >= MaxClasses:
		return "Classes", fmt.Errorf("%d leaves none for pause frames; the most is %d", classes, MaxClasses-1)
	}
	for i := range f.Switches() {
		node := f.Node(fabric.NodeID(f.Hosts() + i))
		need := fabric.Bytes(0)
		for p := range node.Ports() {
			need += c.HeadroomOf(f.Link(node.Link(fabric.PortNo(p+1)))) + c.Xoff
		}
		if need >= buffer {
			return "Buffer", fmt.Errorf("%v is too little for flow control: the %d ports of %s need %v; raise it, or lower thresholds and head-room",
				buffer, node.Ports(), f.Name(node.ID), need)
		}
	}
	return "", nil
}

// flowControl is the state of PFC in all switches.
type flowControl struct {
	xoff, gap int64             // bytes; gap: between the threshold and where a port is resumed
	alpha     int64             // of alphaUnit; 0: xoff
	others    dynamicThresholds // of the other classes
	shared    []int64
	senders   []pauseState // by the direction they send in
	guard     *watchdogs   // nil: none
}

// pauseState is a switch's record of the other end of a link, for flow control.
type pauseState struct {
	held        int64 // bytes of its packets that wait here
	paused      bool  // it is paused by the other end
	since       fabric.Time
	pauses      int64       // times that it was paused
	pausedTotal fabric.Time // pauses that have ended
}

func newFlowControl(c Config) *flowControl {
	if !c.PFC.Enabled() {
		return nil
	}
	f := c.Fabric
	fc := &flowControl{
		xoff: int64(c.PFC.Xoff), alpha: int64(c.PFC.Alpha*alphaUnit + 0.5), gap: 2 * int64(c.PFC.Frame),
		senders: make([]pauseState, 2*f.Links()), others: thresholdsOf(&c), guard: newWatchdogs(c),
	}
	if c.PFC.Xon > 0 {
		fc.gap = int64(c.PFC.Xoff - c.PFC.Xon)
	}
	for i := range f.Switches() {
		node := f.Node(fabric.NodeID(f.Hosts() + i))
		shared := int64(c.Buffer)
		for p := range node.Ports() {
			shared -= int64(c.PFC.HeadroomOf(f.Link(node.Link(fabric.PortNo(p + 1)))))
		}
		fc.shared = append(fc.shared, shared)
	}
	return fc
}

// threshold returns above how many bytes a port of a switch is paused.
func (fc *flowControl) threshold(r *region, node fabric.NodeID, s *switchNode) int64 {
	if fc.alpha == 0 {
		return fc.xoff
	}
	return max(0, fc.shared[int(node)-len(r.hosts)]-s.used) * fc.alpha / alphaUnit
}

// countQueued counts a queued data packet for flow control; s.used counts it already.
func (r *region) countQueued(node fabric.NodeID, s *switchNode, in LinkDir, length int64) {
	if in < 0 {
		return // it was made here
	}
	from := &r.flow.senders[in]
	from.held += length
	if !from.paused && from.held > r.flow.threshold(r, node, s) {
		from.paused, from.since = true, r.now
		from.pauses++
		r.sendPause(in, pauseStop)
	}
}

// uncountQueued counts a data packet that waits no more.
func (r *region) uncountQueued(node fabric.NodeID, s *switchNode, in LinkDir, length int64) {
	if in < 0 {
		return
	}
	from := &r.flow.senders[in]
	from.held -= length
	if from.paused && from.held <= max(0, r.flow.threshold(r, node, s)-r.flow.gap) {
		from.paused = false
		from.pausedTotal += r.now - from.since
		r.sendPause(in, pauseGo)
	}
}

// What a pause frame says; 0: a packet is none.
const (
	pauseStop uint8 = 1 + iota
	pauseGo
)

// pauseLength is the bytes of a pause frame, without its frame check sequence:
// the least that Ethernet has.
const pauseLength = 60

// sendPause sends a pause frame against a direction. It precedes all other packets, after the packet in transmission.
func (r *region) sendPause(in LinkDir, what uint8) {
	dir := in ^ 1
	d := &r.dirs[dir]
	id, p := r.pool.get()
	p.header = uint8(appendPause(p.data[:0], r.fab.MAC(d.from), what))
	p.length, p.payload = pauseLength, 0
	p.class, p.pause, p.from, p.is = r.topClass+1, what, -1, 0
	r.totals.Created++
	if r.now >= d.busyUntil && !d.readyPending {
		r.transmit(dir, id, p)
		return
	}
	q := &d.queues
	p.at, p.depth = r.now, 0
	r.switchAt(d.from).used += pauseLength
	q.classes[p.class].bytes += pauseLength
	q.classes[p.class].push(r.pool, id, p)
	d.nonEmpty |= 1 << p.class
	r.arm(r.now, dir, d)
}

// appendPause writes the frame of 802.1Qbb that pauses class 0 for as long as
// one can, or resumes it, and returns its length.
func appendPause(b []byte, from [6]byte, what uint8) int {
	b = append(b, 0x01, 0x80, 0xc2, 0, 0, 0x01)
	b = append(b, from[:]...)
	b = append(b, 0x88, 0x08, 0x01, 0x01, 0, 1)
	if what == pauseStop {
		b = append(b, 0xff, 0xff)
	}
	n := len(b)
	b = b[:pauseLength]
	clear(b[n:])
	return len(b)
}

// receivePause processes a pause frame: the other direction of the link stops, or continues.
func (r *region) receivePause(in LinkDir, id packetID, p *packet) {
	dir, what := in^1, p.pause
	r.totals.Pauses++
	r.pool.put(id)
	r.setPaused(r.now, dir, what == pauseStop)
}

// setPaused stops the data class of a direction's sender, or lets it go on.
func (r *region) setPaused(now fabric.Time, dir LinkDir, paused bool) {
	d := &r.dirs[dir]
	d.paused = 0
	if paused {
		d.paused = 1
	}
	if int(d.from) < len(r.hosts) {
		if e, ok := r.hosts[d.from].endpoint.(Pausable); ok {
			e.Pause(now, paused)
			if d.from != r.receiving {
				r.wakeAt(int(d.from), now)
			}
		}
		return
	}
	if r.flow.guard != nil {
		r.watch(dir, paused)
	}
	r.arm(now, dir, d)
}

// arm schedules the next packet of a port that has one to send.
func (r *region) arm(now fabric.Time, dir LinkDir, d *direction) {
	if !d.readyPending && d.nonEmpty&^d.paused != 0 {
		d.readyPending = true
		r.queue.push(eventOf(max(now, d.busyUntil), eventReady, uint32(dir), 0))
	}
}

// setPauseBelief updates the sender of a direction whose pause frames are lost to a cut, or no longer are.
func (n *Network) setPauseBelief(dir LinkDir, cut bool) {
	if n.flow == nil {
		return
	}
	n.regionOf(n.dirs[dir].from).setPaused(n.Now(), dir, !cut && n.flow.senders[dir].paused)
}

// Storm makes the host at a direction's far end pause the sender's data permanently, or no longer. A broken NIC does
// that, or one whose host does not process what it receives (Guo et al., RDMA over Commodity Ethernet at Scale, SIGCOMM
// 2016, section 4.3). Without PFC it has no effect.
func (n *Network) Storm(dir LinkDir, on bool) {
	if n.flow == nil {
		return
	}
	s := &n.flow.senders[dir]
	if s.paused == on {
		return
	}
	if s.paused = on; on {
		s.since = n.Now()
		s.pauses++
	} else {
		s.pausedTotal += n.Now() - s.since
	}
	n.setPauseBelief(dir, n.dirs[dir^1].down)
}

// Pausable is an [Endpoint] that stops sending data while it is paused: packets without Frame.Control. Other endpoints
// ignore pause frames.
type Pausable interface {
	Pause(now fabric.Time, paused bool)
}
