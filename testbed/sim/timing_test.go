package sim

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// One packet over four links: each takes its serialisation and 500 ns.
func TestLatency(t *testing.T) {
	w := newWorld(t, oneByOne, Config{})
	w.stations[0].orders = []order{{at: 7, dst: 1, payload: 9000}}
	w.run(t, Never)
	// 9062 B * 20 ps = 181,240 ps; 4 * (181,240 + 500,000) = 2,724,960 ps.
	want := []receipt{{At: 7 + 2_724_960, Src: 0, Seq: 0, Tail: 9004}}
	if d := cmp.Diff(want, w.stations[1].got); d != "" {
		t.Error(d)
	}
	if p := w.Progress(); p.Hops != 4 || w.Now() != want[0].At {
		t.Errorf("progress %+v, now %v", p, w.Now())
	}
	// Polls at 0, at 7 and when the packet is out, one arrival per hop and the
	// receiver's first poll.
	if p := w.Progress(); p.Events != 8 {
		t.Errorf("%d events", p.Events)
	}
}

// Back to back, packets come out a serialisation apart, and no queue forms.
func TestThroughput(t *testing.T) {
	w := newWorld(t, oneByOne, Config{})
	for range 100 {
		w.stations[0].orders = append(w.stations[0].orders, order{dst: 1, payload: 9000})
	}
	w.run(t, Never)
	got := w.stations[1].got
	if len(got) != 100 {
		t.Fatalf("%d of 100 packets", len(got))
	}
	for i, r := range got {
		if want := fabric.Time(2_724_960 + i*181_240); r.At != want {
			t.Fatalf("packet %d at %d, want %d", i, r.At, want)
		}
	}
	c := w.Counters(w.SendDirection(w.fab.ToRID(0), 2))
	want := LinkCounters{DataPackets: 100, DataPayload: 900_000, Bytes: 100 * wire, Arrived: 100}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
}

// Rates that do not divide a byte into whole picoseconds round each packet up;
// a fast link behind a slow one stays idle in between; overhead is on the wire.
func TestMixedRatesAndOverhead(t *testing.T) {
	spec := oneByOne
	spec.HostLink = fabric.LinkSpec{Rate: 300 * fabric.Gbps, Delay: 100}
	spec.ToRUplink = fabric.LinkSpec{Rate: 1600 * fabric.Gbps, Delay: 1000}
	for _, overhead := range []int{0, 24, -10} {
		w := newWorld(t, spec, Config{Overhead: overhead})
		w.stations[0].orders = []order{{dst: 1, payload: 9000}, {dst: 1, payload: 1}}
		w.run(t, Never)
		// 80/3 ps per byte at 300 Gb/s, 5 at 1.6 Tb/s.
		slow := func(n int) fabric.Time { return fabric.Time((80*n + 2) / 3) }
		big, small := wire+overhead, fakeHeader+5+overhead
		first := 2*slow(big) + 2*fabric.Time(5*big) + 2*100 + 2*1000
		// The small packet catches up with the big one at the last link.
		want := []receipt{{first, 0, 0, 9004}, {first + slow(small), 0, 1, 5}}
		if d := cmp.Diff(want, w.stations[1].got); d != "" {
			t.Errorf("overhead %d: %s", overhead, d)
		}
	}
}

// threeToOne has three hosts under the first ToR: two senders and a receiver.
var threeToOne = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 3}

// A control packet overtakes the data in the queue, but not the packet that is
// being sent.
func TestPriority(t *testing.T) {
	w := newWorld(t, threeToOne, Config{})
	const tx = 20 * wire // ps
	for range 10 {
		w.stations[0].orders = append(w.stations[0].orders, order{dst: 2, payload: 9000})
	}
	for range 5 {
		w.stations[1].orders = append(w.stations[1].orders, order{dst: 2, payload: 9000})
	}
	w.stations[1].orders = append(w.stations[1].orders, order{dst: 2, priority: 5}) // 62 B
	w.run(t, Never)
	at := fabric.Time(0)
	for i, r := range w.stations[2].got {
		if r.Src == 1 && r.Seq == 5 {
			at = r.At
			// It reaches the ToR at 5*tx + 1240 + 500,000. The ToR's port has
			// been sending without pause since tx + 500,000, so it is sending
			// its fifth packet until 6*tx.
			if want := fabric.Time(6*tx + 500_000 + 62*20 + 500_000); at != want || i != 5 {
				t.Errorf("control packet arrived as number %d at %d, want 5 at %d", i, at, want)
			}
		}
	}
	if at == 0 {
		t.Error("no control packet")
	}
	c := w.Counters(w.SendDirection(w.fab.ToRID(0), 3))
	if c.DataPackets != 15 || c.ControlPackets != 1 {
		t.Errorf("counters %+v", c)
	}
}

// Depths are in cells of the data class, rounded up, the packet not counted.
func TestQueueState(t *testing.T) {
	w := newWorld(t, threeToOne, Config{})
	var got []QueueState
	w.routers[0].onEgress = func(_ uint32, q QueueState) { got = append(got, q) }
	for range 3 {
		w.stations[0].orders = append(w.stations[0].orders, order{dst: 2, payload: 9000})
		w.stations[1].orders = append(w.stations[1].orders, order{dst: 2, payload: 9000})
	}
	w.run(t, Never)
	// At the ToR packets arrive in pairs at T, T+tx, T+2tx; one leaves per tx.
	const tx = 20 * wire
	const T = tx + 500_000
	cells := func(packets int) uint32 { return uint32((packets*wire + 255) / 256) }
	want := []QueueState{
		{T, T, 0, 0},
		{T, T + tx, 0, cells(2)}, // the second pair has joined: arrivals go first
		{T + tx, T + 2*tx, cells(1), cells(3)},
		{T + tx, T + 3*tx, cells(2), cells(2)},
		{T + 2*tx, T + 4*tx, cells(2), cells(1)},
		{T + 2*tx, T + 5*tx, cells(3), 0},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	c := w.Counters(w.SendDirection(w.fab.ToRID(0), 3))
	if c.MaxQueue != 4*wire {
		t.Errorf("max queue %d", c.MaxQueue)
	}
	// 1, 2, 3, 2 and 1 packets wait, for tx each.
	end := fabric.Time(T + 6*tx + 500_000)
	if want := float64(9*wire) * tx / float64(end); w.Now() != end || c.MeanQueue != want {
		t.Errorf("mean queue %v at %v, want %v at %v", c.MeanQueue, w.Now(), want, end)
	}
}

// In a buffer of ten packets with alpha 1, one congested queue gets half of it,
// two get a third each.
func TestDynamicThreshold(t *testing.T) {
	spec := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 6}
	for _, tc := range []struct {
		name    string
		alpha   float64
		sinks   int
		packets int64 // most that wait, per queue
	}{
		{"one queue", 1, 1, 6},        // joins while it holds less than 12-q: up to 6
		{"two queues", 1, 2, 4},       // q < 12-2q
		{"alpha a half", 0.5, 1, 4},   // q < (12-q)/2
		{"alpha two", 2, 1, 8},        // q < 2(12-q)
		{"all of it", 1 << 16, 1, 12}, // only the size of the buffer counts
		{"a tenth", 26.0 / 256, 1, 2}, // q < (12-q)*26/256: 0 < 1.2, 1 < 1.1, not 2 < 1.0
	} {
		w := newWorld(t, spec, Config{Buffer: 12 * wire, Alpha: tc.alpha})
		for s := range 4 {
			for i := range 100 {
				w.stations[s].orders = append(w.stations[s].orders, order{dst: fabric.NodeID(4 + (s+i)%tc.sinks), payload: 9000})
			}
		}
		w.run(t, Never)
		for k := range tc.sinks {
			c := w.Counters(w.SendDirection(w.fab.ToRID(0), fabric.PortNo(5+k)))
			if c.MaxQueue != tc.packets*wire {
				t.Errorf("%s: %d bytes waited, %v packets, want %d", tc.name, c.MaxQueue, float64(c.MaxQueue)/wire, tc.packets)
			}
			if c.Dropped == 0 {
				t.Errorf("%s: counters %+v", tc.name, c)
			}
		}
		sc := w.SwitchCounters(w.fab.ToRID(0))
		if sc.MaxBuffer > 12*wire || sc.Buffer != 0 || int64(sc.Drops[DropBuffer]) != w.Totals().Dropped[DropBuffer] {
			t.Errorf("%s: switch %+v", tc.name, sc)
		}
	}
}

// TestStamp: a switch writes the queue of the port that the packet leaves by: with two senders by one spine, that of
// its link to the receiver's ToR.
func TestStamp(t *testing.T) {
	type place struct {
		at   fabric.NodeID
		port fabric.PortNo
	}
	longest := map[place]int64{}
	spec := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2}
	w := newWorld(t, spec, Config{Stamp: func(_ []byte, h Hop) {
		p := place{h.Switch, h.Port}
		longest[p] = max(longest[p], h.Queue)
	}})
	for _, s := range []int{2, 4} {
		for range 20 {
			w.stations[s].orders = append(w.stations[s].orders, order{dst: 1, payload: 9000})
		}
	}
	w.run(t, Never)
	congested := place{w.fab.ToRID(0) + 3, 1} // spines follow ToRs
	for p, queue := range longest {
		if (queue > 0) != (p == congested) {
			t.Errorf("%s, port %d: at most %d bytes waited", w.fab.Name(p.at), p.port, queue)
		}
	}
	if want := 4; len(longest) != want { // two uplinks, the spine's, and the receiver's
		t.Errorf("%d ports sent, want %d: %v", len(longest), want, longest)
	}
}
