package transport

import (
	"errors"
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// One lost packet costs one NAK and what was sent since.
func TestGap(t *testing.T) {
	w := newWorld(t, 2, nil)
	data := 0
	w.fate = func(_ fabric.Time, _ []byte, control bool) fate {
		if !control {
			if data++; data == 10 {
				return fate{}
			}
		}
		return fate{copies: []fabric.Time{0}}
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 200 * 9000})
	w.run(never)
	s, r := w.hosts[0].e.Stats(), w.hosts[1].e.Stats()
	if s.NaksTaken != 1 || r.NaksSent != 1 || s.Timeouts != 0 || r.OutOfOrder != s.Retransmissions-1 || s.Retransmissions < 2 {
		t.Errorf("sender %+v\nreceiver %+v", s, r)
	}
}

// With everything lost from some packet on, only the timer helps; it runs from
// the last packet sent.
func TestTimeout(t *testing.T) {
	w := newWorld(t, 2, nil)
	dead := true
	var last fabric.Time
	w.fate = func(now fabric.Time, hdr []byte, control bool) fate {
		if dead && !control {
			last = now
			return fate{}
		}
		return fate{copies: []fabric.Time{0}}
	}
	var fired fabric.Time
	w.hosts[0].onTimeout = func(QP) { fired, dead = w.now, false }
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 30_000})
	w.run(never)
	if want := last + DefaultRTO; fired != want {
		t.Errorf("timer expired at %v, want %v", fired, want)
	}
	if s := w.hosts[0].e.Stats(); s.Timeouts != 1 || s.Retransmissions != 4 || w.hosts[1].delivered[1] != 30_000 {
		t.Errorf("%+v", s)
	}
}

// With MostRTO the timer doubles each time that it expires, and starts from RTO once something is acknowledged.
func TestTimerGrows(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.MostRTO = 6 * DefaultRTO })
	dead := true
	var sent fabric.Time // the latest packet
	w.fate = func(now fabric.Time, _ []byte, control bool) fate {
		if !control {
			sent = now
		}
		if dead && !control {
			return fate{}
		}
		return fate{copies: []fabric.Time{0}}
	}
	var waits []fabric.Time
	w.hosts[0].onTimeout = func(QP) {
		waits = append(waits, (w.now-sent)/DefaultRTO)
		dead = len(waits) < 5
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 30_000})
	w.run(never)
	w.fate = func(fabric.Time, []byte, bool) fate { return fate{} }
	w.hosts[0].onTimeout = func(QP) {
		waits = append(waits, (w.now-sent)/DefaultRTO)
		w.fate = func(fabric.Time, []byte, bool) fate { return fate{copies: []fabric.Time{0}} }
	}
	sent = w.now
	w.open(0, Message{QP: 2, ID: 2, Dst: 1, Bytes: 9000})
	w.run(never)
	if want := []fabric.Time{1, 2, 4, 6, 6, 1}; !slices.Equal(waits, want) {
		t.Errorf("timers of %v RTO, want %v", waits, want)
	}
	if w.hosts[1].delivered[1] != 30_000 || w.hosts[1].delivered[2] != 9000 {
		t.Errorf("delivered %v", w.hosts[1].delivered)
	}
}

// A queue pair that has much to send has its time-out too: at the latest two timers after the last answer.
func TestTimeoutWhileSending(t *testing.T) {
	w := newWorld(t, 2, nil)
	dead, first := true, never
	w.fate = func(now fabric.Time, _ []byte, control bool) fate {
		if dead && !control {
			first = min(first, now)
			return fate{}
		}
		return fate{copies: []fabric.Time{0}}
	}
	var fired fabric.Time
	w.hosts[0].onTimeout = func(QP) { fired, dead = w.now, false }
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 500_000_000}) // 10 ms at 400 Gb/s
	w.run(never)
	if at := fired - first; at < DefaultRTO || at > 2*DefaultRTO {
		t.Errorf("timer expired %v after the first packet, want %v to %v", at, DefaultRTO, 2*DefaultRTO)
	}
}

// The timer of a probe that is lost expires, and is no time-out of a message.
func TestProbeTimeout(t *testing.T) {
	w := newWorld(t, 2, nil)
	lost := true
	w.fate = func(fabric.Time, []byte, bool) fate {
		if lost {
			return fate{}
		}
		return fate{copies: []fabric.Time{0}}
	}
	expired := 0
	w.hosts[0].onTimeout = func(QP) { expired, lost = expired+1, false }
	w.open(0, Message{QP: 1, ID: 1, Dst: 1})
	w.run(never)
	if s := w.hosts[0].e.Stats(); expired != 1 || s.Timeouts != 0 || s.QPsDone != 1 {
		t.Errorf("%d timers expired: %+v", expired, s)
	}
}

// dyingPath is the fate of packets where label 1 dies after two of data.
func dyingPath() func(fabric.Time, []byte, bool) fate {
	sent := 0
	return func(_ fabric.Time, hdr []byte, control bool) fate {
		if !control {
			sent++
		}
		if !control && hdr[35]&3 == 1 && sent > 2 {
			return fate{}
		}
		return fate{copies: []fabric.Time{0}}
	}
}

// A QP whose last packets are lost finishes a round trip after it is moved, if
// it may nudge, and after the timer if it may not.
func TestNudge(t *testing.T) {
	for _, probes := range []bool{true, false} {
		w := newWorld(t, 2, func(c *Config) { c.ProbeOnFlip = probes })
		w.fate = dyingPath()
		w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 45_000, Label: 1})
		w.run(10 * fabric.Microsecond)
		moved := w.now
		if err := w.hosts[0].e.Relabel(1, 2); err != nil {
			t.Fatal(err)
		}
		w.run(10 * fabric.Millisecond)
		s := w.hosts[0].e.Stats()
		took := w.now - moved
		if w.hosts[1].delivered[1] != 45_000 {
			t.Fatal("not delivered")
		}
		if probes && (s.Nudges != 1 || s.Timeouts != 0 || took > 4*w.delay+2*fabric.Microsecond || s.Retransmissions != 3) {
			t.Errorf("nudged: took %v, %+v", took, s)
		}
		if !probes && (s.Nudges != 0 || s.Timeouts != 1 || took < 900*fabric.Microsecond) {
			t.Errorf("not nudged: took %v, %+v", took, s)
		}
	}
}

// A sender that is notified of the dead path needs no request for what it lost: it
// is repeated at once, by whichever receiver, and nothing else is.
func TestResend(t *testing.T) {
	for _, receiver := range []Receiver{GoBackN, SelectiveRepeat, Ideal} {
		w := newWorld(t, 2, func(c *Config) { c.Receiver = receiver })
		w.fate = dyingPath()
		w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 45_000, Label: 1})
		w.run(10 * fabric.Microsecond)
		moved, e := w.now, w.hosts[0].e
		if err := e.Resend(1); err != nil {
			t.Fatal(err)
		}
		if err := e.Relabel(1, 2); err != nil {
			t.Fatal(err)
		}
		w.run(10 * fabric.Millisecond)
		s, took := e.Stats(), w.now-moved
		if w.hosts[1].delivered[1] != 45_000 || took > 2*w.delay+2*fabric.Microsecond ||
			s.Retransmissions != 3 || s.Nudges != 0 || s.Timeouts != 0 || s.NaksTaken != 0 {
			t.Errorf("%v: took %v, %+v", receiver, took, s)
		}
		if err := e.Resend(1); !errors.Is(err, ErrUnknown) {
			t.Errorf("%v: of a queue pair that is done: %v", receiver, err)
		}
	}
}

// The last ACK is lost: the receiver acknowledges the repetition and does not
// deliver again, even if the slot's next QP has not come yet.
func TestLateDuplicate(t *testing.T) {
	w := newWorld(t, 2, nil)
	lost, old := false, []byte(nil)
	w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
		if control && !lost {
			lost = true
			return fate{}
		}
		if !control && old == nil {
			old = append([]byte(nil), hdr...)
		}
		return fate{copies: []fabric.Time{0}}
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 100})
	w.run(never)
	r := w.hosts[1]
	if s := r.e.Stats(); s.Duplicates != 1 || s.Delivered != 1 || w.hosts[0].done[1] != 1 {
		t.Fatalf("%+v", s)
	}
	// The same packet once more: acknowledged, which the sender takes no notice of.
	r.e.Receive(w.now, old, 104)
	w.run(never)
	if s := w.hosts[0].e.Stats(); s.StaleAcks != 1 {
		t.Fatalf("%+v", s)
	}
	// And after the slot's next QP: ignored.
	w.open(0, Message{QP: 2, ID: 2, Dst: 1, Bytes: 100})
	w.run(never)
	r.e.Receive(w.now, old, 104)
	if s := r.e.Stats(); s.StaleData != 1 || s.Delivered != 2 || s.ResponderQPs != 1 {
		t.Fatalf("%+v", s)
	}
}

// The NAK is lost on the way back down a dead path. After the QP has been moved
// its packets show the same gap, about which an RNIC has nothing more to say.
func TestNakLost(t *testing.T) {
	w := newWorld(t, 2, nil)
	sent := 0
	w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
		if !control {
			sent++
		}
		if hdr[35]&3 == 1 && (control || sent == 3) {
			return fate{}
		}
		return fate{copies: []fabric.Time{0}}
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 45_000, Label: 1})
	w.run(10 * fabric.Microsecond)
	moved := w.now
	if err := w.hosts[0].e.Relabel(1, 2); err != nil {
		t.Fatal(err)
	}
	w.run(never)
	if w.hosts[1].delivered[1] != 45_000 {
		t.Fatal("not delivered")
	}
	took, timeouts := w.now-moved, w.hosts[0].e.Stats().Timeouts
	if timeouts != 1 || took < 900*fabric.Microsecond {
		t.Errorf("took %v, %d time-outs", took, timeouts)
	}
}

// Gaps one after the other are each reported.
func TestTwoGaps(t *testing.T) {
	w := newWorld(t, 2, nil)
	data := 0
	w.fate = func(_ fabric.Time, _ []byte, control bool) fate {
		if !control {
			if data++; data == 10 || data == 500 {
				return fate{}
			}
		}
		return fate{copies: []fabric.Time{0}}
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1000 * 9000})
	w.run(never)
	if s := w.hosts[0].e.Stats(); s.NaksTaken != 2 || s.Timeouts != 0 {
		t.Errorf("%+v", s)
	}
}

// acknowledge hands host 0 an ACK of host 1 for a packet counted from 0.
func (w *world) acknowledge(q *qp, packet int32, syndrome frame.Syndrome) {
	r := w.hosts[1].e
	k := controlPacket{dst: 0, qpn: q.qpn, psn: q.firstPSN + uint32(packet), syndrome: syndrome}
	var buf [MaxHeader]byte
	f := r.buildAck(k, nil, buf[:])
	w.hosts[0].e.Receive(w.now, buf[:f.Len], f.Tail)
}

// send has host 0 send n packets into nothing, and returns the last one's
// number, counted from 0.
func (w *world) send(q *qp, n int) int32 {
	w.t.Helper()
	var buf [MaxHeader]byte
	for range n {
		if _, ok := w.hosts[0].e.Next(w.now, buf[:]); !ok {
			w.t.Fatalf("nothing to send at %v", w.now)
		}
		w.now += fabric.Microsecond
	}
	return psnDiff(frame.BTH(buf[w.hosts[0].e.stack.bth:]).PSN(), q.firstPSN)
}

// ACKs that come after the sender has gone back move it forward again.
func TestLateAcks(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 10 * 9000})
	q := w.hosts[0].e.qps[0]
	w.send(q, 6)
	w.now += DefaultRTO
	if at := w.send(q, 1); at != 0 || w.hosts[0].e.Stats().Timeouts != 1 {
		t.Fatalf("sent packet %d after the time-out, want 0", at)
	}
	w.acknowledge(q, 3, frame.ACK)
	if at := w.send(q, 1); at != 4 {
		t.Errorf("sent packet %d after the ACK of 3, want 4", at)
	}
	w.acknowledge(q, 2, frame.ACK)              // old
	w.acknowledge(q, 1, frame.NAKSequenceError) // old
	if at := w.send(q, 1); at != 5 {
		t.Errorf("sent packet %d after old news, want 5", at)
	}
	// Packet 6 has not been sent: its acknowledgement is wrong.
	w.acknowledge(q, 6, frame.ACK)
	w.acknowledge(q, 9, frame.ACK)
	w.acknowledge(q, 8, frame.NAKSequenceError)
	w.acknowledge(q, 5, frame.NAKInvalidRequest)
	if s := w.hosts[0].e.Stats(); s.Malformed != 4 || s.StaleAcks != 2 || s.BytesAcked != 4*9000 || w.hosts[0].done[1] != 0 {
		t.Errorf("%+v", s)
	}
	w.acknowledge(q, 5, frame.NAKSequenceError)
	if at := w.send(q, 2); at != 6 {
		t.Errorf("sent packets up to %d after the NAK of 5, want 6", at)
	}
}
