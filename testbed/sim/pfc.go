package sim

import (
	"fmt"
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// PFC is priority flow control (IEEE 802.1Qbb) of the data class. A switch
// counts, for each port that packets came in by, the bytes of theirs that wait in
// its buffer. Above a threshold it sends the link's other end a pause frame, and
// what is then still on its way goes into the port's head-room, which paused ports
// leave to one another. So no packet of the data class that came by a link is
// refused, unless other classes, or packets that switches make, take the room
// first: they are not paused, and admitted by the whole buffer's dynamic threshold.
//
// Pause holds until the frame that ends it, as if it were refreshed in time. A
// cut of the direction those frames take ends it, as it would run out: what waits
// goes into the hole, or by the direction that is left. That one is lossless again
// when the other is restored, which refreshes the pause at once.
type PFC struct {
	// Xoff is the threshold, in bytes, if it is the same always; every port's Xoff
	// and head-room must fit into the buffer together. Alpha makes it follow the
	// buffer: Alpha times what is free of it, head-room apart. One of them turns
	// PFC on.
	Xoff  fabric.Bytes
	Alpha float64
	// Xon is at how many bytes a port paused at Xoff is resumed. 0, and with Alpha:
	// two frames below the threshold.
	Xon   fabric.Bytes
	Frame int // bytes of a full packet, without Config.Overhead; needed
	// Watchdog is after how long a pause without a break a port drops its data, and after how
	// long without a pause it goes on. 0: never. SONiC's default is 200 ms.
	Watchdog fabric.Time
}

// On reports whether there is flow control.
func (c PFC) On() bool { return c.Xoff > 0 || c.Alpha > 0 }

// HeadroomOf returns how many bytes can come by a link after the packet that
// crossed the threshold began to: that packet, what is sent while the pause
// frame waits for a packet under way, is sent itself and travels, a packet begun
// just before it arrives, and what is on the link then.
func (c PFC) HeadroomOf(l *fabric.Link) fabric.Bytes {
	onTheWay := fabric.Bytes(math.Ceil(float64(l.Delay) / float64(fabric.Second) * float64(l.Rate) / 8))
	return 3*fabric.Bytes(c.Frame) + pauseLength + 2*onTheWay
}

// validate reports the first thing wrong with the flow control of a network.
func (c PFC) validate(f *fabric.Fabric, buffer fabric.Bytes, classes int) (field string, err error) {
	switch {
	case !c.On():
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
	senders   []sender   // by the direction they send in
	guard     *watchdogs // nil: none
}

// sender is what a switch keeps of the other end of a link.
type sender struct {
	held   int64 // bytes of its packets that wait here
	paused bool  // it is paused by the other end
	since  fabric.Time
	pauses int64       // times that it was paused
	rested fabric.Time // pauses that have ended
}

func newFlowControl(c Config) *flowControl {
	if !c.PFC.On() {
		return nil
	}
	f := c.Fabric
	fc := &flowControl{
		xoff: int64(c.PFC.Xoff), alpha: int64(c.PFC.Alpha*alphaUnit + 0.5), gap: 2 * int64(c.PFC.Frame),
		senders: make([]sender, 2*f.Links()), others: thresholdsOf(&c), guard: newWatchdogs(c),
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

// hold counts a data packet that waits; s.used counts it already.
func (r *region) hold(node fabric.NodeID, s *switchNode, in LinkDir, length int64) {
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

// letGo counts a data packet that waits no more.
func (r *region) letGo(node fabric.NodeID, s *switchNode, in LinkDir, length int64) {
	if in < 0 {
		return
	}
	from := &r.flow.senders[in]
	from.held -= length
	if from.paused && from.held <= max(0, r.flow.threshold(r, node, s)-r.flow.gap) {
		from.paused = false
		from.rested += r.now - from.since
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

// sendPause sends a pause frame against a direction. It goes before all else,
// after the packet under way.
func (r *region) sendPause(in LinkDir, what uint8) {
	dir := in ^ 1
	d := &r.dirs[dir]
	id, p := r.pool.get()
	p.header = uint8(appendPause(p.data[:0], r.fab.MAC(d.from), what))
	p.length, p.payload = pauseLength, 0
	p.class, p.pause, p.from, p.is = r.topClass+1, what, -1, 0
	r.totals.Created++
	if r.now >= d.busyUntil && !d.ready {
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

// heedPause takes a pause frame that arrived: the other direction of the link
// stops, or goes on.
func (r *region) heedPause(in LinkDir, id packetID, p *packet) {
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

// arm sees to it that a port with something to send is served.
func (r *region) arm(now fabric.Time, dir LinkDir, d *direction) {
	if !d.ready && d.nonEmpty&^d.paused != 0 {
		d.ready = true
		r.queue.push(eventOf(max(now, d.busyUntil), eventReady, uint32(dir), 0))
	}
}

// believe has the sender of a direction whose pause frames are lost, or no longer,
// to a cut be as they would have left it: not paused, or as the other end wants it.
func (n *Network) believe(dir LinkDir, cut bool) {
	if n.flow == nil {
		return
	}
	n.regionOf(n.dirs[dir].from).setPaused(n.Now(), dir, !cut && n.flow.senders[dir].paused)
}

// Storm has the far end of a direction pause the data of its sender from now on, whatever
// room it has, or no longer: what a NIC does that is broken, or whose host does not take
// what it receives (Guo et al., RDMA over Commodity Ethernet at Scale, SIGCOMM 2016,
// section 4.3). The far end must be a host's. Without PFC the sender takes no notice.
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
		s.rested += n.Now() - s.since
	}
	n.believe(dir, n.dirs[dir^1].down)
}

// Pausable is an [Endpoint] that can be paused, so that it sends no data for a while: none
// that it sends without Frame.Control. A host that is not takes no notice of
// pause frames.
type Pausable interface {
	Pause(now fabric.Time, paused bool)
}
