package transport

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"pgregory.net/rapid"
)

func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w bitWindow
		in := map[int32]bool{}
		low := int32(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := low + rapid.Int32Range(-5, 400).Draw(t, "at")
			if i >= 0 {
				w.add(i)
				in[i] = true
			}
			if rapid.Bool().Draw(t, "close the gap") {
				w.add(low)
				in[low] = true
			}
			for in[low] {
				low++
			}
			if got := w.next(rapid.Int32Range(0, low).Draw(t, "from")); got != low {
				t.Fatalf("first not in is %d, want %d", got, low)
			}
			w.forget(low)
			for j := max(0, low-70); j < low+500; j++ {
				if w.has(j) != in[j] {
					t.Fatalf("has(%d) = %v", j, !in[j])
				}
			}
			j := low + rapid.Int32Range(0, 500).Draw(t, "next from")
			want := j
			for in[want] {
				want++
			}
			if got := w.next(j); got != want {
				t.Fatalf("next(%d) = %d, want %d", j, got, want)
			}
		}
	})
}

// spray gives packets with label 1 a way that is longer by some packets.
func spray(w *world, packets int64) {
	w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
		if !control && hdr[35]&3 == 1 {
			return fate{copies: []fabric.Time{w.rate.TimeFor(packets * 9074)}}
		}
		return fate{copies: []fabric.Time{0}}
	}
}

// Paths of unequal length: receivers that take packets in any order need each
// once, and the message is as fast as its slowest path; go-back-N does not get
// far. Packets later than the loss threshold are retransmitted for nothing, but
// for an ideal receiver.
func TestSprayed(t *testing.T) {
	for _, c := range []struct {
		receiver Receiver
		late     int64
		clean    bool
	}{{Ideal, 50, true}, {Ideal, 1000, true}, {SelectiveRepeat, 50, true}, {SelectiveRepeat, 160, false}, {GoBackN, 50, false}} {
		w := newWorld(t, 2, func(nc *Config) {
			nc.Receiver, nc.Balancer = c.receiver, &turns{labels: 3}
		})
		spray(w, c.late)
		w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1000 * 9000, Balanced: true})
		w.run(never)
		s, r := w.hosts[0].e.Stats(), w.hosts[1].e.Stats()
		if clean := s.Retransmissions == 0; clean != c.clean || s.Timeouts != 0 || w.hosts[1].delivered[1] != 9e6 || r.BeyondWindow != 0 {
			t.Errorf("%v, %d packets late: %+v\n%+v", c.receiver, c.late, s, r)
		}
		ideal := w.rate.TimeFor(1000*9058+16+58+4) + w.rate.TimeFor(c.late*9074) + 2*w.delay
		if c.clean && (w.now > ideal || r.OutOfOrder == 0) {
			t.Errorf("%v, %d packets late: finished at %v, want %v; %d out of order", c.receiver, c.late, w.now, ideal, r.OutOfOrder)
		}
	}
}

// A receiver that acknowledges what asks for it says little of a message whose
// packets come out of turn, but says when all have come; and what is lost is
// found by the timer.
func TestAckWhenAsked(t *testing.T) {
	for _, lost := range []int{0, 10} {
		for _, asked := range []bool{false, true} {
			w := newWorld(t, 2, func(nc *Config) {
				nc.Receiver, nc.Balancer, nc.AckEvery, nc.AckWhenAsked = Ideal, &turns{labels: 3}, 5000, asked
			})
			spray(w, 50)
			late, data := w.fate, 0
			w.fate = func(now fabric.Time, hdr []byte, control bool) fate {
				if !control {
					if data++; data == lost {
						return fate{}
					}
				}
				return late(now, hdr, control)
			}
			w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1000 * 9000, Balanced: true})
			w.run(never)
			s, r := w.hosts[0].e.Stats(), w.hosts[1].e.Stats()
			if w.hosts[1].delivered[1] != 9e6 || s.BytesAcked != 9e6 || r.OutOfOrder == 0 {
				t.Errorf("asked %v, packet %d lost: %+v\n%+v", asked, lost, s, r)
			}
			if few := r.ControlSent <= 3+s.Retransmissions; few != asked {
				t.Errorf("asked %v, packet %d lost: %d ACKs for %d packets", asked, lost, r.ControlSent, s.DataSent)
			}
			if (s.Timeouts > 0) != (lost > 0) {
				t.Errorf("asked %v, packet %d lost: %d time-outs", asked, lost, s.Timeouts)
			}
		}
	}
}

// An ACK for more packets than the window has does not keep a sender waiting for
// its timer.
func TestAckEveryBeyondWindow(t *testing.T) {
	for _, every := range []int{10, 20, 21, 5000} {
		w := newWorld(t, 2, func(c *Config) { c.Receiver, c.ReorderWindow, c.AckEvery = SelectiveRepeat, 20, every })
		w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 100 * 9000})
		w.run(never)
		if s := w.hosts[0].e.Stats(); s.Timeouts != 0 || s.Retransmissions != 0 || w.hosts[1].delivered[1] != 100*9000 {
			t.Errorf("an ACK for %d packets: %+v", every, s)
		}
	}
}

// A QP has at most the reorder window on the way.
func TestReorderWindow(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Receiver, c.ReorderWindow = SelectiveRepeat, 20 })
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 100 * 9000})
	q := w.hosts[0].e.qps[0]
	if last := w.send(q, 20); last != 19 {
		t.Fatalf("sent packet %d as the 20th", last)
	}
	var buf [MaxHeader]byte
	if _, ok := w.hosts[0].e.Next(w.now, buf[:]); ok {
		t.Fatal("sent beyond the window")
	}
	w.selective(q, 7, 4)
	// Of the packets below 7, those from 5 on are missing.
	for _, want := range []int32{5, 6, 20, 21, 22, 23, 24} {
		if got := w.send(q, 1); got != want {
			t.Fatalf("sent packet %d, want %d", got, want)
		}
	}
	if _, ok := w.hosts[0].e.Next(w.now, buf[:]); ok {
		t.Fatal("sent beyond the window")
	}
	// Packets sent before the timer was started, by the ACK above, and not
	// acknowledged are repeated when it expires.
	w.now += DefaultRTO
	for _, want := range []int32{5, 6, 8, 9} {
		if got := w.send(q, 1); got != want {
			t.Fatalf("sent packet %d after the time-out, want %d", got, want)
		}
	}
	w.selective(q, 24, 8)
	for _, want := range []int32{10, 11} {
		if got := w.send(q, 1); got != want {
			t.Fatalf("sent packet %d, want %d", got, want)
		}
	}
	// What makes no sense.
	w.selective(q, 99, 8)
	w.selective(q, 9, 99)
	w.acknowledge(q, 9, frame.NAKSequenceError)
	if s := w.hosts[0].e.Stats(); s.Malformed != 3 || s.Timeouts != 1 || s.BytesAcked != 10*9000 {
		t.Errorf("%+v", s)
	}
	// A responder whose window is smaller than the sender's.
	r := w.hosts[1].e
	w.send(q, 1)
	n := copy(buf[:], q.hdr[:r.stack.len])
	b := frame.BTH(buf[r.stack.bth:n])
	b[0] = byte(frame.WriteMiddle)
	b.SetPSN(q.firstPSN + 20)
	r.Receive(w.now, buf[:n], 9004)
	if s := r.Stats(); s.BeyondWindow != 1 || s.BytesDelivered != 0 {
		t.Errorf("%+v", s)
	}
}

// selective hands host 0 an ACK of one packet and all up to another.
func (w *world) selective(q *qp, own, upTo int32) {
	r := w.hosts[1].e
	k := controlPacket{
		dst: 0, qpn: q.qpn, psn: q.firstPSN + uint32(upTo), msn: (q.firstPSN + uint32(own)) & psnMask, syndrome: frame.ACK,
	}
	var buf [MaxHeader]byte
	f := r.buildAck(k, nil, buf[:])
	w.hosts[0].e.Receive(w.now, buf[:f.Len], f.Tail)
}

// A lost packet costs one packet, a round trip after it is missed; a lost last
// packet costs the timer.
func TestSelectiveRepeat(t *testing.T) {
	for _, lost := range []int{10, 200} {
		w := newWorld(t, 2, func(c *Config) { c.Receiver = SelectiveRepeat })
		data := 0
		w.fate = func(_ fabric.Time, _ []byte, control bool) fate {
			if !control {
				if data++; data == lost {
					return fate{}
				}
			}
			return fate{copies: []fabric.Time{0}}
		}
		w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 200 * 9000})
		w.run(never)
		s := w.hosts[0].e.Stats()
		timeouts := uint64(lost / 200)
		if s.Retransmissions != 1 || s.Timeouts != timeouts || s.DataSent != 201 || w.hosts[1].delivered[1] != 1_800_000 {
			t.Errorf("packet %d lost: %+v", lost, s)
		}
		if limit := 50*fabric.Microsecond + fabric.Time(timeouts)*fabric.Millisecond; w.now > limit {
			t.Errorf("packet %d lost: finished at %v", lost, w.now)
		}
	}
}

// An ACK of a duplicate says nothing new, so a mark stays for one that does.
func TestMarkKept(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Receiver = Ideal })
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 3 * 9000})
	var packets [][]byte
	var buf [MaxHeader]byte
	for range 3 {
		f, ok := w.hosts[0].e.Next(w.now, buf[:])
		if !ok {
			t.Fatal("nothing to send")
		}
		packets = append(packets, append([]byte(nil), buf[:f.Len]...))
		w.now += fabric.Microsecond
	}
	r := w.hosts[1].e
	receive := func(i int, marked bool) {
		hdr := append([]byte(nil), packets[i]...)
		if marked {
			setCE(hdr)
		}
		r.Receive(w.now, hdr, 9004)
		f, ok := r.Next(w.now, buf[:])
		if !ok {
			t.Fatalf("no ACK of packet %d", i)
		}
		w.hosts[0].e.Receive(w.now, buf[:f.Len], f.Tail)
	}
	receive(0, false)
	receive(0, true)
	if n := w.hosts[0].e.Stats().Marked; n != 0 {
		t.Fatalf("%d marks taken of a stale ACK", n)
	}
	receive(2, false)
	receive(1, false)
	if s := w.hosts[0].e.Stats(); s.Marked != 1 || s.QPsDone != 1 || s.StaleAcks != 1 {
		t.Errorf("%+v", s)
	}
}
