package transport

import (
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// feed acknowledges a QP's packets one by one, those of a round trip marked as
// the function says, and returns its rate in Gb/s after each round trip.
func feed(t *testing.T, c Config, rounds, packets int, marked func(round, i int) bool) []int64 {
	t.Helper()
	w := newWorld(t, 2, nil)
	c.Fabric = w.f
	e, err := New(c, w.hosts[0])
	if err != nil {
		t.Fatal(err)
	}
	q := &qp{rate: rateState{e.cfg.LineRate, e.fullPacketTime}}
	e.control.pacer.open(q)
	q.sndNxt = int32(packets)
	var rates []int64
	for r := range rounds {
		for i := range packets {
			q.sndUna++
			q.sndNxt = q.sndUna + int32(packets) - 1 // a round trip is this many packets
			e.control.pacer.acked(0, q, &packet{becn: marked(r, i)}, 1, q.sndUna, false)
		}
		rates = append(rates, int64(q.rate.now/fabric.Gbps))
	}
	if want := q.rate.now.TimeFor(int64(e.fullPacketBytes)); q.rate.gap != want {
		t.Errorf("gap is %v, want %v", q.rate.gap, want)
	}
	return rates
}

func TestDCTCP(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		marked func(round, i int) bool
		want   []int64
	}{
		{"no mark", Config{}, func(int, int) bool { return false }, []int64{400, 400, 400, 400}},
		// The first mark finds alpha at 1 and halves; then 1 Gb/s a round trip.
		{"first mark", Config{}, func(r, i int) bool { return r == 0 && i == 5 }, []int64{200, 200, 201, 202, 203}},
		{"all marked", Config{MinRate: 30 * fabric.Gbps}, func(int, int) bool { return true }, []int64{200, 100, 50, 30, 30}},
		{"no control", Config{Control: NoControl}, func(int, int) bool { return true }, []int64{400, 400}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := feed(t, c.config, len(c.want), 100, c.marked)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Gb/s after each round trip (-want +got):\n%s", diff)
			}
		})
	}
}

// A sender that has sent all of its message goes back, and then the ACKs of the
// first time arrive after all: one cut if they are marked, no step up if not. The
// marks of what it sends again cut once more.
func TestRateAfterGoingBack(t *testing.T) {
	for _, marked := range []bool{false, true} {
		e, err := New(Config{Fabric: newWorld(t, 2, nil).f}, newWorld(t, 2, nil).hosts[0])
		if err != nil {
			t.Fatal(err)
		}
		q := &qp{rate: rateState{e.cfg.LineRate, e.fullPacketTime}, sndNxt: 100, sent: 100, dataPackets: 100}
		e.control.pacer.open(q)
		q.sndUna = 10
		e.control.pacer.acked(0, q, &packet{}, 10, q.sndUna, false)
		e.setRate(q, 100*fabric.Gbps)
		e.transport.lost(q)
		ack := func(n int32, late bool) {
			for range n {
				q.sndUna++
				q.sndNxt = max(q.sndNxt, q.sndUna)
				e.control.pacer.acked(0, q, &packet{becn: marked}, 1, q.sndUna, late)
			}
		}
		ack(60, true)
		want := 100 * fabric.Gbps
		if marked {
			want /= 2
		}
		if q.rate.now != want {
			t.Errorf("marked %v: %v after late ACKs, want %v", marked, q.rate.now, want)
		}
		e.transport.lost(q)
		q.sndNxt = 100
		ack(30, false)
		if marked && q.rate.now >= want {
			t.Errorf("marks of what was sent again leave the rate at %v", q.rate.now)
		}
	}
}

// On a slow line the steps are hundredths of its rate: a cut lasts.
func TestSlowLine(t *testing.T) {
	e, err := New(Config{Fabric: newWorld(t, 2, nil).f, LineRate: 30 * fabric.Mbps}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if adds, want := e.control.pacer.(*dctcp).additive, 300*fabric.Kbps; adds != want || e.cfg.MinRate != want {
		t.Errorf("adds %v a round trip, sends at %v at least; want %v for both", adds, e.cfg.MinRate, want)
	}
}

// If every other round trip has a fifth of its packets marked, alpha settles at
// 0.1. Half of the round trips take 0.05 of the rate, half add 1 Gb/s: so the
// rate settles at 20 Gb/s. If every round trip has a mark, nothing is ever added.
func TestDCTCPSettles(t *testing.T) {
	rates := feed(t, Config{}, 4000, 100, func(r, i int) bool { return r%2 == 0 && i >= 1 && i <= 20 })
	if last := rates[3000:]; slices.Min(last) < 18 || slices.Max(last) > 22 {
		t.Errorf("%d to %d Gb/s, want about 20", slices.Min(last), slices.Max(last))
	}
	rates = feed(t, Config{}, 2000, 100, func(_, i int) bool { return i == 99 })
	if last := rates[len(rates)-1]; last != 0 {
		t.Errorf("%d Gb/s, want the least rate", last)
	}
}

// Congestion echo end to end: a switch that marks every packet slows the sender
// down to its least rate, and packets leave at that pace.
func TestPacing(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.MinRate = 10 * fabric.Gbps })
	w.fate = func(fabric.Time, []byte, bool) fate { return fate{copies: []fabric.Time{0}, mark: true} }
	var times []fabric.Time
	w.tap = func(now fabric.Time, src int, _ []byte, f Frame) {
		if src == 0 {
			times = append(times, now)
		}
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 2000 * 9000})
	w.run(never)
	last := times[len(times)-1] - times[len(times)-2]
	if want := (10 * fabric.Gbps).TimeFor(54 + 9000 + 4); last != want {
		t.Errorf("packets leave every %v, want %v", last, want)
	}
	s := w.hosts[0].e.Stats()
	if s.Marked != 2000 || s.RateCuts < 5 || s.Timeouts != 0 {
		t.Errorf("%+v", s)
	}
}

func TestIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x hashIndex
		want := map[uint64]int32{}
		for i := range rapid.IntRange(0, 300).Draw(t, "steps") {
			key := rapid.Uint64Range(0, 40).Draw(t, "key") * rapid.SampledFrom([]uint64{1, 1 << 16, 1 << 60}).Draw(t, "scale")
			if v, ok := want[key]; ok {
				if got := x.get(key); got != v {
					t.Fatalf("%d: %d, want %d", key, got, v)
				}
				x.remove(key)
				delete(want, key)
			} else {
				x.remove(key) // nothing to remove
				x.put(key, int32(i))
				want[key] = int32(i)
			}
			if x.used != len(want) {
				t.Fatalf("%d used, want %d", x.used, len(want))
			}
		}
		for key, v := range want {
			if got := x.get(key); got != v {
				t.Fatalf("%d: %d, want %d", key, got, v)
			}
		}
	})
}

func TestTimers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h timerHeap
		var want []fabric.Time
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			at := fabric.Time(rapid.Int64Range(0, 50).Draw(t, "at"))
			switch {
			case len(want) > 0 && at%3 == 0:
				if h[0].at != want[0] || h.pop() == nil {
					t.Fatalf("first is at %v, want %v", h[0].at, want[0])
				}
				want = want[1:]
			case len(want) > 0 && at%3 == 1:
				h.postpone(want[0] + at)
				want[0] += at
			default:
				h.push(at, &qp{})
				want = append(want, at)
			}
			slices.Sort(want)
			if len(want) != len(h) || len(h) > 0 && h[0].at != want[0] {
				t.Fatalf("heap %v, want %v", h, want)
			}
		}
	})
}

func TestPSN(t *testing.T) {
	for _, c := range []struct {
		a, b uint32
		want int32
	}{{5, 3, 2}, {3, 5, -2}, {0, psnMask, 1}, {psnMask, 0, -1}, {1 << 23, 0, -1 << 23}, {1<<23 - 1, 0, 1<<23 - 1}} {
		if got := psnDiff(c.a, c.b); got != c.want {
			t.Errorf("psnDiff(%#x, %#x) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestDCTCPSendsAgain: while a QP whose receiver keeps packets sends many again, its round trips end, and its rate
// grows.
func TestDCTCPSendsAgain(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) {
		c.Receiver = SelectiveRepeat
		if c.Host == 0 {
			c.Watcher = &watched{}
		}
	})
	w.fate = func(now fabric.Time, _ []byte, control bool) fate {
		if !control && now < 20*fabric.Microsecond {
			return fate{} // all that is sent
		}
		return fate{copies: []fabric.Time{0}}
	}
	const size = 100 * 9000
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: size, Label: 1})
	w.run(20 * fabric.Microsecond)
	e := w.hosts[0].e
	q := e.qps[0]
	e.setRate(q, 5*fabric.Gbps)
	if err := e.Resend(1); err != nil {
		t.Fatal(err)
	}
	w.run(500 * fabric.Microsecond)
	if w.hosts[0].acked[1] == size || q.rate.now < 10*fabric.Gbps {
		t.Errorf("after %d of %d bytes the rate is %v; want at least 10 Gb/s", w.hosts[0].acked[1], size, q.rate.now)
	}
}

// A rate that rises shortens the pause that the rate of before asked for, but not a hold.
func TestPauseShortens(t *testing.T) {
	for _, c := range []struct{ held, want fabric.Time }{
		{0, fabric.Microsecond}, {20 * fabric.Microsecond, 20 * fabric.Microsecond},
	} {
		w := newWorld(t, 2, nil)
		w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 100e3})
		e := w.hosts[0].e
		q := e.qps[0]
		e.setRate(q, fabric.Gbps)
		var buf [MaxHeader]byte
		if _, ok := e.Next(0, buf[:]); !ok {
			t.Fatal("nothing to send")
		}
		if c.held > 0 {
			if err := e.Hold(1, c.held); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := e.Next(0, buf[:]); ok {
			t.Fatal("sent without a pause")
		}
		if at, _ := e.NextWake(); at < 70*fabric.Microsecond {
			t.Fatalf("a pause until %v at 1 Gb/s", at)
		}
		e.setRate(q, e.cfg.LineRate)
		e.shortenPause(fabric.Microsecond, q)
		want := max(c.want, fabric.Microsecond+e.fullPacketTime)
		if at, ok := e.NextWake(); !ok || at != want {
			t.Errorf("held until %v: sends at %v, %v; want %v", c.held, at, ok, want)
		}
		if _, ok := e.Next(want, buf[:]); !ok {
			t.Errorf("held until %v: sends nothing at %v", c.held, want)
		}
	}
}

// Timers that are brought forward leave the heap in order, each once.
func TestBringForward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(0, 100), 1, 50).Draw(t, "times")
		qps := make([]qp, len(times))
		var h timerHeap
		for i := range qps {
			qps[i].sendAt = fabric.Time(times[i])
			h.push(qps[i].sendAt, &qps[i])
		}
		for _, i := range rapid.SliceOf(rapid.IntRange(0, len(qps)-1)).Draw(t, "forward") {
			q := &qps[i]
			q.sendAt = fabric.Time(rapid.Int64Range(0, int64(q.sendAt)).Draw(t, "to"))
			h.bringForward(q, q.sendAt)
		}
		last := fabric.Time(0)
		for range qps {
			at := h[0].at
			q := h.pop()
			if at != q.sendAt || at < last {
				t.Fatalf("a timer of %v at %v after %v", q.sendAt, at, last)
			}
			last, q.sendAt = at, -1
		}
	})
}
