package transport

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// Messages to a host are sent in the order in which they were opened, whatever
// they are cut into, whatever is lost and whichever receivers there are; and all
// of them arrive.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		receiver := rapid.SampledFrom([]Receiver{GoBackN, SelectiveRepeat, Ideal}).Draw(rt, "receiver")
		w := newWorld(t, 4, func(c *Config) { c.Receiver, c.ReorderWindow = receiver, 4 })
		for _, h := range w.hosts {
			h.pieces = true
		}
		lossy := rapid.IntRange(0, 20).Draw(rt, "lossy")
		// By chance: what is lost every so many packets can keep step with what is
		// retransmitted for ever.
		dice := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		w.fate = func(fabric.Time, []byte, bool) fate {
			if lossy > 0 && dice.IntN(lossy+3) == 0 {
				return fate{}
			}
			return fate{copies: []fabric.Time{0}}
		}
		message := map[uint32]int{}  // by QP number
		fresh := map[int]int{}       // the latest message that sent a packet for the first time
		seen := map[[2]uint32]bool{} // by destination, QP number and PSN
		w.tap = func(_ fabric.Time, src int, hdr []byte, f Frame) {
			if src != 0 || f.Control {
				return
			}
			bth := frame.BTH(hdr[w.hosts[0].e.stack.bth:])
			qpn, psn := bth.DestQP(), bth.PSN()
			to := w.destination(hdr)
			if seen[[2]uint32{uint32(to)<<24 | qpn, psn}] {
				return
			}
			seen[[2]uint32{uint32(to)<<24 | qpn, psn}] = true
			m, ok := message[uint32(to)<<24|qpn]
			if !ok {
				rt.Fatalf("queue pair %#x to %d is unknown", qpn, to)
			}
			if m < fresh[to] {
				rt.Fatalf("message %d to %d begins a packet after message %d", m, to, fresh[to])
			}
			fresh[to] = m
		}
		qp := QP(0)
		want := map[uint64]int64{}
		for m := range rapid.IntRange(1, 12).Draw(rt, "messages") {
			dst := fabric.NodeID(rapid.IntRange(1, 3).Draw(rt, "dst"))
			for range rapid.IntRange(1, 4).Draw(rt, "pieces") {
				qp++
				bytes := rapid.Int64Range(1, 60_000).Draw(rt, "bytes")
				start := w.now + fabric.Time(rapid.IntRange(0, 50_000).Draw(rt, "start"))
				w.open(0, Message{QP: qp, ID: uint64(m), Dst: dst, Bytes: bytes, Start: start})
				e := w.hosts[0].e
				message[uint32(dst)<<24|e.qps[e.byID.get(uint64(qp))].qpn] = m
				want[uint64(m)] += bytes
			}
			if rapid.Bool().Draw(rt, "wait") {
				w.run(w.now + 2*fabric.Microsecond)
			}
		}
		w.run(never)
		got := map[uint64]int64{}
		for _, h := range w.hosts[1:] {
			for m, bytes := range h.delivered {
				got[m] += bytes
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("delivered: %s", diff)
		}
		if e := w.hosts[0].e; e.open != 0 || len(w.hosts[0].done) != int(qp) {
			rt.Fatalf("%d queue pairs are open, %d of %d done", e.open, len(w.hosts[0].done), qp)
		}
		for _, p := range w.hosts[0].e.peers {
			if p.first != nil || p.last != nil {
				rt.Fatal("a message is left over")
			}
		}
	})
}

// TestCloseHeld closes the only QP of a message whose time has not come: its place is
// given to one QP, not to two.
func TestCloseHeld(t *testing.T) {
	e, err := New(Config{Fabric: newWorld(t, 2, nil).f}, newWorld(t, 2, nil).hosts[0])
	if err != nil {
		t.Fatal(err)
	}
	open := func(qp QP) {
		if err := e.Open(0, Message{QP: qp, ID: uint64(qp), Dst: 1, Bytes: 1000}); err != nil {
			t.Fatal(err)
		}
	}
	open(1)
	open(2) // behind 1
	if err := e.Close(2); err != nil {
		t.Fatal(err)
	}
	open(3)
	open(4)
	if e.byID.get(3) == e.byID.get(4) {
		t.Fatal("two queue pairs have one place")
	}
}
