package nic

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Every message arrives exactly once and whole, whatever the network does.
func TestExactlyOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ipv6 := rapid.Bool().Draw(rt, "ipv6")
		mtu := rapid.SampledFrom([]int{256, 1000, 4096, 9000}).Draw(rt, "mtu")
		base := rapid.Uint32().Draw(rt, "first PSN")
		n := rapid.IntRange(2, 4).Draw(rt, "hosts")
		every := rapid.IntRange(1, 5).Draw(rt, "ack every")
		byAck := rapid.Bool().Draw(rt, "timer by ack")
		perPath := rapid.Bool().Draw(rt, "nak per path")
		receiver := Receiver(rapid.IntRange(0, int(Ideal)).Draw(rt, "receiver"))
		window := rapid.SampledFrom([]int{2, 3, 20, 300}).Draw(rt, "reorder window")
		balanced := rapid.Bool().Draw(rt, "balanced")
		w := newWorld(t, n, func(c *Config) {
			c.IPv6, c.FlowLabel = ipv6, ipv6
			c.MTU = mtu
			c.AckEvery, c.RTOByAck, c.NakPerPath = every, byAck, perPath
			c.Receiver, c.ReorderWindow = receiver, window
			c.Balancer = &turns{labels: 4}
			// Close to the wrap-around more often than not.
			c.InitialPSN = func(_, _ fabric.NodeID, qpn uint32) uint32 {
				return uint32(-int32(base%64)) + qpn
			}
		})
		seed := rapid.Uint64().Draw(rt, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		w.fate = lossy(rng,
			rapid.Float64Range(0, 0.3).Draw(rt, "drop"),
			rapid.Float64Range(0, 0.3).Draw(rt, "repeat"),
			rapid.Float64Range(0, 0.5).Draw(rt, "mark"),
			fabric.Time(rapid.Int64Range(0, int64(5*fabric.Microsecond)).Draw(rt, "jitter")))
		type flow struct {
			src   int
			bytes int64
			dst   int
		}
		flows := map[uint64]flow{}
		next := QP(1)
		open := func(src int) {
			dst := (src + 1 + rng.IntN(n-1)) % n
			bytes := 1 + rng.Int64N(40*int64(mtu))
			id := uint64(next)<<40 | rng.Uint64()>>40
			flows[id] = flow{src, bytes, dst}
			w.open(src, Message{
				QP: next, ID: id, Dst: fabric.NodeID(dst), Bytes: bytes,
				Label: fabric.Label(rng.IntN(4)), Start: w.now + fabric.Time(rng.IntN(50_000)),
				Balanced: balanced,
			})
			next++
		}
		for i, h := range w.hosts {
			// Slots are used again and again, from within the handler.
			h.onDone = func(QP) {
				if len(flows) < 40 {
					open(i)
				}
			}
			h.onTimeout = func(qp QP) {
				if rng.IntN(2) == 0 {
					if err := h.e.Relabel(qp, fabric.Label(rng.IntN(4))); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for i := range rapid.IntRange(1, 12).Draw(rt, "flows") {
			open(i % n)
		}
		for steps := 0; w.step(); steps++ {
			if steps > 5_000_000 {
				rt.Fatalf("still not finished at %v", w.now)
			}
			if steps%50 == 0 {
				h := w.hosts[rng.IntN(n)]
				_ = h.e.Relabel(QP(1+rng.IntN(int(next))), fabric.Label(rng.IntN(4))) // any, open or not
			}
		}
		for id, fl := range flows {
			if got := w.hosts[fl.dst].delivered[id]; got != fl.bytes {
				rt.Fatalf("message %x: %d of %d bytes delivered", id, got, fl.bytes)
			}
			qp := QP(id >> 40)
			src := w.hosts[fl.src]
			if src.done[qp] != 1 || src.acked[qp] != fl.bytes {
				rt.Fatalf("QP %d: done %d times, %d of %d bytes acknowledged", qp, src.done[qp], src.acked[qp], fl.bytes)
			}
		}
		for _, h := range w.hosts {
			s := h.e.Stats()
			if s.ActiveQPs != 0 || s.QPsOpened != s.QPsDone || s.Malformed != 0 || s.Foreign != 0 || s.BeyondWindow != 0 {
				rt.Fatalf("host %d: %+v", h.me, s)
			}
			if len(h.e.free) != len(h.e.qps) || h.e.byID.used != 0 {
				rt.Fatalf("host %d: %d of %d QPs free at the end, %d indexed", h.me, len(h.e.free), len(h.e.qps), h.e.byID.used)
			}
		}
	})
}

// A lossless network needs exactly the packets that the bytes need.
func TestLossless(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.open(0, Message{QP: 7, ID: 1 << 63, Dst: 1, Bytes: 100*9000 + 1, Label: 2})
	w.run(never)
	want := Stats{
		DataSent: 101, BytesAcked: 900_001, QPsOpened: 1, QPsDone: 1, QPsPeak: 1,
	}
	if diff := cmp.Diff(want, w.hosts[0].e.Stats()); diff != "" {
		t.Errorf("sender (-want +got):\n%s", diff)
	}
	want = Stats{ControlSent: 101, DataReceived: 101, BytesDelivered: 900_001, Delivered: 1, ResponderQPs: 1}
	if diff := cmp.Diff(want, w.hosts[1].e.Stats()); diff != "" {
		t.Errorf("receiver (-want +got):\n%s", diff)
	}
	// 100 full packets, the first 16 bytes longer, one of 1 byte; then the way
	// there and back.
	data := w.rate.TimeFor(100*(54+9000+4)+16) + w.rate.TimeFor(54+4+4)
	ack := w.rate.TimeFor(54 + 4 + 4)
	if want := data + 2*w.delay + ack; w.now != want {
		t.Errorf("finished at %v, want %v", w.now, want)
	}
}

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

// A QP whose last packets are lost finishes a round trip after it is moved, if
// it may nudge, and after the timer if it may not.
func TestNudge(t *testing.T) {
	for _, noNudge := range []bool{false, true} {
		w := newWorld(t, 2, func(c *Config) { c.NoNudge = noNudge })
		sent := 0
		w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
			if !control {
				sent++
			}
			if !control && hdr[35]&3 == 1 && sent > 2 { // label 1 dies after two packets
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
		w.run(10 * fabric.Millisecond)
		s := w.hosts[0].e.Stats()
		took := w.now - moved
		if w.hosts[1].delivered[1] != 45_000 {
			t.Fatal("not delivered")
		}
		if !noNudge && (s.Nudges != 1 || s.Timeouts != 0 || took > 4*w.delay+2*fabric.Microsecond || s.Retransmissions != 3) {
			t.Errorf("nudged: took %v, %+v", took, s)
		}
		if noNudge && (s.Nudges != 0 || s.Timeouts != 1 || took < 900*fabric.Microsecond) {
			t.Errorf("not nudged: took %v, %+v", took, s)
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

// QPs to different hosts take turns packet by packet, a message to the same host
// waits for the one before, and control packets come first.
func TestTurns(t *testing.T) {
	w := newWorld(t, 3, nil)
	var order []int
	w.tap = func(_ fabric.Time, src int, hdr []byte, f Frame) {
		if src == 0 && !f.Control {
			order = append(order, int(hdr[35]&3))
		}
	}
	for i := range 3 {
		w.open(0, Message{QP: QP(i), ID: uint64(i), Dst: fabric.NodeID(1 + i%2), Bytes: int64(3-i) * 9000, Label: fabric.Label(i)})
	}
	w.run(never)
	if diff := cmp.Diff([]int{0, 1, 0, 1, 0, 2}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	e := w.hosts[0].e
	w.open(0, Message{QP: 9, ID: 9, Dst: 1, Bytes: 1})
	e.queue.push(control{dst: 1})
	var buf [MaxHeader]byte
	if f, ok := e.Next(w.now, buf[:]); !ok || !f.Control {
		t.Errorf("%+v, want a control packet first", f)
	}
	if f, ok := e.Next(w.now, buf[:]); !ok || f.Control {
		t.Errorf("%+v, want data", f)
	}
	if _, ok := e.Next(w.now, buf[:]); ok {
		t.Error("a third packet")
	}
}

func TestStart(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1, Start: 50_000})
	var buf [MaxHeader]byte
	e := w.hosts[0].e
	if _, ok := e.Next(49_999, buf[:]); ok {
		t.Error("began early")
	}
	if at, ok := e.NextWake(); !ok || at != 50_000 {
		t.Errorf("wakes at %v, %v", at, ok)
	}
	if _, ok := e.Next(50_000, buf[:]); !ok {
		t.Error("did not begin")
	}
}

// A QP that is held sends nothing before its time, whether it is its turn or not.
func TestHold(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 100e3})
	e := w.hosts[0].e
	var buf [MaxHeader]byte
	if _, ok := e.Next(0, buf[:]); !ok {
		t.Fatal("nothing to send")
	}
	const until = 7 * fabric.Microsecond
	if err := e.Hold(1, until); err != nil {
		t.Fatal(err)
	}
	if err := e.Hold(1, until/2); err != nil { // says less
		t.Fatal(err)
	}
	if _, ok := e.Next(fabric.Microsecond, buf[:]); ok {
		t.Error("sent while it was held")
	}
	if at, ok := e.NextWake(); !ok || at != until {
		t.Errorf("to be asked again at %v, %v; want %v", at, ok, until)
	}
	if _, ok := e.Next(until, buf[:]); !ok {
		t.Error("nothing sent when the hold is over")
	}
	if err := e.Hold(2, until); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown QP: %v", err)
	}
}

// Pause stops data, not ACKs; timers run on.
func TestPause(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 100e3})
	e := w.hosts[0].e
	var buf [MaxHeader]byte
	e.Pause(true)
	if _, ok := e.Next(0, buf[:]); ok {
		t.Error("sent while paused")
	}
	if at, ok := e.NextWake(); ok {
		t.Errorf("to be asked again at %v", at)
	}
	e.Pause(false)
	if _, ok := e.Next(0, buf[:]); !ok {
		t.Error("nothing sent after the pause")
	}
}

func TestQuench(t *testing.T) {
	w := newWorld(t, 2, nil)
	var buf [MaxHeader]byte
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1})
	if _, ok := w.hosts[0].e.Next(0, buf[:]); !ok {
		t.Fatal("nothing to send")
	}
	q := append(append([]byte(nil), buf[:42]...), "this is twenty-four long"...)
	q[36], q[37] = 47910>>8, 47910&0xff
	w.hosts[1].e.Receive(0, q, 0)
	if diff := cmp.Diff([][]byte{[]byte("this is twenty-four long")}, w.hosts[1].quenches); diff != "" {
		t.Errorf("quenches (-want +got):\n%s", diff)
	}
	w.hosts[1].e.Receive(0, q[:60], 0)
	if s := w.hosts[1].e.Stats(); s.Malformed != 1 || s.Quenches != 1 {
		t.Errorf("%+v", s)
	}
	if qp, ok := w.hosts[0].e.ByNumber(1, reservedQPs); !ok || qp != 1 {
		t.Errorf("QP %d, %v", qp, ok)
	}
}

func TestAckLabel(t *testing.T) {
	asked := 0
	w := newWorld(t, 2, func(c *Config) {
		c.AckLabel = func(_ fabric.Time, peer fabric.NodeID, l fabric.Label, _ bool) fabric.Label {
			asked++
			return l ^ 1
		}
	})
	var acks []uint16
	w.tap = func(_ fabric.Time, src int, hdr []byte, f Frame) {
		if f.Control {
			acks = append(acks, uint16(hdr[34])<<8|uint16(hdr[35]))
		}
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1, Label: 2})
	w.run(never)
	w.open(0, Message{QP: 2, ID: 2, Dst: 1, Bytes: 1, Label: 0x2345})
	w.run(never)
	if diff := cmp.Diff([]uint16{0xc003, 0xe345}, acks); diff != "" || asked != 1 {
		t.Errorf("asked %d times; ports of ACKs (-want +got):\n%s", asked, diff)
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t, 2, nil)
	e := w.hosts[0].e
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1})
	for _, c := range []struct {
		m    Message
		want string
	}{
		{Message{QP: 2, Dst: 1, Bytes: -1}, "-1 bytes"},
		{Message{QP: 2, Dst: 1, Bytes: 1, Balanced: true}, "set Config.Balancer"},
		{Message{QP: 2, Dst: 1, Bytes: MaxMessage + 1}, "carries 0 to"},
		{Message{QP: 2, Dst: 0, Bytes: 1}, "host other than 0"},
		{Message{QP: 2, Dst: 99, Bytes: 1}, "to node 99"},
		{Message{QP: 1, Dst: 1, Bytes: 1}, "is open already"},
	} {
		if err := e.Open(0, c.m); !errors.Is(err, ErrMessage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.m, err, c.want)
		}
	}
	if err := e.Relabel(5, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("error %v", err)
	}
	f := w.f
	for _, c := range []struct {
		c    Config
		want string
	}{
		{Config{}, "no fabric"},
		{Config{Fabric: f, Host: 77}, "host is node 77"},
		{Config{Fabric: f, FlowLabel: true}, "need IPv6"},
		{Config{Fabric: f, MTU: 12}, "MTU is 12"},
		{Config{Fabric: f, RTO: -1}, "negative"},
		{Config{Fabric: f, MinRate: fabric.Tbps}, "least rate"},
		{Config{Fabric: f, Control: 9}, "control 9"},
		{Config{Fabric: f, Receiver: 9}, "receiver 9"},
		{Config{Fabric: f, ReorderWindow: 1}, "reorder window is 1"},
	} {
		if _, err := New(c.c, w.hosts[0]); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// The NAK is lost on the way back down a dead path. After the QP has been moved
// its packets show the same gap, about which an RNIC has nothing more to say.
func TestNakLost(t *testing.T) {
	for _, perPath := range []bool{false, true} {
		w := newWorld(t, 2, func(c *Config) { c.NakPerPath = perPath })
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
		if perPath && (timeouts != 0 || took > 10*fabric.Microsecond) || !perPath && (timeouts != 1 || took < 900*fabric.Microsecond) {
			t.Errorf("NAK per path %v: took %v, %d time-outs", perPath, took, timeouts)
		}
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
func (w *world) acknowledge(q *qp, packet int32, syndrome rocev2.Syndrome) {
	r := w.hosts[1].e
	r.queue.push(control{dst: 0, qpn: q.qpn, psn: q.firstPSN + uint32(packet), syndrome: syndrome})
	var buf [MaxHeader]byte
	f := r.buildAck(buf[:])
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
	return psnDiff(rocev2.BTH(buf[w.hosts[0].e.stack.bth:]).PSN(), q.firstPSN)
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
	w.acknowledge(q, 3, rocev2.ACK)
	if at := w.send(q, 1); at != 4 {
		t.Errorf("sent packet %d after the ACK of 3, want 4", at)
	}
	w.acknowledge(q, 2, rocev2.ACK)              // old
	w.acknowledge(q, 1, rocev2.NAKSequenceError) // old
	if at := w.send(q, 1); at != 5 {
		t.Errorf("sent packet %d after old news, want 5", at)
	}
	// Packet 6 has not been sent: whoever acknowledges it is wrong.
	w.acknowledge(q, 6, rocev2.ACK)
	w.acknowledge(q, 9, rocev2.ACK)
	w.acknowledge(q, 8, rocev2.NAKSequenceError)
	w.acknowledge(q, 5, rocev2.NAKInvalidRequest)
	if s := w.hosts[0].e.Stats(); s.Malformed != 4 || s.StaleAcks != 2 || s.BytesAcked != 4*9000 || w.hosts[0].done[1] != 0 {
		t.Errorf("%+v", s)
	}
	w.acknowledge(q, 5, rocev2.NAKSequenceError)
	if at := w.send(q, 2); at != 6 {
		t.Errorf("sent packets up to %d after the NAK of 5, want 6", at)
	}
}
