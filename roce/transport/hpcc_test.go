package transport

import (
	"bytes"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// TestHPCC carries out the paper's algorithm 1 by hand: one link of 400 Gb/s, with telemetry in each packet.
func TestHPCC(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Receiver, c.Control = Ideal, HPCC })
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1 << 30})
	e := w.hosts[0].e
	q, c := e.qps[0], e.control.pacer.(*hpcc)
	s, whole := c.qps.at(q), c.bandwidthDelay(c.trip)
	grown := whole / 2000
	if s.window != whole || q.rate.now != e.cfg.LineRate/1000*1000 {
		t.Fatalf("begins with %d bytes at %v; want %d", s.window, q.rate.now, whole)
	}
	now, sent, packet := fabric.Millisecond, int64(0), int32(0)
	rate := 400 * fabric.Gbps
	// answer brings word, one idle round trip after the last, of a link that was used so much meanwhile and has a queue
	// of so many round trips.
	answer := func(used, queue float64, through fabric.NodeID) {
		trip := c.trip / fabric.Nanosecond * fabric.Nanosecond // as the stamps have it
		now += trip
		whole := bytesIn(rate, int64(trip/fabric.Nanosecond))
		sent += int64(used * float64(whole))
		hdr := dataHeader(e, q)
		stampTelemetry(hdr, Hop{Switch: through, At: now, Sent: sent, Queue: int64(queue * float64(whole)), Rate: rate})
		q.sent = packet + 40
		p := ackOf(q, packet)
		p.rest = append(append([]byte{}, p.rest...), hdr[len(hdr)-telemetrySize:]...)
		c.acked(now, q, p, 1, packet+1, false)
		packet++
	}
	near := func(what string, got, want int64) {
		t.Helper()
		if got < want*99/100 || got > want*101/100 {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	answer(0, 0, 5)
	near("after one word there is nothing to compare", s.window, whole)
	answer(1, 0.9, 5)
	near("a queue that was not there before counts for nothing yet", s.window, whole*95/100+grown)
	reference := s.reference
	answer(1, 0.9, 5)
	near("full, and a queue of 0.9 round trips", s.window, reference*95/190+grown)
	if s.reference != reference {
		t.Errorf("the reference changed within a round trip")
	}
	answer(1, 0.9, 5)
	near("again within the round trip: by the same reference", s.window, reference*95/190+grown)
	q.sent = 1 << 20
	packet = s.renewed
	answer(1, 0.9, 5)
	near("the next round trip", s.reference, reference*95/190+grown)
	window := s.window
	answer(0.1, 0, 9)
	if s.window != window {
		t.Errorf("word of another path changed the window")
	}
	for stage := range int32(hpccStages) {
		packet = s.renewed
		before := s.reference
		answer(0.5, 0, 9)
		if s.window != before+grown || s.stage != stage+1 {
			t.Errorf("stage %d, half used: %d bytes more, want %d", s.stage, s.window-before, grown)
		}
	}
	packet = s.renewed
	before := s.reference
	answer(0.5, 0, 9)
	near("after five of them", s.window, min(whole, before*95/50+grown))
	if s.stage != 0 || q.rate.now != fabric.Rate(int64(e.cfg.LineRate)/1000*s.window/whole*1000) {
		t.Errorf("stage %d, rate %v of window %d", s.stage, q.rate.now, s.window)
	}
}

// TestHPCCAnew: after a link's rate has changed, or counters may have come round, the next word is the first of its
// kind, and the one after it counts again.
func TestHPCCAnew(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Receiver, c.Control = Ideal, HPCC })
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1 << 30})
	e := w.hosts[0].e
	q, c := e.qps[0], e.control.pacer.(*hpcc)
	s, now, sent := c.qps.at(q), fabric.Millisecond, int64(0)
	word := func(after fabric.Time, bytes int64, rate fabric.Rate) bool {
		now, sent = now+after, sent+bytes
		hdr := dataHeader(e, q)
		stampTelemetry(hdr, Hop{Switch: 5, At: now, Sent: sent, Rate: rate})
		stamped := telemetry(hdr[len(hdr)-telemetrySize:])
		return c.measure(now, s, &stamped)
	}
	const fast, slow = 400 * fabric.Gbps, 100 * fabric.Gbps
	for i, step := range []struct {
		after fabric.Time
		bytes int64
		rate  fabric.Rate
		want  bool
	}{
		{fabric.Microsecond, 50e3, fast, false},
		{fabric.Microsecond, 50e3, fast, true},
		{fabric.Microsecond, 12500, slow, false}, // the link was degraded
		{fabric.Microsecond, 12500, slow, true},
		{fabric.Microsecond, 12500, fast, false}, // and restored
		{fabric.Microsecond, 50e3, fast, true},
		{2 * fabric.Millisecond, 100e6, fast, true},
		{3 * fabric.Millisecond, 150e6, fast, false}, // 2^20 x 128 B is 134 MB
		{fabric.Microsecond, 50e3, fast, true},
		{12 * fabric.Millisecond, 1e6, fast, false}, // TS would seem to be older
		{fabric.Microsecond, 50e3, fast, true},
	} {
		if got := word(step.after, step.bytes, step.rate); got != step.want {
			t.Errorf("word %d: compared %v, want %v", i, got, step.want)
		}
	}
	if got := s.utilisation; got < hpccOne/2 || got > hpccOne*101/100 {
		t.Errorf("a link that was always full has a utilisation of %.3f", float64(got)/hpccOne)
	}
}

// TestHPCCShares: two flows of one link come to share it alike, as fast as algorithm 1 has it. What a round trip adds
// is all that makes them more alike: with n flows and W_AI = W(1-eta)/100 their difference halves in ln 2 x 1900 / n
// round trips.
func TestHPCCShares(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Receiver, c.Control = Ideal, HPCC })
	for id := range 2 {
		w.open(0, Message{QP: QP(id + 1), ID: uint64(id + 1), Dst: 1, Bytes: 1 << 30})
	}
	e := w.hosts[0].e
	c := e.control.pacer.(*hpcc)
	a, b := c.qps.at(e.qps[0]), c.qps.at(e.qps[1])
	whole := c.bandwidthDelay(c.trip)
	a.window, a.reference = whole*85/100, whole*85/100
	b.window, b.reference = whole/10, whole/10
	rate, sent, now := 400*fabric.Gbps, int64(0), fabric.Millisecond
	round := func() {
		now += c.trip
		sent += a.window + b.window
		for _, q := range e.qps[:2] {
			hdr := dataHeader(e, q)
			stampTelemetry(hdr, Hop{Switch: 5, At: now, Sent: sent, Rate: rate})
			p := ackOf(q, c.qps.at(q).renewed)
			p.rest = append(append([]byte{}, p.rest...), hdr[len(hdr)-telemetrySize:]...)
			c.acked(now, q, p, 1, c.qps.at(q).renewed+1, false)
		}
	}
	const halves = 658
	for i := range 4 {
		before := a.window - b.window
		for range halves {
			round()
		}
		if after := a.window - b.window; after < before*45/100 || after > before*55/100 {
			t.Errorf("%d round trips: apart by %d bytes, before by %d; want half", (i+1)*halves, after, before)
		}
		if sum := a.window + b.window; sum < whole*94/100 || sum > whole*96/100 {
			t.Errorf("together %d bytes of %d, want 95 %%", sum, whole)
		}
	}
}

// dataHeader returns a packet of a QP as it leaves the host.
func dataHeader(e *Endpoint, q *qp) []byte {
	hdr := make([]byte, MaxHeader)
	return hdr[:e.buildData(q, 1, true, hdr).Len]
}

// TestStamp writes what hops write and reads it, also where counters have come round.
func TestStamp(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Control = HPCC })
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1 << 20})
	e := w.hosts[0].e
	hdr := dataHeader(e, e.qps[0])
	for i := range maxHops + 2 {
		stampTelemetry(hdr, Hop{fabric.NodeID(16 + i), 1, fabric.Second + 12345*fabric.Nanosecond, 1<<27 + 1280, 8000, 450 * fabric.Gbps})
	}
	stamped := telemetry(hdr[len(hdr)-telemetrySize:])
	hops, id, ok := stamped.path()
	if hops != maxHops || id != 16^17^18^19^20 || !ok {
		t.Errorf("%d hops, path %d, %v", hops, id, ok)
	}
	want := intHop{sent: 1280, queue: 8000, at: 1_000_012_345 % (1 << hopTSBits), rate: 400 * fabric.Gbps}
	if got := stamped.hop(maxHops - 1); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	before := intHop{at: 1<<hopTSBits - 100, sent: 1<<27 - 1280, rate: want.rate}
	if ns, sent, ok := (intHop{at: 200, sent: 2560, rate: want.rate}).since(before); ns != 300 || sent != 3840 || !ok {
		t.Errorf("%d ns, %d bytes, %v; want 300 and 3840", ns, sent, ok)
	}
	if _, _, ok := before.since(intHop{at: 200, rate: want.rate}); ok {
		t.Error("what is older counts")
	}
	ack := make([]byte, MaxHeader)
	ack = ack[:e.buildAck(controlPacket{dst: 1, syndrome: frame.ACK}, nil, ack).Len]
	as := bytes.Clone(ack)
	if stampTelemetry(ack, Hop{Rate: fabric.Gbps}); !bytes.Equal(ack, as) {
		t.Error("an ACK was written into")
	}
}

// FuzzStamp: whatever comes, nothing but a packet's last bytes is written.
func FuzzStamp(f *testing.F) {
	f.Add(make([]byte, 120))
	f.Fuzz(func(t *testing.T, hdr []byte) {
		as := bytes.Clone(hdr)
		stampTelemetry(hdr, Hop{7, 1, 1, 2, 3, fabric.Gbps})
		if n := max(0, len(hdr)-telemetrySize); !bytes.Equal(hdr[:n], as[:n]) {
			t.Fatal("headers were written into")
		}
		if len(hdr) >= telemetrySize {
			stamped := telemetry(hdr[len(hdr)-telemetrySize:])
			stamped.path()
			for i := range maxHops {
				stamped.hop(i)
			}
		}
	})
}
