package sim

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// The fakes' header: destination host, source host, ToR uplink, aggregation
// uplink, priority, action, sequence number.
const (
	fakeDst, fakeSrc, fakeUp, fakeUp2, fakePriority, fakeAction, fakeSeq = 0, 4, 8, 9, 10, 11, 12
	fakeHeader                                                           = 58
)

// What the router is asked to do with a packet at every switch, beside
// forwarding it.
const (
	actForward = iota
	actDrop
	actDropEgress
	actClone       // a copy of 58 bytes goes back to the source, at priority 1
	actRecirculate // once
	actLoop        // for ever
	actCPU
	actNoPort
	actGrow // leaves with too many real bytes
)

// router is a pipeline with static routes.
type router struct {
	fab   *fabric.Fabric
	node  fabric.NodeID
	slots []routed
	free  []Handle
	out   [MaxHeader + 1]byte

	onEgress func(seq uint32, q QueueState)
}

type routed struct {
	data     [MaxHeader]byte
	header   int
	length   int
	ingress  uint32
	passes   int
	isClone  bool
	priority uint8
}

func (r *router) put(p routed) Handle {
	if k := len(r.free); k > 0 {
		h := r.free[k-1]
		r.free = r.free[:k-1]
		r.slots[h] = p
		return h
	}
	r.slots = append(r.slots, p)
	return Handle(len(r.slots) - 1)
}

// port routes by the header.
func (r *router) port(b []byte) uint32 {
	dst := fabric.NodeID(binary.BigEndian.Uint32(b[fakeDst:]))
	tor := r.fab.ToROf(dst)
	n := r.fab.Node(r.node)
	switch n.Tier {
	case fabric.ToR:
		if tor == r.node {
			first, _ := r.fab.HostsOf(tor)
			return uint32(dst-first) + 1
		}
		return uint32(n.FirstUplink()) + uint32(b[fakeUp])
	case fabric.Aggregation:
		if pod := r.fab.Node(tor).Pod; pod != n.Pod {
			return uint32(n.FirstUplink()) + uint32(b[fakeUp2])
		}
		return uint32(r.fab.Node(tor).Index%r.fab.Spec().ToRsPerPod) + 1
	}
	if r.fab.ThreeTier() {
		return uint32(r.fab.Node(tor).Pod) + 1
	}
	return uint32(r.fab.Node(tor).Index) + 1
}

func (r *router) Ingress(a Arrival, out []Copy) []Copy {
	p := routed{header: len(a.Header), length: a.Length, ingress: a.Port}
	copy(p.data[:], a.Header)
	p.priority = p.data[fakePriority]
	return r.route(p, out)
}

func (r *router) route(p routed, out []Copy) []Copy {
	port := r.port(p.data[:])
	resume := false
	switch p.data[fakeAction] {
	case actDrop:
		return out
	case actCPU:
		port = DefaultCPUPort
	case actNoPort:
		port = 400
	case actRecirculate:
		resume = p.passes == 0
	case actLoop:
		resume = true
	case actClone:
		if p.ingress != EventPort {
			c := p
			c.length, c.header, c.isClone, c.priority = fakeHeader, min(fakeHeader, p.header), true, 1
			c.data[fakeAction] = actForward
			out = append(out, r.copyOf(c, p.ingress, false))
		}
	}
	return append(out, r.copyOf(p, port, resume))
}

func (r *router) copyOf(p routed, port uint32, resume bool) Copy {
	return Copy{Handle: r.put(p), Port: port, Length: p.length, Priority: p.priority, Resume: resume}
}

func (r *router) Resume(h Handle, _ fabric.Time, out []Copy) []Copy {
	p := r.slots[h]
	r.Free(h)
	p.passes++
	return r.route(p, out)
}

func (r *router) Egress(h Handle, q QueueState, out []Copy) (Departure, []Copy, bool) {
	p := &r.slots[h]
	n := copy(r.out[:], p.data[:p.header])
	r.Free(h)
	if r.onEgress != nil {
		r.onEgress(binary.BigEndian.Uint32(p.data[fakeSeq:]), q)
	}
	if p.isClone { // back to where it came from
		copy(r.out[fakeDst:], p.data[fakeSrc:fakeSrc+4])
	}
	if p.data[fakeAction] == actGrow {
		n = len(r.out)
	}
	return Departure{Header: r.out[:n], Length: p.length}, out, p.data[fakeAction] != actDropEgress
}

func (r *router) Trim(h Handle) { r.slots[h].length = r.slots[h].header }

func (r *router) Free(h Handle) { r.free = append(r.free, h) }

// live returns how many handles have not been given back.
func (r *router) live() int { return len(r.slots) - len(r.free) }

// order is a packet an endpoint is to send.
type order struct {
	at       fabric.Time
	dst      fabric.NodeID
	payload  int
	up, up2  byte
	priority byte
	action   byte
}

// receipt is a packet an endpoint has received.
type receipt struct {
	At   fabric.Time
	Src  fabric.NodeID
	Seq  uint32
	Tail int
}

// station is an endpoint that sends orders, in order, and keeps receipts.
type station struct {
	id     fabric.NodeID
	orders []order
	next   int
	got    []receipt
	asked  int
	paused bool
}

func (s *station) Next(now fabric.Time, b []byte) (Frame, fabric.Time, bool) {
	s.asked++
	if s.next == len(s.orders) {
		return Frame{}, Never, false
	}
	o := s.orders[s.next]
	if now < o.at {
		return Frame{}, o.at, false
	}
	if s.paused && o.priority == 0 {
		return Frame{}, Never, false
	}
	clear(b[:fakeHeader])
	binary.BigEndian.PutUint32(b[fakeDst:], uint32(o.dst))
	binary.BigEndian.PutUint32(b[fakeSrc:], uint32(s.id))
	binary.BigEndian.PutUint32(b[fakeSeq:], uint32(s.next))
	b[fakeUp], b[fakeUp2], b[fakePriority], b[fakeAction] = o.up, o.up2, o.priority, o.action
	s.next++
	return Frame{Header: fakeHeader, Payload: o.payload, Trailer: 4, Control: o.priority > 0}, 0, true
}

func (s *station) Pause(_ fabric.Time, paused bool) { s.paused = paused }

func (s *station) Receive(now fabric.Time, b []byte, tail int) {
	s.got = append(s.got, receipt{now, fabric.NodeID(binary.BigEndian.Uint32(b[fakeSrc:])), binary.BigEndian.Uint32(b[fakeSeq:]), tail})
}

// world is a network of fakes.
type world struct {
	*Network
	stations []*station
	routers  []*router
}

func newWorld(t testing.TB, spec fabric.Spec, c Config) *world {
	t.Helper()
	f, err := fabric.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	c.Fabric = f
	n, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Network: n}
	for i := range f.Hosts() {
		s := &station{id: fabric.NodeID(i)}
		w.stations = append(w.stations, s)
		n.SetHost(s.id, s)
	}
	for i := range f.Switches() {
		r := &router{fab: f, node: fabric.NodeID(f.Hosts() + i)}
		w.routers = append(w.routers, r)
		n.SetSwitch(r.node, r)
	}
	return w
}

// run runs to the end and checks that packets are conserved.
func (w *world) run(t testing.TB, until fabric.Time) {
	t.Helper()
	if err := w.Run(context.Background(), until); err != nil {
		t.Fatal(err)
	}
	w.checkConservation(t)
}

func (w *world) checkConservation(t interface {
	Errorf(string, ...any)
	Helper()
}) {
	t.Helper()
	tot := w.Totals()
	sum := tot.Delivered + tot.ToCPU + tot.Pauses + tot.Lost + tot.InFlight
	for _, d := range tot.Dropped {
		sum += d
	}
	if sum != tot.Created {
		t.Errorf("packets are not conserved: %+v", tot)
	}
	// In flight is what the links and queues hold, found independently.
	onLinks, queued, pauses := int64(0), int64(0), int64(0)
	for i := range w.dirs {
		d := &w.dirs[i]
		pool := w.regionOf(w.arrivals[i].to.Node).pool
		for id := w.arrivals[i].flight.head; id != 0; id = pool.at(id).next {
			onLinks++
		}
		pool = w.regionOf(d.from).pool
		for c := range d.queues.classes {
			bytes := int32(0)
			for id := d.queues.classes[c].head; id != 0; id = pool.at(id).next {
				queued++
				if pool.at(id).pause != 0 {
					pauses++
				}
				bytes += pool.at(id).length
			}
			if bytes != d.queues.classes[c].bytes {
				t.Errorf("%s: class %d holds %d bytes, says %d", w.DirName(LinkDir(i)), c, bytes, d.queues.classes[c].bytes)
			}
		}
		c := w.Counters(LinkDir(i))
		if sent := c.DataPackets + c.ControlPackets; sent < c.Arrived+c.Lost {
			t.Errorf("%s: sent %d, arrived %d, lost %d", w.DirName(LinkDir(i)), sent, c.Arrived, c.Lost)
		}
	}
	if onLinks+queued != tot.InFlight {
		t.Errorf("%d on links, %d in queues, in flight %d", onLinks, queued, tot.InFlight)
	}
	handles := 0
	for _, r := range w.routers {
		handles += r.live()
	}
	if int64(handles) != queued-pauses {
		t.Errorf("pipelines hold %d packets, queues %d", handles, queued)
	}
}

// oneByOne is a leaf-spine with one host under each of two ToRs.
var oneByOne = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 1}

// wire is the bytes of a fake packet with a 9000-byte payload.
const wire = fakeHeader + 9000 + 4
