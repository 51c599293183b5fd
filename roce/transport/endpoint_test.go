package transport

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
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
		receiver := rapid.SampledFrom([]Receiver{GoBackN, SelectiveRepeat, Ideal}).Draw(rt, "receiver")
		window := rapid.SampledFrom([]int{2, 3, 20, 300}).Draw(rt, "reorder window")
		balanced := rapid.Bool().Draw(rt, "balanced")
		w := newWorld(t, n, func(c *Config) {
			c.IPv6, c.FlowLabel = ipv6, ipv6
			c.MTU = mtu
			c.AckEvery = every
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
					if rng.IntN(2) == 0 {
						if err := h.e.Resend(qp); err != nil {
							t.Fatal(err)
						}
					}
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
				if rng.IntN(2) == 0 {
					_ = h.e.Resend(QP(1 + rng.IntN(int(next))))
				}
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
	e.ports[0].queue.push(controlPacket{dst: 1})
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
	clear(q[26:30]) // from nowhere, as a notice, but to one host
	w.hosts[1].e.Receive(0, q, 0)
	if s := w.hosts[1].e.Stats(); s.Malformed != 2 || s.Quenches != 1 {
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
		{Config{Fabric: f, Control: "best"}, `congestion control "best" is unknown; use one of dctcp, none, `},
		{Config{Fabric: f, Receiver: "best"}, `receiver "best" is unknown; use one of go-back-n, `},
		{Config{Fabric: f, Control: RCCC}, "rccc needs receivers that keep packets; use the receiver selective-repeat or ideal"},
		{Config{Fabric: f, Control: Swift, ControlParams: map[string]string{"target_delay": "soon"}}, `target_delay of swift is "soon"; use a time`},
		{Config{Fabric: f, ControlParams: map[string]string{"gain_shift": "17"}}, `gain_shift of dctcp is "17"; use 1 to 16`},
		{Config{Fabric: f, ReorderWindow: 1}, "reorder window is 1"},
	} {
		if _, err := New(c.c, w.hosts[0]); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}
