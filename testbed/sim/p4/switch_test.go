package p4

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

const (
	header  = 14 + 20 + 8 + 12
	payload = 4096
	wire    = header + payload + 4
)

// roce writes an IPv4 RoCEv2 header with a label in the UDP source port.
func roce(b []byte, f *fabric.Fabric, src, dst fabric.NodeID, l fabric.Label, opcode byte, psn, tail int) {
	clear(b[:header])
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	ip := b[14:]
	ip[0], ip[1], ip[8], ip[9] = 0x45, 2, 64, 17 // ECT(0)
	binary.BigEndian.PutUint16(ip[2:], uint16(header-14+tail))
	s, d := f.HostAddr4(src).As4(), f.HostAddr4(dst).As4()
	copy(ip[12:], s[:])
	copy(ip[16:], d[:])
	binary.BigEndian.PutUint16(ip[20:], 0xC000|uint16(l))
	binary.BigEndian.PutUint16(ip[22:], 4791)
	binary.BigEndian.PutUint16(ip[24:], uint16(header-34+tail))
	ip[28] = opcode
	binary.BigEndian.PutUint32(ip[36:], uint32(psn))
}

type sent struct {
	dst     fabric.NodeID
	label   fabric.Label
	opcode  byte
	payload int
}

type got struct {
	At   fabric.Time
	Len  int
	PSN  uint32
	TTL  byte
	ECN  byte
	DMAC byte
}

type station struct {
	fab   *fabric.Fabric
	id    fabric.NodeID
	queue []sent
	n     int
	got   []got

	endless bool // sends the queue over and over, keeps nothing
}

func (s *station) Next(_ fabric.Time, b []byte) (sim.Frame, fabric.Time, bool) {
	if s.n == len(s.queue) && !s.endless {
		return sim.Frame{}, sim.Never, false
	}
	q := s.queue[s.n%len(s.queue)]
	roce(b, s.fab, s.id, q.dst, q.label, q.opcode, s.n, q.payload+4)
	s.n++
	return sim.Frame{Header: header, Payload: q.payload, Trailer: 4, Control: q.opcode == 0x11}, 0, true
}

func (s *station) Receive(now fabric.Time, b []byte, tail int) {
	if s.endless {
		return
	}
	s.got = append(s.got, got{now, len(b) + tail, binary.BigEndian.Uint32(b[50:]) & 0xFFFFFF, b[22], b[15] & 3, b[5]})
}

// world is a leaf-spine of Ethereal switches with all the routes it needs, set
// by hand.
type world struct {
	*sim.Network
	t        testing.TB
	fab      *fabric.Fabric
	prog     *program.Program
	switches map[fabric.NodeID]*interp.Switch
	stations []*station
}

func be(v uint64, n int) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return b[8-n:]
}

func (w *world) call(table program.TableID, action string, args ...uint64) interp.Target {
	w.t.Helper()
	id, ok := w.prog.ActionByName(table, action)
	if !ok {
		w.t.Fatalf("no action %s", action)
	}
	var c interp.ActionCall
	c.Action = id
	for _, a := range args {
		c.Args = append(c.Args, be(a, 8))
	}
	return interp.Target{Call: c}
}

func (w *world) table(name string) program.TableID {
	w.t.Helper()
	id, ok := w.prog.TableByName(name)
	if !ok {
		w.t.Fatalf("no table %s", name)
	}
	return id
}

func (w *world) insert(sw *interp.Switch, table string, m program.FieldMatch, priority int32, action string, args ...uint64) {
	w.t.Helper()
	id := w.table(table)
	_, err := sw.Insert(id, interp.Entry{Match: []program.FieldMatch{m}, Priority: priority, Target: w.call(id, action, args...)})
	if err != nil {
		w.t.Fatal(err)
	}
}

func newWorld(t testing.TB) *world { return newWorldOf(t, true) }

// newWorldOf is newWorld with or without traces.
func newWorldOf(t testing.TB, traced bool) *world {
	t.Helper()
	prog, err := program.Load(p4src.V1ModelJSON())
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	n, err := sim.New(sim.Config{Fabric: f})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Network: n, t: t, fab: f, prog: prog, switches: map[fabric.NodeID]*interp.Switch{}}
	var traces *interp.Traces
	if traced {
		traces = interp.NewTraces(prog)
	}
	for i := range f.Hosts() {
		s := &station{fab: f, id: fabric.NodeID(i)}
		w.stations = append(w.stations, s)
		n.SetHost(s.id, s)
	}
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		sw := interp.NewSwitch(prog, interp.Config{QueuesPerPort: 8, Traces: traces})
		w.switches[id] = sw
		n.SetSwitch(id, New(sw))
		node := f.Node(id)
		if err := sw.SetDefault(w.table("device"), w.call(w.table("device"), "set_device",
			uint64(id), 1, 0, uint64(node.Uplinks()), 7, 0)); err != nil {
			t.Fatal(err)
		}
		w.insert(sw, "label_carrier", program.FieldMatch{Value: be(0, 1)}, 0, "carrier_udp_sport")
		for p := range node.Ports() {
			port := fabric.PortNo(p + 1)
			if err := sw.SetCloneSession(512+uint32(port), interp.CloneSession{
				Replicas: []interp.Replica{{Port: uint32(port)}}, Truncate: 128, Class: 7}); err != nil {
				t.Fatal(err)
			}
			w.insert(sw, "ecn_profile", program.FieldMatch{Value: be(uint64(port), 2)}, 0, "mark_between", 40, 40, 0)
		}
		for u := range node.Uplinks() {
			port := uint64(node.FirstUplink()) + uint64(u)
			w.insert(sw, "source_route", program.FieldMatch{Value: be(uint64(u), 2), Mask: be(1<<14-1, 2)}, 1, "take_uplink", port)
			w.insert(sw, "uplink_of_port", program.FieldMatch{Value: be(port, 2)}, 0, "set_uplink_index", uint64(u))
			w.insert(sw, "port_of_uplink", program.FieldMatch{Value: be(uint64(u), 1)}, 0, "take_uplink", port)
		}
		for h := range f.Hosts() {
			host := fabric.NodeID(h)
			a := f.HostAddr4(host).As4()
			m := program.FieldMatch{Value: a[:], PrefixLen: 32}
			switch tor := f.ToROf(host); {
			case node.Tier == fabric.Core:
				w.insert(sw, "route_v4", m, 0, "forward_down", uint64(f.Node(tor).Index+1))
			case tor == id:
				first, _ := f.HostsOf(tor)
				w.insert(sw, "route_v4", m, 0, "deliver", uint64(host-first+1), uint64(0x020000000000+h))
			default:
				w.insert(sw, "route_v4", m, 0, "forward_up", 1)
			}
		}
	}
	return w
}

func (w *world) run() {
	w.t.Helper()
	if err := w.Run(context.Background(), sim.Never); err != nil {
		w.t.Fatal(err)
	}
	if tot := w.Totals(); tot.InFlight != 0 {
		w.t.Errorf("packets left: %+v", tot)
	}
}

// A labelled packet takes the path its label names, at the speed of its links,
// and the program's counters agree with the network's.
func TestLabelledPath(t *testing.T) {
	w := newWorld(t)
	w.stations[0].queue = []sent{{2, 1, 0x0a, payload}, {2, 1, 0x11, 0}}
	w.run()
	at := fabric.Time(4 * (wire*20 + 500_000))
	want := []got{{at, wire, 0, 61, 2, 2}, {at + (header+4)*20, header + 4, 1, 61, 2, 2}}
	if d := cmp.Diff(want, w.stations[2].got); d != "" {
		t.Error(d)
	}
	tor := w.fab.ToRID(0)
	c := w.Counters(w.SendDirection(tor, 4))
	if c.DataPackets != 1 || c.ControlPackets != 1 || c.DataPayload != payload || c.Bytes != wire+header+4 {
		t.Errorf("counters of the second uplink: %+v", c)
	}
	id, ok := w.prog.CounterByName("port_tx_data")
	if !ok {
		t.Fatal("no counter port_tx_data")
	}
	if packets, bytes, err := w.switches[tor].Counter(id, 4); err != nil || packets != 1 || bytes != wire {
		t.Errorf("port_tx_data: %d packets, %d bytes, %v", packets, bytes, err)
	}
}

// The program sees the queue in cells: it marks when 40 cells of 256 B wait.
func TestMarking(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		w.stations[0].queue = append(w.stations[0].queue, sent{2, fabric.Label(0), 0x0a, payload})
		w.stations[1].queue = append(w.stations[1].queue, sent{2, fabric.Label(1), 0x0a, payload})
	}
	w.run()
	// Packets leave the last port in the order of arrival, one per time; when
	// packet k leaves, 2*(k+1) have come, since arrivals go first, up to 40.
	for k, g := range w.stations[2].got {
		waiting := min(2*(k+1), 40) - (k + 1)
		if k == 0 {
			waiting = 0 // left before the other came
		}
		want := byte(2)
		if (waiting*wire+255)/256 >= 40 {
			want = 3
		}
		if g.ECN != want {
			t.Errorf("packet %d: ecn %d, want %d with %d waiting", k, g.ECN, want, waiting)
		}
	}
}

// After a port event the packet goes round the dead uplink and its source gets
// a quench, which is a control packet of 66 bytes.
func TestQuench(t *testing.T) {
	w := newWorld(t)
	tor := w.fab.ToRID(0)
	w.At(0, func(fabric.Time) {
		event := make([]byte, 22)
		copy(event[12:], []byte{0x88, 0xB6, 1, 0, 0, 4, 0, 0, 0, 9})
		if err := w.Inject(tor, sim.EventPort, event, len(event)); err != nil {
			t.Error(err)
		}
		w.Cut(w.SendDirection(tor, 4))
	})
	w.stations[0].queue = []sent{{2, 1, 0x0a, payload}}
	w.run()
	if g := w.stations[2].got; len(g) != 1 || g[0].Len != wire {
		t.Errorf("the packet: %+v", g)
	}
	g := w.stations[0].got
	if len(g) != 1 || g[0].Len != 66 || g[0].At != wire*20+66*20+1_000_000 {
		t.Errorf("the quench: %+v", g)
	}
	c := w.Counters(sim.Downward(0))
	if c.ControlPackets != 1 || c.DataPackets != 0 || c.DataPayload != 0 {
		t.Errorf("counters towards the source: %+v", c)
	}
	if tot := w.Totals(); tot.Lost != 0 || tot.Created != 3 || tot.Dropped[sim.DropPipeline] != 1 {
		t.Errorf("totals %+v", tot)
	}
}

// Without a switch all is dropped; a switch that is replaced finishes what it
// has begun.
func TestUse(t *testing.T) {
	w := newWorld(t)
	tor := w.fab.ToRID(0)
	p := New(nil)
	w.SetSwitch(tor, p)
	for range 10 {
		w.stations[0].queue = append(w.stations[0].queue, sent{1, 0, 0x0a, payload})
		w.stations[2].queue = append(w.stations[2].queue, sent{1, 0, 0x0a, payload})
	}
	w.At(500_000+wire*20+1, func(fabric.Time) { p.Use(w.switches[tor]) })
	w.At(3_000_000, func(fabric.Time) { p.Use(nil) })
	w.run()
	tot := w.Totals()
	if len(w.stations[1].got) == 0 || tot.Delivered+tot.Dropped[sim.DropPipeline] != 20 {
		t.Errorf("%d arrived, totals %+v", len(w.stations[1].got), tot)
	}
	if len(p.free) != len(p.slots) {
		t.Errorf("%d of %d handles free", len(p.free), len(p.slots))
	}
}

func endless(t testing.TB, traced bool) *world {
	w := newWorldOf(t, traced)
	for i, s := range w.stations {
		s.endless = true
		dst, l := fabric.NodeID((i+2)%4), fabric.Label(i%2)
		s.queue = []sent{{dst, l, 0x0a, payload}, {dst, l, 0x11, 0}}
	}
	if err := w.Run(context.Background(), 100*fabric.Microsecond); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestNoAllocationPerHop(t *testing.T) {
	for _, traced := range []bool{true, false} {
		w := endless(t, traced)
		if got := testing.AllocsPerRun(5, func() {
			if err := w.Run(context.Background(), w.Now()+10*fabric.Microsecond); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("traced %v: %v allocations in 10 us", traced, got)
		}
	}
}

// BenchmarkHops measures ns per packet-hop with the P4 program run at every
// switch, by traces and by the interpreter; a quarter of the hops end at a host.
func BenchmarkHops(b *testing.B) {
	b.Run("traced", func(b *testing.B) { benchmarkHops(b, true) })
	b.Run("interpreted", func(b *testing.B) { benchmarkHops(b, false) })
}

func benchmarkHops(b *testing.B, traced bool) {
	w := endless(b, traced)
	start := w.Progress().Hops
	b.ReportAllocs()
	b.ResetTimer()
	for w.Progress().Hops-start < int64(b.N) {
		if err := w.Run(context.Background(), w.Now()+fabric.Microsecond); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(w.Progress().Hops-start)/b.Elapsed().Seconds()/1e6, "Mhops/s")
}
