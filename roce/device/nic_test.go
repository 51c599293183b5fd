//go:build linux

package device

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// TestOperations carries out each kind of request, over pieces that arrive in any
// order, and compares memory.
func TestOperations(t *testing.T) {
	w, p := pairOf(t, 7)
	for i := range 2 << 20 {
		p[0].memory[i] = byte(i*7 + i>>8)
	}
	p[1].recv(100, sge{2 << 20, 1 << 20, p[1].key}, sge{3 << 20, 1 << 20, p[1].key})
	p[0].send(sendWR{id: 1, opcode: wrSend, sges: []sge{{0, 1500000, p[0].key}}})
	p[0].send(sendWR{id: 2, opcode: wrWrite, rkey: p[1].key, remote: 64, sges: []sge{{100, 1 << 20, p[0].key}, {5, 11, p[0].key}}})
	p[0].send(sendWR{id: 3, opcode: wrRead, rkey: p[1].key, remote: 64, sges: []sge{{3 << 20, 700001, p[0].key}}})
	p[0].send(sendWR{id: 4, opcode: wrFetchAdd, rkey: p[1].key, remote: 2<<20 - 8, a: 5, sges: []sge{{4<<20 - 8, 8, p[0].key}}})
	p[0].send(sendWR{id: 5, opcode: wrFetchAdd, rkey: p[1].key, remote: 2<<20 - 8, a: 5, sges: []sge{{4<<20 - 8, 8, p[0].key}}})
	w.run(fabric.Second)
	p[0].statuses(wcSuccess, wcSuccess, wcSuccess, wcSuccess, wcSuccess)
	p[1].statuses(wcSuccess)
	a, b := p[0].memory, p[1].memory
	if !bytes.Equal(a[:1<<20], b[2<<20:3<<20]) || !bytes.Equal(a[1<<20:1500000], b[3<<20:3<<20+1500000-1<<20]) {
		t.Error("SEND: other bytes")
	}
	if !bytes.Equal(a[100:100+1<<20], b[64:64+1<<20]) || !bytes.Equal(a[5:16], b[64+1<<20:64+1<<20+11]) {
		t.Error("WRITE: other bytes")
	}
	if !bytes.Equal(a[3<<20:3<<20+700001], b[64:64+700001]) {
		t.Error("READ: other bytes")
	}
	if was, is := native.Uint64(a[4<<20-8:]), native.Uint64(b[2<<20-8:]); was != 5 || is != 10 {
		t.Errorf("fetch and add: %d before, %d now; want 5, 10", was, is)
	}
	if w.nics[0].pools.stages.used+w.nics[1].pools.stages.used != 0 || len(w.nics[0].flows)+len(w.nics[0].pieces) != 0 {
		t.Error("something is left")
	}
}

// TestStatuses asks for what must not be.
func TestStatuses(t *testing.T) {
	here := func(p *program) []sge { return []sge{{0, 100, p.key}} }
	for _, c := range []struct {
		name   string
		rnr    uint64
		do     func(p [2]*program)
		status status
		theirs []status
	}{
		{"bad rkey", 7, func(p [2]*program) { p[0].send(sendWR{opcode: wrWrite, rkey: p[1].key + 1, sges: here(p[0])}) }, remAccessErr, nil},
		{"beyond the region", 7, func(p [2]*program) {
			p[0].send(sendWR{opcode: wrWrite, rkey: p[1].key, remote: 4<<20 - 99, sges: here(p[0])})
		}, remAccessErr, nil},
		{"round the address space", 7, func(p [2]*program) {
			p[0].send(sendWR{opcode: wrRead, rkey: p[1].key, remote: 1<<64 - 50, sges: here(p[0])})
		}, remAccessErr, nil},
		{"atomic askew", 7, func(p [2]*program) {
			p[0].send(sendWR{opcode: wrFetchAdd, rkey: p[1].key, remote: 4, sges: []sge{{0, 8, p[0].key}}})
		}, remInvReqErr, nil},
		{"atomic askew, and a bad rkey", 7, func(p [2]*program) {
			p[0].send(sendWR{opcode: wrFetchAdd, rkey: p[1].key + 1, remote: 4, sges: []sge{{0, 8, p[0].key}}})
		}, remInvReqErr, nil},
		{"atomic of nine bytes", 7, func(p [2]*program) {
			p[0].send(sendWR{opcode: wrCompSwap, rkey: p[1].key, b: 1, sges: []sge{{0, 9, p[0].key}}})
		}, locLenErr, nil},
		{"read, both keys bad", 7, func(p [2]*program) {
			p[0].send(sendWR{opcode: wrRead, rkey: p[1].key + 1, sges: []sge{{0, 100, p[0].key + 1}}})
		}, remAccessErr, nil},
		{"read, bad lkey", 7, func(p [2]*program) {
			p[0].send(sendWR{opcode: wrRead, rkey: p[1].key, sges: []sge{{0, 100, p[0].key + 1}}})
		}, locProtErr, nil},
		{"immediate, bad rkey", 7, func(p [2]*program) {
			p[1].recv(8)
			p[0].send(sendWR{opcode: wrWriteImm, rkey: p[1].key + 1, sges: here(p[0])})
		}, remAccessErr, []status{locAccessErr}},
		{"bad lkey", 7, func(p [2]*program) { p[0].send(sendWR{opcode: wrSend, sges: []sge{{0, 100, p[0].key + 1}}}) }, locProtErr, nil},
		{"opcode", 7, func(p [2]*program) { p[0].send(sendWR{opcode: 99, sges: here(p[0])}) }, locQPOpErr, nil},
		{"receive too short", 7, func(p [2]*program) {
			p[1].recv(8, sge{0, 99, p[1].key})
			p[0].send(sendWR{opcode: wrSend, sges: here(p[0])})
		}, remInvReqErr, []status{locLenErr}},
		{"receive's lkey", 7, func(p [2]*program) {
			p[1].recv(8, sge{0, 100, p[1].key + 1})
			p[0].send(sendWR{opcode: wrSend, sges: here(p[0])})
		}, remOpErr, []status{locProtErr}},
		{"not ready", 1, func(p [2]*program) { p[0].send(sendWR{opcode: wrSend, sges: here(p[0])}) }, rnrRetryErr, nil},
		{"peer's queue pair has failed", 7, func(p [2]*program) {
			p[1].modify(uverbs.MaskState, uverbs.QPSErr, nil)
			p[0].send(sendWR{opcode: wrWrite, rkey: p[1].key, sges: here(p[0])})
		}, remOpErr, nil},
		{"peer's queue pair is not there yet", 7, func(p [2]*program) {
			p[1].modify(uverbs.MaskState, uverbs.QPSReset, nil)
			p[1].modify(uverbs.MaskPKey|uverbs.MaskPort|uverbs.MaskAccess, uverbs.QPSInit, map[int]uint64{argAccess: 15})
			p[0].send(sendWR{opcode: wrRead, rkey: p[1].key, sges: here(p[0])})
		}, retryExcErr, nil},
		{"peer has gone", 7, func(p [2]*program) {
			p[1].c.close(0)
			p[0].send(sendWR{opcode: wrWrite, rkey: p[1].key, sges: here(p[0])})
		}, retryExcErr, nil},
		{"peer's memory has gone", 7, func(p [2]*program) {
			if err := unix.Ftruncate(p[1].c.memory.fd, 0); err != nil {
				t.Fatal(err)
			}
			p[0].send(sendWR{opcode: wrRead, rkey: p[1].key, sges: here(p[0])})
		}, retryExcErr, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, p := pairOf(t, c.rnr)
			w.t = t
			c.do(p)
			p[0].send(sendWR{id: 2, opcode: wrSend, sges: here(p[0])})
			w.run(5 * fabric.Second)
			p[0].statuses(c.status, flushErr)
			if c.theirs != nil {
				p[1].statuses(c.theirs...)
			}
			if p[0].q.state != uverbs.QPSErr {
				t.Errorf("the queue pair is in state %d", p[0].q.state)
			}
		})
	}
}

// TestWaits has a SEND wait for its receive request for longer than any timer.
func TestWaits(t *testing.T) {
	w, p := pairOf(t, 7)
	for i := range p[0].memory[:60000] {
		p[0].memory[i] = byte(i*7 + 1)
	}
	for i := range 40 { // more than a window
		p[0].send(sendWR{id: uint64(i), opcode: wrSend, sges: []sge{{0, 60000, p[0].key}}})
	}
	w.run(4 * fabric.Second)
	p[0].statuses()
	for i := range 40 {
		p[1].recv(uint64(i), sge{1 << 20, 60000, p[1].key})
	}
	w.run(fabric.Second)
	if got, theirs := p[0].poll(), p[1].poll(); len(got) != 40 || len(theirs) != 40 || got[39].status != wcSuccess {
		t.Fatalf("%d and %d completions of 40", len(got), len(theirs))
	}
	if !bytes.Equal(p[0].memory[:60000], p[1].memory[1<<20:1<<20+60000]) {
		t.Error("other bytes")
	}
}

// TestWaitsShort has one SEND, all of which has arrived, wait: the sender asks whether the receiver is there, which
// leaves the bytes as they are.
func TestWaitsShort(t *testing.T) {
	w, p := pairOf(t, 7)
	copy(p[0].memory, "0123456789")
	p[0].send(sendWR{id: 1, opcode: wrSend, sges: []sge{{0, 10, p[0].key}}})
	w.run(4 * probeAfter)
	p[1].recv(1, sge{64, 10, p[1].key})
	w.run(fabric.Second)
	p[0].statuses(wcSuccess)
	p[1].statuses(wcSuccess)
	if got := string(p[1].memory[64:74]); got != "0123456789" {
		t.Errorf("received %q", got)
	}
}

// TestStageKeeps puts bytes over those that are there, before, behind and around them.
func TestStageKeeps(t *testing.T) {
	g := &stagedBytes{}
	put := func(at uint64, s string) { g.put(at, []byte(s)) }
	put(mapWindow-3, "abcdef") // round the ring's end
	put(mapWindow-5, "----------")
	put(mapWindow+10, "xyz")
	put(mapWindow+5, "++++++++++")
	put(mapWindow-1, "?")
	want := "--abcdef--+++++xyz++"
	got := string(g.bytesFrom(mapWindow-5)) + string(g.bytesFrom(mapWindow))
	if got != want || len(g.spans) != 1 {
		t.Errorf("%q in %d spans, want %q", got, len(g.spans), want)
	}
}

// TestIdle: queue pairs that have nothing under way do not wake the NIC.
func TestIdle(t *testing.T) {
	w, p := pairOf(t, 7)
	p[0].send(sendWR{id: 1, opcode: wrWrite, sges: []sge{{0, 60000, p[0].key}}, remote: 1 << 20, rkey: p[1].key})
	w.run(fabric.Second)
	p[0].statuses(wcSuccess)
	for i := range w.nics {
		if at, ok := w.nics[i].Wake(); ok {
			t.Errorf("side %d wakes at %v", i, at)
		}
	}
}

// TestQueued: what waits for its turn in the host's endpoint is not taken for unanswered, however long it waits; what
// was sent and is not answered is.
func TestQueued(t *testing.T) {
	w, p := pairOf(t, 7)
	w.queue = true
	p[0].send(sendWR{id: 1, opcode: wrWrite, flags: sendSignaled, sges: []sge{{0, 60000, p[0].key}}, remote: 1 << 20, rkey: p[1].key})
	w.run(10 * fabric.Second)
	p[0].statuses()
	w.queue = false
	for _, post := range w.waits {
		post()
	}
	w.cargo = nil // it is lost
	w.run(10 * fabric.Second)
	p[0].statuses(retryExcErr)
}

// TestNotScheduled: a device that was not scheduled for longer than the other side may be silent has not listened: it
// looks at what has arrived before it gives up. Silence while it listens counts.
func TestNotScheduled(t *testing.T) {
	w, p := pairOf(t, 7)
	write := func() {
		p[0].send(sendWR{id: 1, opcode: wrWrite, flags: sendSignaled, sges: []sge{{0, 60000, p[0].key}}, remote: 1 << 20, rkey: p[1].key})
		w.nics[0].Tick(w.now)
	}
	for range 3 { // the second time in a row, too
		write()
		w.now += 10 * fabric.Second
		w.nics[0].Tick(w.now)
		p[0].statuses()
		w.run(100 * fabric.Millisecond)
		p[0].statuses(wcSuccess)
	}
	write()
	w.cargo = nil // it is lost
	w.run(10 * fabric.Second)
	p[0].statuses(retryExcErr)
}

// TestLeaves: a program destroys its queue pair as soon as it has what it waited for, before the NIC has sent the
// acknowledgement or before that has arrived. The other side's request succeeds all the same, and nothing is kept.
func TestLeaves(t *testing.T) {
	for _, sent := range []bool{false, true} {
		w, p := pairOf(t, 7)
		p[1].recv(1, sge{0, 100, p[1].key})
		p[0].send(sendWR{id: 1, opcode: wrSend, sges: []sge{{0, 100, p[0].key}}})
		w.nics[0].Tick(w.now)
		for _, c := range w.cargo {
			w.nics[1].Place(w.now, &c.at, c.data)
			w.nics[0].Done(w.now, c.qp)
		}
		w.cargo = nil
		if sent {
			w.nics[1].Tick(w.now)
		}
		p[1].statuses(wcSuccess)
		p[1].call(opDestroyQP, uint64(p[1].h[2]))
		w.run(3 * fabric.Second)
		p[0].statuses(wcSuccess)
		if n := w.nics[1]; len(n.lingering)+len(n.flows)+len(n.pieces) != 0 {
			t.Errorf("kept: %d streams, %d flows, %d pieces", len(n.lingering), len(n.flows), len(n.pieces))
		}
	}
}

// FuzzProgram has a program call and post whatever it likes: the NIC neither fails nor
// touches memory of another program that lent none.
func FuzzProgram(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint64(1))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		text = text[:min(len(text), 400)] // each eight bytes take two milliseconds of the fabric
		w, p := pairOf(t, 7)
		victim := w.program(1, nil, 7)
		before := bytes.Clone(victim.memory)
		rng := rand.New(rand.NewPCG(seed, 1))
		at := 0
		next := func() uint64 {
			if at++; at > len(text) {
				return rng.Uint64() >> rng.IntN(64)
			}
			return uint64(text[at-1])
		}
		for range 4 + len(text)/8 {
			switch next() % 4 {
			case 0:
				in := programCall{word: uint32(next() % uint64(opFindHost+2))}
				for i := range in.arg {
					in.arg[i] = next()
				}
				_, fd, _ := p[0].c.runCall(w.now, &in)
				if fd >= 0 {
					unix.Close(fd) //nolint:errcheck // not used
				}
			case 1: // rings, head and slots, in place
				if mem := p[0].q.mem.mem; mem != nil {
					for range 64 {
						mem[next()%uint64(len(mem))] = byte(next())
					}
				}
			case 2:
				if p[0].q.mem.mem != nil {
					p[0].send(sendWR{opcode: uint32(next() % (wrSendInv + 2)), rkey: []uint32{p[1].key, victim.key}[next()%2], remote: next(), sges: []sge{{next(), uint32(next() % 5000), p[0].key}}})
				}
			default:
				for _, s := range []uint32{kindRequests, kindResponses, kindDatagrams} {
					b := make([]byte, next()%200)
					for i := range b {
						b[i] = byte(next())
					}
					w.nics[1].Place(w.now, &transport.Placement{
						RKey: streamKey(s, p[1].q.number), Address: firstPosition(5) + next()%4, Length: int64(len(b)), Payload: len(b), Last: true,
					}, b)
				}
			}
			native.PutUint32(p[0].c.bell.mem[4:], uint32(next()))
			w.run(2 * fabric.Millisecond)
		}
		if !bytes.Equal(before, victim.memory) {
			t.Fatal("another program's memory was written to")
		}
		for i := range w.nics {
			for c := range w.nics[i].clients {
				c.close(w.now)
			}
		}
	})
}

// TestDatagramsAreBounded has a program send datagrams to a host that is gone, as fast as it is let, and then stop: no
// more than a bound are under way, those that do not arrive are given up, and nothing is left of them.
func TestDatagramsAreBounded(t *testing.T) {
	w := newWire(t)
	p := w.program(0, nil, 0)
	q := p.c.qps[p.call(opCreateQP, uint64(p.h[0]), qptUD, uint64(p.h[1]), uint64(p.h[1]), 0, 64, 64, 4, 4, 64, 0, 9)]
	q.state = uverbs.QPSRTS
	n, sent := w.nics[0], 0
	for round := range 3 {
		for q.hasRoom(w.now) {
			q.sendDatagram(w.now, &sendRequest{opcode: wrSend, inline: make([]byte, 64), udAddr: w.nics[1].addr, udQPN: 5}, true)
			sent++
		}
		if want := (round + 1) * maxSending; sent != want || len(n.flows) != maxSending || len(n.pieces) != maxSending {
			t.Fatalf("round %d: %d sent, want %d; %d flows and %d pieces under way", round, sent, want, len(n.flows), len(n.pieces))
		}
		w.cargo = nil // they are lost, all of them
		w.now += datagramLifetime + 2*checkInterval
		n.Tick(w.now)
	}
	if len(n.flows)+len(n.pieces)+len(n.sending)+q.grams != 0 {
		t.Errorf("left: %d flows, %d pieces, %d datagrams, of the queue pair %d", len(n.flows), len(n.pieces), len(n.sending), q.grams)
	}
}
