package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// streamer sends full packets to one host without end, and an acknowledgement
// for every packet it receives.
type streamer struct {
	id, dst fabric.NodeID
	up, up2 byte
	acks    []fabric.NodeID
	left    int
}

func (s *streamer) Next(_ fabric.Time, b []byte) (Frame, fabric.Time, bool) {
	f := Frame{Header: fakeHeader, Payload: 4096, Trailer: 4}
	dst := s.dst
	switch {
	case len(s.acks) > 0:
		dst = s.acks[len(s.acks)-1]
		s.acks = s.acks[:len(s.acks)-1]
		f.Payload, f.Control = 0, true
	case s.left == 0:
		return Frame{}, Never, false
	default:
		s.left--
	}
	clear(b[:fakeHeader])
	binary.BigEndian.PutUint32(b[fakeDst:], uint32(dst))
	binary.BigEndian.PutUint32(b[fakeSrc:], uint32(s.id))
	b[fakeUp], b[fakeUp2] = s.up, s.up2
	if f.Control {
		b[fakePriority] = 1
	}
	return f, 0, true
}

func (s *streamer) Receive(_ fabric.Time, b []byte, _ int) {
	if b[fakePriority] == 0 {
		s.acks = append(s.acks, fabric.NodeID(binary.BigEndian.Uint32(b[fakeSrc:])))
	}
}

// streams is a permutation over a fat-tree: host i sends to i + hosts/2. Ethereal-like
// paths: hosts of a ToR use different uplinks.
func streams(t testing.TB, spec fabric.Spec, packets int, c Config) *Network {
	w := newWorld(t, spec, c)
	hosts := w.fab.Hosts()
	perToR := w.fab.Spec().HostsPerToR
	for i := range hosts {
		tor := w.fab.Node(w.fab.ToROf(fabric.NodeID(i)))
		up2 := 0
		if agg := w.fab.Aggs(); agg > 0 {
			up2 = tor.Index % w.fab.Node(w.fab.AggID(0)).Uplinks()
		}
		w.SetHost(fabric.NodeID(i), &streamer{
			id: fabric.NodeID(i), dst: fabric.NodeID((i + hosts/2) % hosts), left: packets,
			up: byte(i % perToR % tor.Uplinks()), up2: byte(up2),
		})
	}
	return w.Network
}

// Once pools have grown, a hop allocates nothing.
func TestNoAllocationPerHop(t *testing.T) {
	n := streams(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4}, 1<<30, Config{})
	run := func(d fabric.Time) {
		if err := n.Run(context.Background(), n.Now()+d); err != nil {
			t.Fatal(err)
		}
	}
	run(200 * fabric.Microsecond)
	before := n.Progress().Hops
	got := testing.AllocsPerRun(5, func() { run(20 * fabric.Microsecond) })
	if hops := n.Progress().Hops - before; got != 0 || hops < 10_000 {
		t.Errorf("%v allocations in %d hops", got, hops)
	}
}

// BenchmarkHops measures the engine with a pipeline that costs next to nothing:
// ns per packet-hop, data and acknowledgements counted, one per link crossed.
func BenchmarkHops(b *testing.B) {
	for _, c := range []struct {
		name string
		spec fabric.Spec
		cfg  Config
	}{
		{"16-hosts", fabric.Spec{Kind: fabric.KindFatTree, K: 4}, Config{}},
		{"128-hosts", fabric.Spec{Kind: fabric.KindFatTree, K: 8}, Config{}},
		{"1024-hosts", fabric.Spec{Kind: fabric.KindFatTree, K: 16}, Config{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			n := streams(b, c.spec, 1<<30, c.cfg)
			run := func(until fabric.Time) {
				if err := n.Run(context.Background(), until); err != nil {
					b.Fatal(err)
				}
			}
			run(20 * fabric.Microsecond)
			start := n.Progress()
			b.ReportAllocs()
			b.ResetTimer()
			cpu := cpuSeconds()
			for n.Progress().Hops-start.Hops < int64(b.N) {
				run(n.Now() + fabric.Microsecond)
			}
			p := n.Progress()
			hops, events := float64(p.Hops-start.Hops), float64(p.Events-start.Events)
			b.ReportMetric(hops/b.Elapsed().Seconds()/1e6, "Mhops/s")
			if cpu = cpuSeconds() - cpu; cpu > 0 {
				b.ReportMetric(hops/cpu/1e6, "Mhops/cpu-s")
				b.ReportMetric(events/cpu/1e6, "Mevents/cpu-s")
			}
			b.ReportMetric(events/hops, "events/hop")
		})
	}
}

func ExampleNetwork() {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := New(Config{Fabric: f})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range f.Switches() {
		node := fabric.NodeID(f.Hosts() + i)
		n.SetSwitch(node, &router{fab: f, node: node}) // in earnest: p4.New(...)
	}
	n.SetHost(0, &station{id: 0, orders: []order{{dst: 1, payload: 9000, up: 1}}}) // in earnest: a NIC
	n.SetHost(1, &station{id: 1})
	link, _ := f.LinkByName("tor0-spine1")
	n.At(fabric.Microsecond, func(fabric.Time) { n.Cut(Upward(link), Downward(link)) })
	if err := n.Run(context.Background(), Never); err != nil {
		fmt.Println(err)
	}
	c := n.Counters(Upward(link))
	fmt.Printf("%d sent, %d lost at %v\n", c.DataPackets, c.Lost, c.FirstLost)
	// Output: 1 sent, 1 lost at 1us
}
