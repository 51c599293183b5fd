package transport

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// world joins the endpoints of a small fabric by a network that delays, drops,
// repeats, reorders and marks as its fate function says.
type world struct {
	t     testing.TB
	f     *fabric.Fabric
	now   fabric.Time
	hosts []*host
	air   flights
	fate  func(now fabric.Time, hdr []byte, control bool) fate
	rate  fabric.Rate
	delay fabric.Time
	tap   func(now fabric.Time, src int, hdr []byte, f Frame)
}

// fate is what happens to one packet: the delays of its copies, none if it is lost.
type fate struct {
	copies []fabric.Time
	mark   bool
	cut    bool // a switch leaves its header
}

type host struct {
	w    *world
	e    *Endpoint
	me   fabric.NodeID
	busy fabric.Time // the port can take the next packet then

	acked     map[QP]int64
	done      map[QP]int
	delivered map[uint64]int64 // message -> bytes
	pieces    bool             // messages come in pieces: delivered is their sum
	timeouts  []QP
	quenches  [][]byte
	onTimeout func(qp QP)
	onDone    func(qp QP)
}

type flight struct {
	at   fabric.Time
	seq  int
	dst  int
	hdr  []byte
	tail int
}

type flights []flight

func (f flights) Len() int { return len(f) }
func (f flights) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].seq < f[j].seq
}
func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)   { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

func newWorld(t testing.TB, n int, config func(*Config)) *world {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 4, HostsPerToR: max(1, (n+1)/2)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, f: f, rate: 400 * fabric.Gbps, delay: 2 * fabric.Microsecond}
	w.fate = func(fabric.Time, []byte, bool) fate { return fate{copies: []fabric.Time{0}} }
	for i := range n {
		h := &host{
			w: w, me: fabric.NodeID(i),
			acked: map[QP]int64{}, done: map[QP]int{}, delivered: map[uint64]int64{},
		}
		c := Config{Fabric: f, Host: fabric.NodeID(i), ProbeOnFlip: true}
		if config != nil {
			config(&c)
		}
		if h.e, err = New(c, h); err != nil {
			t.Fatal(err)
		}
		w.hosts = append(w.hosts, h)
	}
	return w
}

func (h *host) Acked(_ fabric.Time, qp QP, bytes int64) { h.acked[qp] += bytes }

func (h *host) Done(_ fabric.Time, qp QP) {
	h.done[qp]++
	if h.onDone != nil {
		h.onDone(qp)
	}
}

func (h *host) Timeout(_ fabric.Time, qp QP) {
	h.timeouts = append(h.timeouts, qp)
	if h.onTimeout != nil {
		h.onTimeout(qp)
	}
}

func (h *host) Delivered(_ fabric.Time, src fabric.NodeID, message uint64, bytes int64) {
	if h.pieces {
		h.delivered[message] += bytes
		return
	}
	if _, twice := h.delivered[message]; twice {
		panic(fmt.Sprintf("message %d from %d delivered twice", message, src))
	}
	h.delivered[message] = bytes
}

func (h *host) Quench(_ fabric.Time, payload []byte, _ netip.Addr) {
	h.quenches = append(h.quenches, append([]byte(nil), payload...))
}

// step handles the next thing to happen, and reports whether there is one;
// stepUntil leaves alone what happens after limit.
func (w *world) step() bool { return w.stepUntil(never) }

func (w *world) stepUntil(limit fabric.Time) bool {
	for _, h := range w.hosts {
		h.e.checkTails(w.t)
	}
	next, who := never, -1
	for i, h := range w.hosts {
		if at, ok := h.e.NextWake(); ok {
			if at = max(at, h.busy, w.now); at < next {
				next, who = at, i
			}
		}
	}
	if len(w.air) > 0 && w.air[0].at <= min(next, limit) {
		f := heap.Pop(&w.air).(flight)
		w.now = f.at
		w.hosts[f.dst].e.Receive(w.now, f.hdr, f.tail)
		return true
	}
	if who < 0 || next > limit {
		return false
	}
	w.now = next
	h := w.hosts[who]
	var buf [MaxHeader]byte
	f, ok := h.e.Next(w.now, buf[:])
	if !ok {
		if at, again := h.e.NextWake(); again && at <= w.now {
			w.t.Fatalf("host %d: nothing to send at %v, though it asked for %v", who, w.now, at)
		}
		return true
	}
	if w.tap != nil {
		w.tap(w.now, who, buf[:f.Len], f)
	}
	h.busy = w.now + w.rate.TimeFor(int64(f.Len+f.Tail))
	fate := w.fate(w.now, buf[:f.Len], f.Control)
	for _, extra := range fate.copies {
		hdr := append([]byte(nil), buf[:f.Len]...)
		if fate.mark && !f.Control {
			setCE(hdr)
		}
		tail := f.Tail
		if fate.cut && !f.Control {
			tail = 0
		}
		heap.Push(&w.air, flight{h.busy + w.delay + extra, len(w.air) + int(w.now), w.destination(hdr), hdr, tail})
	}
	return true
}

func setCE(hdr []byte) {
	if hdr[12] == 0x86 {
		hdr[etherLen+1] |= ecnCE << 4
		return
	}
	hdr[etherLen+1] |= ecnCE
}

func (w *world) destination(hdr []byte) int {
	a := netip.AddrFrom4([4]byte(hdr[etherLen+16:]))
	if hdr[12] == 0x86 {
		a = netip.AddrFrom16([16]byte(hdr[etherLen+24:]))
	}
	h, ok := w.f.HostByAddr(a)
	if !ok {
		w.t.Fatalf("packet to %v", a)
	}
	return int(h)
}

// run runs until nothing is left to happen, or the time is over.
func (w *world) run(until fabric.Time) {
	for w.stepUntil(until) {
	}
}

func (w *world) open(src int, m Message) {
	w.t.Helper()
	if err := w.hosts[src].e.Open(w.now, m); err != nil {
		w.t.Fatal(err)
	}
}

// lossy returns a fate function that draws from rng.
func lossy(rng *rand.Rand, drop, repeat, mark float64, jitter fabric.Time) func(fabric.Time, []byte, bool) fate {
	return func(fabric.Time, []byte, bool) fate {
		var f fate
		if rng.Float64() < drop {
			return f
		}
		f.mark = rng.Float64() < mark
		f.copies = append(f.copies, fabric.Time(rng.Int64N(int64(jitter)+1)))
		for rng.Float64() < repeat {
			f.copies = append(f.copies, fabric.Time(rng.Int64N(3*int64(fabric.Millisecond))))
		}
		return f
	}
}
