package hostprocess

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// wire is two ranks, and frames between them in virtual time.
type wire struct {
	t        *testing.T
	f        *fabric.Fabric
	ranks    [2]*Rank
	received [2]map[uint64]bool
	timeouts int
	now      fabric.Time
	seen     func(from int, frame []byte) // of each frame, if not nil
}

func newWire(t *testing.T) *wire {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, f: f}
	for i := range w.ranks {
		w.start(i, 0)
	}
	return w
}

// hosts of the wire are in different racks.
func (w *wire) host(i int) int { return 2 * i }

// start starts a host's process, again if it runs.
func (w *wire) start(i int, nonce uint64) {
	w.t.Helper()
	w.received[i] = map[uint64]bool{}
	r, err := New(Config{Fabric: w.f, Host: fabric.NodeID(w.host(i)), Notify: func(e hostproto.Event) {
		switch e.Kind {
		case hostproto.Received:
			w.received[i][e.ID] = true
		case hostproto.Timeout:
			w.timeouts++
		case hostproto.Fault:
			w.t.Errorf("host %d: %s", i, e.Text)
		}
	}})
	if err == nil {
		err = r.Configure(w.now, host.Settings{Nonce: nonce,
			ResendOnFlip: true, TailProbe: true, RTO: 50 * fabric.Millisecond,
		})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.ranks[i] = r
}

// post sends a message from a host to the other.
func (w *wire) post(from int, id uint64, size int64) {
	w.t.Helper()
	key := uint32(id) + 100
	if err := w.ranks[1-from].Expect([]hostproto.Inbound{{ID: id, Key: key, Bytes: size}}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.ranks[from].Post(w.now, []hostproto.Outbound{{ID: id, Dst: w.host(1 - from), Bytes: size, Key: key}}); err != nil {
		w.t.Fatal(err)
	}
}

// run carries frames for a time, 2 us each.
func (w *wire) run(d fabric.Time) {
	w.t.Helper()
	buf := make([]byte, w.ranks[0].MaxFrame())
	for until := w.now + d; w.now < until; w.now += 2 * fabric.Microsecond {
		for i, r := range w.ranks {
			if at, ok := r.Wake(); ok && at <= w.now {
				r.Tick(w.now)
			}
			n, ok := r.Next(w.now, buf)
			if !ok {
				continue
			}
			if w.seen != nil {
				w.seen(i, buf[:n])
			}
			w.ranks[1-i].Receive(w.now, bytes.Clone(buf[:n]))
		}
	}
}

// TestRestart starts each host's process again in turn: messages either way arrive at once, and the other host keeps no
// state of the process that ended.
func TestRestart(t *testing.T) {
	for _, nonce := range []uint64{0, 7} { // as a coordinator gives it: a process that starts again has none
		w := newWire(t)
		for i := range w.ranks {
			w.start(i, nonce)
		}
		id := uint64(0)
		exchange := func() {
			t.Helper()
			for i := range 6 {
				id++
				from := i % 2
				w.post(from, id, 10_000)
				if w.run(5 * fabric.Millisecond); !w.received[1-from][id] {
					t.Errorf("nonce %d: message %d from host %d has not arrived", nonce, id, from)
				}
			}
		}
		exchange()
		for i := range w.ranks {
			w.start(i, 0)
			exchange()
			for k, r := range w.ranks {
				// Messages were sent one after the other, each split in two.
				if qps := r.Stats().ResponderQPs; qps > 2 {
					t.Errorf("nonce %d, host %d started again: host %d has the state of %d queue pairs", nonce, i, k, qps)
				}
			}
		}
		if w.timeouts > 0 {
			t.Errorf("nonce %d: %d time-outs", nonce, w.timeouts)
		}
	}
}

// TestRestartUnderWay starts a receiver's process again while a message is on the way: its sender learns of that by
// what it sends, and the next message arrives.
func TestRestartUnderWay(t *testing.T) {
	w := newWire(t)
	w.post(0, 1, 1<<20)
	w.run(300 * fabric.Microsecond)
	if w.received[1][1] {
		t.Fatal("the message has arrived already")
	}
	failed := false
	w.ranks[0].notify = func(e hostproto.Event) { failed = failed || e.Kind == hostproto.Fault } // what had arrived is lost
	w.start(1, 0)
	w.run(60 * fabric.Millisecond)
	if !failed {
		t.Error("the sender was not notified that its message is lost")
	}
	w.post(0, 2, 10_000)
	if w.run(5 * fabric.Millisecond); !w.received[1][2] {
		t.Error("the next message has not arrived")
	}
}

// TestForged has a third host send frames with a peer's address: writes of newer queue pairs, acknowledgements,
// refusals, congestion notifications, and datagrams of a session. It sees none of the hosts' frames. Messages arrive as
// if there were none, and no state remains.
func TestForged(t *testing.T) {
	w := newWire(t)
	w.post(0, 1, 10_000)
	w.post(1, 2, 10_000)
	w.run(5 * fabric.Millisecond)
	qps := [2]int{w.ranks[0].Stats().ResponderQPs, w.ranks[1].Stats().ResponderQPs}

	rng := rand.New(rand.NewPCG(1, 2))
	forged := 0
	forge := func(to int) {
		pkeys := []uint16{0xffff, 0x8000, uint16(rng.Uint32()) | 0x8000}
		number := rng.Uint32() & 0xffffff
		if rng.IntN(2) == 0 { // a low slot of any generation
			number = rng.Uint32()&0xff<<16 | 2 + rng.Uint32()%200
		}
		op := []frame.Opcode{frame.WriteOnly, frame.WriteFirst, frame.WriteLast, frame.Acknowledge, frame.CNP, 0x64}[rng.IntN(6)]
		h := frame.Stack{
			Src: w.f.HostAddr4(fabric.NodeID(w.host(1 - to))), Dst: w.f.HostAddr4(fabric.NodeID(w.host(to))), TTL: 64,
			SourcePort: frame.SourcePort(fabric.Label(rng.IntN(2))),
			BTH: frame.BTHFields{
				Opcode: op, Migration: true, PKey: pkeys[rng.IntN(3)], DestQP: number, AckRequest: true, PSN: rng.Uint32() & 0xffffff,
			},
			RETH: frame.RETHFields{RKey: rng.Uint32() % 110},
			AETH: frame.AETHFields{Syndrome: []frame.Syndrome{frame.ACK, frame.NAKSequenceError, frame.NAKRemoteAccess}[rng.IntN(3)]},
		}
		var payload [24]byte
		if op == 0x64 { // as a session's, with nonces that are guessed
			h.PayloadLen, h.BTH.DestQP, h.BTH.PKey = len(payload), 1, frame.DefaultPKey
			copy(payload[:], []byte{0x45, 0x74, 0x68, 0x53, 0, 0, 0, byte(rng.IntN(4))})
			payload[15], payload[23] = byte(rng.IntN(256)), byte(rng.IntN(256))
		}
		b := make([]byte, h.FrameLen())
		n, err := h.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		copy(b[n:], payload[:h.PayloadLen])
		f, err := frame.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		f.SetICRC()
		w.ranks[to].Receive(w.now, b)
		forged++
	}
	w.seen = func(int, []byte) {
		if w.now%(20*fabric.Microsecond) == 0 {
			forge(0)
			forge(1)
		}
	}
	for range 20_000 {
		forge(0)
		forge(1)
	}
	for id := uint64(3); id < 103; id++ {
		from := int(id) % 2
		w.post(from, id, 10_000)
		if w.run(2 * fabric.Millisecond); !w.received[1-from][id] {
			t.Fatalf("after %d forged frames: message %d has not arrived", forged, id)
		}
	}
	for i, r := range w.ranks {
		if s := r.Stats(); s.ResponderQPs > qps[i]+2 {
			t.Errorf("host %d has the state of %d queue pairs; it had that of %d", i, s.ResponderQPs, qps[i])
		}
	}
	if w.timeouts > 0 {
		t.Errorf("%d time-outs", w.timeouts)
	}
}
