package balance

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// SRD leaves a slow path, tests it with one packet, and uses it again when that is fast; a lost packet's path is
// avoided the longer the more it loses.
func TestSRD(t *testing.T) {
	h, qps := begin(t, SRD, nil, otherPod)
	qp, now := qps[0], fabric.Millisecond
	echo := func(l fabric.Label, trip fabric.Time) { h.Echo(now, qp, transport.Echo{Label: l, Trip: trip}) }
	at := func(n int) map[fabric.Label]int {
		m := map[fabric.Label]int{}
		for range n {
			m[h.Label(now, qp)]++
		}
		return m
	}
	if m := at(400); len(m) != 4 || m[0] != 100 {
		t.Fatalf("at first: %v", m)
	}
	const fast, slow = 10 * fabric.Microsecond, 40 * fabric.Microsecond
	for l := range fabric.Label(3) {
		echo(l, fast)
	}
	echo(3, slow)
	if m := at(300); m[3] != 0 || m[0] != 100 {
		t.Errorf("with a slow path: %v", m)
	}
	now += 2 * slow
	if m := at(300); m[3] != 1 {
		t.Errorf("two round trips later: %v", m)
	}
	echo(3, fast)
	if m := at(400); m[3] != 100 {
		t.Errorf("after a fast answer: %v", m)
	}
	for i := range 3 {
		h.(PathLossHost).LostBy(now, qp, 3)
		if m := at(300); m[3] != 0 {
			t.Errorf("after loss %d: %v", i+1, m)
		}
	}
	q := h.(*srd).qps.open[qp]
	if p := q.find(3); p.avoid != now+16*q.base {
		t.Errorf("after three losses it is avoided for %v, want 16 times %v", p.avoid-now, q.base)
	}
	h.Done(now, qp)
	echo(3, fast) // a late answer
}

// Falcon's packets go where there is room; a flow whose packets take long in several round trips in a row changes
// its path, and so does one that loses packets in silence. Answers without an echo free their room.
func TestFalcon(t *testing.T) {
	h, qps := begin(t, Falcon, map[string]string{"flows": "2", "attempts": "3"}, otherPod)
	s, qp, now := h.(*falcon), qps[0], fabric.Millisecond
	q := s.qps.open[qp]
	if len(q.flows) != 2 || q.flows[0].label == q.flows[1].label {
		t.Fatalf("flows: %+v", q.flows)
	}
	sent := int32(0)
	for s.Room(qp, sent) {
		h.Label(now, qp)
		sent++
	}
	for _, f := range q.flows {
		if room := f.Window - f.out; room < 0 || room >= s.wire.data {
			t.Errorf("%d of %d bytes on the way, with packets of %d", f.out, f.Window, s.wire.data)
		}
	}
	if s.Room(qp, sent-1); q.flows[0].out+q.flows[1].out != int64(sent-1)*s.wire.data {
		t.Errorf("after an answer to two packets %d+%d bytes are on the way", q.flows[0].out, q.flows[1].out)
	}
	before := q.flows[0].label
	for range 3 {
		long := 3 * q.flows[0].Allowed()
		now += long
		h.Echo(now, qp, transport.Echo{Label: before, Trip: long})
	}
	if after := q.flows[0].label; after == before || after == q.flows[1].label {
		t.Errorf("three long round trips: paths %d and %d, before %d", after, q.flows[1].label, before)
	}
	before = q.flows[1].label
	for i := range 2 {
		h.(PathLossHost).LostBy(now, qp, before)
		if moved := q.flows[1].label != before; moved != (i == 1) {
			t.Errorf("after loss %d: moved %v", i+1, moved)
		}
	}
	h.Timeout(now, qp)
	if q.flows[0].out != 0 {
		t.Errorf("after a time-out %d bytes are on the way", q.flows[0].out)
	}
	for i := range q.flows {
		q.flows[i].Window = s.wire.data / 10
	}
	h.Label(now, qp)
	if holds := s.Holds(); len(holds) != 1 || holds[0].Until <= now {
		t.Errorf("with a window of a fifth of a packet: %v at %v", holds, now)
	}
}
