package transport

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// The paper's two moves, and how far each goes; cuts are a round trip apart, and by half at
// most. Flow scaling allows more to small windows, up to five targets.
func TestSwift(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Receiver, c.Control = Ideal, Swift })
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1 << 30})
	e := w.hosts[0].e
	q, c := e.qps[0], e.control.pacer.(*swift)
	s, packet := c.qps.at(q), int64(e.fullPacketBytes)
	allowed := func(window int64) fabric.Time {
		p := *s
		p.Window = window
		return p.Allowed() - p.Base
	}

	least := fabric.Time(1 << 60)
	for _, packets := range []int64{1, 2, 5, 20, 99} {
		a := allowed(packets * packet)
		if a >= least || a <= c.target {
			t.Errorf("%d packets: %v allowed, of fewer %v; the target is %v", packets, a, least, c.target)
		}
		least = a
	}
	if a := allowed(100 * packet); a != c.target {
		t.Errorf("100 packets: %v allowed, want the target, %v", a, c.target)
	}
	if a := allowed(packet / 10); a < 6*c.target-fabric.Nanosecond*10 || a > 6*c.target {
		t.Errorf("a tenth of a packet: %v allowed, want six targets of %v", a, c.target)
	}

	now := fabric.Millisecond
	answer := func(packet int32, trip fabric.Time) {
		s, old := q.state, q.sent
		s.sentPackets.put(packet, now-trip, 0, 0)
		c.acked(now, q, ackOf(q, packet), 1, packet+1, false)
		q.sent = old
	}
	s.Window = 50 * packet
	for i := range int32(50) {
		answer(i, c.trip)
	}
	if grown := s.Window - 50*packet; grown < packet*98/100 || grown > packet {
		t.Errorf("a round trip without queueing: %d bytes more, want a packet's %d", grown, packet)
	}
	s.Window = 50 * packet
	most := s.Allowed()
	for i := range int32(50) {
		answer(i, 2*most)
	}
	if want := 50 * packet * 6 / 10; s.Window < want-2 || s.Window > want+2 { // less 0.8 of (2-1)/2
		t.Errorf("twice the target: %d bytes, want %d", s.Window, want)
	}
	now += 200 * most
	s.Window = 50 * packet
	answer(50, 100*most)
	if s.Window != 25*packet || e.Stats().RateCuts != 2 {
		t.Errorf("far beyond: %d bytes after %d cuts, want half of %d", s.Window, e.Stats().RateCuts, 50*packet)
	}
	s.Window = packet / 10
	c.applyWindow(q)
	if q.cwnd != 1 || q.rate.now >= e.cfg.LineRate/10 {
		t.Errorf("a tenth of a packet: %d packets at %v", q.cwnd, q.rate.now)
	}
	if gap, most := q.rate.gap, 11*s.Allowed(); gap > most {
		t.Errorf("a pause of %v after a round trip of %v; want %v at most", gap, s.Trip, most)
	}
}

// ackOf returns the answer to a packet alone.
func ackOf(q *qp, i int32) *packet {
	var rest [4]byte
	putUint24(rest[1:], q.firstPSN+uint32(i))
	return &packet{rest: rest[:]}
}
