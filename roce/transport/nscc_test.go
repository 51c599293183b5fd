package transport

import (
	"math/rand/v2"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// A packet that a switch has cut is retransmitted: alone where receivers keep packets, with
// all behind it where they do not, and long before the timer.
func TestCutPackets(t *testing.T) {
	for _, r := range []Receiver{GoBackN, SelectiveRepeat, Ideal} {
		for _, control := range []Control{DCTCP, NoControl, NSCC, Swift, RCCC} {
			if control == RCCC && r == GoBackN {
				continue // it is refused
			}
			w := newWorld(t, 2, func(c *Config) { c.Receiver, c.Control, c.MTU = r, control, 1000 })
			sent, cut := 0, 0
			w.fate = func(_ fabric.Time, _ []byte, answer bool) fate {
				f := fate{copies: []fabric.Time{0}}
				if !answer {
					sent++
					if f.cut = sent == 1 || sent == 20 || sent == 21; f.cut {
						cut++
					}
				}
				return f
			}
			w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 100_000})
			w.run(never)
			s, d := w.hosts[0].e.Stats(), w.hosts[1].e.Stats()
			if w.hosts[1].delivered[1] != 100_000 || s.Timeouts != 0 || d.Trimmed != uint64(cut) || d.Malformed+s.Malformed != 0 {
				t.Errorf("%v, %v: sender %+v\nreceiver %+v", r, control, s, d)
			}
			if r != GoBackN && (s.Retransmissions != 3 || s.NaksTaken != 3) {
				t.Errorf("%v, %v: %d NAKs, %d packets sent again; want 3 of each", r, control, s.NaksTaken, s.Retransmissions)
			}
			if w.now > DefaultRTO {
				t.Errorf("%v, %v: over at %v", r, control, w.now)
			}
		}
	}
}

// Whatever is lost, cut, marked, repeated and late, grants too, all arrives once, and what is
// on the way stays within the window.
func TestWindowsDeliver(t *testing.T) {
	for seed := range uint64(60) {
		control := []Control{NSCC, Swift, RCCC}[seed%3]
		rng := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t, 2, func(c *Config) { c.Receiver, c.Control, c.MTU = Ideal, control, 1000 })
		e := w.hosts[0].e
		random := lossy(rng, 0.02, 0.01, 0.3, 20*fabric.Microsecond)
		w.fate = func(now fabric.Time, hdr []byte, answer bool) fate {
			f := random(now, hdr, answer)
			f.cut = rng.Float64() < 0.1
			for _, q := range e.qps {
				if cc, ok := e.control.pacer.(*nscc); ok && q.live {
					if n := cc.qps.at(q); n.window < int64(e.fullPacketBytes) || n.window > n.most || int64(q.cwnd) != n.window/int64(e.fullPacketBytes) {
						t.Fatalf("seed %d: window of %d bytes, %d packets; the most is %d", seed, n.window, q.cwnd, n.most)
					}
				}
			}
			return f
		}
		for i := range 5 {
			w.open(0, Message{QP: QP(i), ID: uint64(i), Dst: 1, Bytes: 300_000})
		}
		w.run(never)
		for i := range 5 {
			if w.hosts[1].delivered[uint64(i)] != 300_000 || w.hosts[0].done[QP(i)] != 1 {
				t.Errorf("seed %d: message %d: %d bytes, done %d times", seed, i, w.hosts[1].delivered[uint64(i)], w.hosts[0].done[QP(i)])
			}
		}
	}
}

// The four cases of the specification: marked or not, more or less than the target's delay.
func TestNSCCQuadrants(t *testing.T) {
	for _, c := range []struct {
		name   string
		marked bool
		delay  fabric.Time // of the target, in percent
		sign   int
	}{
		{"no mark, short: proportional increase", false, 50, 1},
		{"no mark, long: fair increase", false, 150, 1},
		{"mark, short: the path is left, no more", true, 50, 0},
		{"mark, long: multiplicative decrease", true, 150, -1},
	} {
		w := newWorld(t, 2, func(c *Config) { c.Receiver, c.Control = Ideal, NSCC })
		w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1 << 30})
		e := w.hosts[0].e
		q, cc := e.qps[0], e.control.pacer.(*nscc)
		n := cc.qps.at(q)
		n.window, n.delay = n.most/2, cc.target*c.delay/100
		window, now := n.window, fabric.Millisecond
		for range 20 { // within a round trip
			now += cc.trip / 30
			cc.adjust(now, n, c.marked, cc.target*c.delay/100, int64(e.fullPacketBytes))
		}
		n.window += n.gain / n.window
		if got := sign(n.window - window); got != c.sign {
			t.Errorf("%s: the window went from %d to %d", c.name, window, n.window)
		}
		if c.sign < 0 { // by 0.8 of what is too much, once: 0.8 * 0.5 / 1.5
			if want := window - window*4/15; n.window < want-2 || n.window > want+2 {
				t.Errorf("%s: %d, want %d", c.name, n.window, want)
			}
		}
	}
}

func sign(n int64) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

// After a flood of cut packets the window is what has arrived.
func TestNSCCQuickAdapt(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Receiver, c.Control = Ideal, NSCC })
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1 << 30})
	e := w.hosts[0].e
	q, cc := e.qps[0], e.control.pacer.(*nscc)
	n := cc.qps.at(q)
	packets := q.cwnd
	cc.quickAdapt(fabric.Microsecond, q, n, false, false, 0) // a period begins
	for i := range packets - 1 {
		cc.cut(2*fabric.Microsecond, q, i)
	}
	if n.window >= 2*int64(e.fullPacketBytes) {
		t.Errorf("%d bytes when all but one packet was cut", n.window)
	}
	n.window, n.achieved = n.most, 3*int64(e.fullPacketBytes)
	cc.cut(n.periodEnd+1, q, packets)
	if n.window != 3*int64(e.fullPacketBytes) || q.cwnd != 3 {
		t.Errorf("%d bytes, %d packets when three arrived in a period with cuts", n.window, q.cwnd)
	}
}

// An answer to a packet that was sent again tells the round trip of the last copy, unless it comes too early to be of
// that one.
func TestRetransmittedTrip(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Receiver, c.Control = SelectiveRepeat, Swift })
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1 << 20})
	e := w.hosts[0].e
	q, c := e.qps[0], e.control.pacer.(*swift)
	for after, want := range map[fabric.Time]bool{c.trip - 1: false, c.trip: true, 9 * c.trip: true} {
		q.state.sentPackets.put(0, 0, 0, 0)
		q.state.sentPackets.put(0, fabric.Millisecond, 0, 0)
		if trip, again, ok := c.measure(fabric.Millisecond+after, q, ackOf(q, 0), 1); ok != want || ok && (trip != after || !again) {
			t.Errorf("answered %v after the last copy: %v, %v; want %v", after, trip, ok, want)
		}
	}
}

// Times are found once, by packets sent once, and the ring has room for those on the way.
func TestSendTimes(t *testing.T) {
	var s sentPackets
	for i := range int32(100) {
		s.put(i, fabric.Time(i), 0, 0)
	}
	s.put(7, 1000, 3, 0)
	for i := range int32(100) {
		sent, ok := s.take(i)
		want := sentPacket{i + 1, 0, fabric.Time(i), false}
		if i == 7 { // sent twice
			want = sentPacket{i + 1, 3, 1000, true}
		}
		if !ok || sent != want {
			t.Errorf("packet %d: %v, %v", i, sent, ok)
		}
		if _, ok := s.take(i); ok {
			t.Errorf("packet %d is there twice", i)
		}
	}
	for i := range int32(1 << 20) { // answers that never came make no ring without end
		s.put(i, fabric.Time(i), 0, max(0, i-10))
	}
	if len(s) > 128 {
		t.Errorf("a ring of %d", len(s))
	}
}

// A receiver grants what is missing and no more, no faster than its link takes it in, and
// the same to each of its senders.
func TestRCCCGrants(t *testing.T) {
	const senders, bytes = 4, 3_000_000
	w := newWorld(t, senders+1, func(c *Config) { c.Receiver, c.Control, c.MTU = Ideal, RCCC, 1000 })
	var begun, last fabric.Time
	granted := map[int]int{}
	w.tap = func(now fabric.Time, src int, hdr []byte, f Frame) {
		if b := frame.BTH(hdr[w.hosts[0].e.stack.bth:]); src == 0 && b.Opcode() == frame.CNP {
			if last = now; begun == 0 {
				begun = now
			}
			granted[w.destination(hdr)]++
		}
	}
	for i := 1; i <= senders; i++ {
		w.open(i, Message{QP: 1, ID: uint64(i), Dst: 0, Bytes: bytes})
	}
	w.run(never)
	e := w.hosts[0].e
	first := int(e.control.pacer.(*rccc).firstCredit())
	total := 0
	for host, n := range granted {
		if packets := n * rcccGrant; packets < bytes/1000-first || packets > bytes/1000-first+2*rcccGrant {
			t.Errorf("host %d: %d packets were granted; %d need it", host, packets, bytes/1000-first)
		}
		total += n * rcccGrant
	}
	if len(granted) != senders {
		t.Fatalf("grants for %d hosts", len(granted))
	}
	if took, least := last-begun, fabric.Time(total-rcccGrant)*e.fullPacketTime; took < least || took > least*11/10 {
		t.Errorf("%d packets were granted within %v, which the link takes in in %v", total, took, least)
	}
}
