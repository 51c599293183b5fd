package transport

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// ignore is a handler that reopens a QP when it ends.
type ignore struct {
	e     *Endpoint
	dst   fabric.NodeID
	bytes int64
	next  QP

	balanced bool
}

func (h *ignore) Acked(fabric.Time, QP, int64) {}
func (h *ignore) Done(now fabric.Time, _ QP) {
	h.next++
	if err := h.e.Open(now, Message{QP: h.next, Dst: h.dst, Bytes: h.bytes, Balanced: h.balanced}); err != nil {
		panic(err)
	}
}
func (h *ignore) Timeout(fabric.Time, QP)                             {}
func (h *ignore) Delivered(fabric.Time, fabric.NodeID, uint64, int64) {}
func (h *ignore) Quench(fabric.Time, []byte, netip.Addr)              {}

// pair is a sender with n QPs to a receiver, joined by no network at all.
func pair(tb testing.TB, n int, bytes int64, c Config) (exchange func()) {
	tb.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		tb.Fatal(err)
	}
	var ends [2]*Endpoint
	for i := range ends {
		h := &ignore{dst: 9, bytes: bytes, balanced: c.Balancer != nil}
		c.Fabric, c.Host = f, fabric.NodeID(9*i)
		if ends[i], err = New(c, h); err != nil {
			tb.Fatal(err)
		}
		h.e = ends[i]
		if i == 0 {
			for range n {
				h.Done(0, 0)
			}
		}
	}
	var buf [MaxHeader]byte
	now := fabric.Time(0)
	return func() {
		now += ends[0].fullPacketTime
		fr, ok := ends[0].Next(now, buf[:])
		if !ok {
			tb.Fatalf("nothing to send at %v", now)
		}
		ends[1].Receive(now, buf[:fr.Len], fr.Tail)
		fr, ok = ends[1].Next(now, buf[:])
		if !ok {
			tb.Fatalf("no ACK at %v", now)
		}
		ends[0].Receive(now, buf[:fr.Len], fr.Tail)
	}
}

// BenchmarkExchange is a data packet sent and received and its ACK sent and
// received: four packet events.
func BenchmarkExchange(b *testing.B) {
	for _, c := range []struct {
		qps   int
		bytes int64
		ipv6  bool
	}{{1, 1 << 30, false}, {512, 1 << 30, false}, {8192, 1 << 30, false}, {512, 1 << 30, true}, {512, 100, false}} {
		b.Run(fmt.Sprintf("qps=%d/bytes=%d/ipv6=%v", c.qps, c.bytes, c.ipv6), func(b *testing.B) {
			exchange := pair(b, c.qps, c.bytes, Config{IPv6: c.ipv6})
			for range 2 * c.qps {
				exchange()
			}
			b.ReportAllocs()
			for b.Loop() {
				exchange()
			}
		})
	}
}

// BenchmarkPaced has every QP at a rate of its own below the line's, so that
// each packet passes through the heap.
func BenchmarkPaced(b *testing.B) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		b.Fatal(err)
	}
	h := &ignore{}
	e, err := New(Config{Fabric: f, Host: 0, RTO: fabric.Second}, h)
	if err != nil {
		b.Fatal(err)
	}
	const n = 512
	for i := range n {
		if err := e.Open(0, Message{QP: QP(i), Dst: 9, Bytes: 1 << 31}); err != nil {
			b.Fatal(err)
		}
		q := e.qps[i]
		q.rate.now = e.cfg.LineRate / fabric.Rate(n+i)
		q.rate.gap = q.rate.now.TimeFor(int64(e.fullPacketBytes))
	}
	var buf [MaxHeader]byte
	now := fabric.Time(0)
	b.ReportAllocs()
	for b.Loop() {
		for {
			if _, ok := e.Next(now, buf[:]); ok {
				break
			}
			now, _ = e.NextWake()
		}
		now += e.fullPacketTime
	}
}

// still is a balancer that does nothing.
type still struct{}

func (still) Label(fabric.Time, QP) fabric.Label { return 1 }
func (still) Echo(fabric.Time, QP, Echo)         {}

// BenchmarkSpray is BenchmarkExchange with a label per packet and receivers that
// reorder.
func BenchmarkSpray(b *testing.B) {
	for _, r := range []Receiver{SelectiveRepeat, Ideal} {
		b.Run(string(r), func(b *testing.B) {
			exchange := pair(b, 512, 1<<30, Config{Balancer: still{}, Receiver: r})
			for range 1024 {
				exchange()
			}
			b.ReportAllocs()
			for b.Loop() {
				exchange()
			}
		})
	}
}

// Nothing is allocated per packet, nor per message once QPs are recycled.
func TestAllocations(t *testing.T) {
	for _, c := range []Config{
		{}, {Balancer: still{}, Receiver: SelectiveRepeat}, {Balancer: still{}, Receiver: Ideal, Control: DCQCN},
	} {
		for _, bytes := range []int64{100, 100_000} {
			exchange := pair(t, 64, bytes, c)
			for range 5000 {
				exchange()
			}
			if n := testing.AllocsPerRun(5000, exchange); n != 0 {
				t.Errorf("%v, %v, messages of %d bytes: %v allocations per packet", c.Receiver, c.Control, bytes, n)
			}
		}
	}
}
