//go:build linux

package device

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// wire is the hosts of two NICs: flows are cut, and arrive in any order.
type wire struct {
	t     *testing.T
	nics  [2]*NIC
	rng   *rand.Rand
	qp    transport.QP
	now   fabric.Time
	cargo []parcel
	queue bool     // flows wait for their turn
	waits []func() // those that do
}

// parcel is a packet under way.
type parcel struct {
	from  int
	qp    transport.QP
	at    transport.Placement
	data  []byte
	whole bool // the piece is over
}

type end struct {
	w    *wire
	side int
}

func (e end) PostFlow(now fabric.Time, id uint64, _ fabric.NodeID, bytes int64) {
	w := e.w
	if w.queue {
		w.waits = append(w.waits, func() { e.PostFlow(now, id, 0, bytes) })
		return
	}
	for off := int64(0); off < bytes; {
		n := min(bytes-off, 3000+w.rng.Int64N(40000))
		w.qp++
		m, ok := w.nics[e.side].Open(w.qp, id, off, n)
		src, key, addr := m.From, m.Key, m.Address
		if !ok {
			return
		}
		for at := int64(0); at < n; {
			k := min(1024, n-at)
			b := make([]byte, k)
			if src.Read(b, at) != nil {
				return
			}
			p := transport.Placement{
				Src: fabric.NodeID(e.side), QPN: uint32(w.qp), RKey: key, Address: addr, Length: n, Offset: at, Payload: int(k), Last: at+k == n,
			}
			w.cargo = append(w.cargo, parcel{e.side, w.qp, p, b, at+k == n})
			at += k
		}
		off += n
	}
}

func (e end) CloseFlow(_ fabric.Time, qp transport.QP) {
	kept := e.w.cargo[:0]
	for _, p := range e.w.cargo {
		if p.qp != qp {
			kept = append(kept, p)
		}
	}
	e.w.cargo = kept
}

func (e end) Connected(fabric.NodeID) bool { return true }

func newWire(t *testing.T) *wire {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, rng: rand.New(rand.NewPCG(1, 2))}
	for i := range w.nics {
		w.nics[i] = New(Config{Fabric: f, Host: fabric.NodeID(i), Payload: 1024}, end{w, i})
	}
	return w
}

// run carries parcels, those of different pieces in any order, until nothing moves.
func (w *wire) run(d fabric.Time) {
	for until := w.now + d; w.now < until; w.now += fabric.Millisecond {
		for i := range w.nics {
			w.nics[i].Tick(w.now)
		}
		for len(w.cargo) > 0 {
			i := w.rng.IntN(len(w.cargo))
			for j, p := range w.cargo { // the first of its piece
				if p.qp == w.cargo[i].qp {
					i = j
					break
				}
			}
			p := w.cargo[i]
			w.cargo = append(w.cargo[:i], w.cargo[i+1:]...)
			switch placed := w.nics[1-p.from].Place(w.now, &p.at, p.data); {
			case placed != transport.Placed:
				end{w, p.from}.CloseFlow(w.now, p.qp)
				s := frame.NAKRemoteAccess
				switch placed {
				case transport.Unable:
					s = frame.NAKRemoteOperation
				case transport.Invalid:
					s = frame.NAKInvalidRequest
				}
				w.nics[p.from].Refused(w.now, p.qp, s)
			case p.whole:
				w.nics[p.from].Done(w.now, p.qp)
			}
			for i := range w.nics {
				w.nics[i].Tick(w.now)
			}
		}
	}
}

// program is a program with one queue pair, whose memory is a file: what stands for
// /proc/self/mem is as good for the NIC.
type program struct {
	w      *wire
	c      *client
	memory []byte
	key    uint32
	q      *queuePair
	h      [3]uint32 // pd, cq, qp
}

func (w *wire) program(side int, peer *program, rnr uint64) *program {
	w.t.Helper()
	fd, err := unix.MemfdCreate("program", 0)
	if err == nil {
		err = unix.Ftruncate(fd, 4<<20)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, 4<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { unix.Munmap(mem) }) //nolint:errcheck // a fuzzer's worker would keep every run's memory
	n := w.nics[side]
	bell, err := newShared(bellSize)
	if err != nil {
		w.t.Fatal(err)
	}
	read, async, err := pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { unix.Close(read) }) //nolint:errcheck // as above
	c := n.newClient(fd)
	c.bell, c.async, c.kick = bell, async, -1
	n.clients[c] = struct{}{}
	p := &program{w: w, c: c, memory: mem}
	p.h[0] = p.call(opAllocPD)
	p.key = p.call(opRegMR, uint64(p.h[0]), 0, 4<<20, 15, 0)
	p.h[1] = p.call(opCreateCQ, 1024, 0, 7)
	p.h[2] = p.call(opCreateQP, uint64(p.h[0]), qptRC, uint64(p.h[1]), uint64(p.h[1]), 0, 64, 64, 4, 4, 64, 0, 9)
	p.q = c.qps[p.h[2]]
	return p
}

func (p *program) call(o op, args ...uint64) uint32 {
	p.w.t.Helper()
	in := call{word: uint32(o)}
	copy(in.arg[:], args)
	out, fd, err := p.c.do(p.w.now, &in)
	if err != nil {
		p.w.t.Fatalf("call %d: %v", o, err)
	}
	if fd >= 0 {
		unix.Close(fd) //nolint:errcheck // the ring is read by the NIC's mapping
	}
	return uint32(out.arg[0])
}

// modify changes the queue pair's state, with attributes.
func (p *program) modify(mask, state uint64, set map[int]uint64) {
	p.w.t.Helper()
	args := make([]uint64, callArgs)
	args[0], args[1], args[argState] = uint64(p.h[2]), mask|maskState, state
	for k, v := range set {
		args[k] = v
	}
	p.call(opModifyQP, args...)
}

// connect takes the queue pair to RTS.
func (p *program) connect(to *program, side int, rnr uint64) {
	a := p.w.nics[1-side].addr
	modify := p.modify
	modify(maskPKey|maskPort|maskAccess, qpsInit, map[int]uint64{argAccess: 15})
	modify(maskAV|maskPathMTU|maskDestQPN|maskRQPSN|maskMaxDest|maskMinRNR, qpsRTR, map[int]uint64{
		argDestAddr: uint64(a), argDestQPN: uint64(to.q.number), argRQPSN: uint64(5 + 1 - side), argMinRNRTimer: 12,
	})
	modify(maskSQPSN|maskTimeout|maskRetry|maskRNRRetry|maskMaxRD, qpsRTS, map[int]uint64{
		argSQPSN: uint64(5 + side), argTimeout: 14, argRetryCnt: 7, argRNRRetry: rnr, argMaxRDAtomic: 2,
	})
}

func pairOf(t *testing.T, rnr uint64) (w *wire, p [2]*program) {
	t.Helper()
	w = newWire(t)
	for i := range p {
		p[i] = w.program(i, nil, rnr)
	}
	for i := range p {
		p[i].connect(p[1-i], i, rnr)
	}
	return w, p
}

// post writes a work request into the ring as the library does.
func (p *program) post(r *ring, b []byte) {
	head := native.Uint32(r.s.mem[r.at+ringHead:])
	copy(r.slot(head), b)
	native.PutUint32(r.s.mem[r.at+ringHead:], head+1)
	native.PutUint32(p.c.bell.mem[4:], native.Uint32(p.c.bell.mem[4:])+1)
}

type sendWR struct {
	id, remote, a, b  uint64
	opcode, rkey, imm uint32
	qkey              uint32
	flags             uint32
	sges              []sge
}

func (p *program) send(x sendWR) {
	b := make([]byte, sendSize+len(x.sges)*sgeSize)
	native.PutUint64(b, x.id)
	native.PutUint32(b[8:], x.opcode)
	native.PutUint32(b[12:], x.flags|sendSignaled)
	native.PutUint32(b[16:], x.imm)
	native.PutUint32(b[20:], uint32(len(x.sges)))
	native.PutUint32(b[28:], x.rkey)
	native.PutUint64(b[32:], x.remote)
	native.PutUint64(b[40:], x.a)
	native.PutUint64(b[48:], x.b)
	native.PutUint32(b[60:], x.qkey)
	putSGEs(b[sendSize:], x.sges)
	p.post(&p.q.sq, b)
}

func putSGEs(b []byte, sges []sge) {
	for i, s := range sges {
		native.PutUint64(b[i*sgeSize:], s.addr)
		native.PutUint32(b[i*sgeSize+8:], s.length)
		native.PutUint32(b[i*sgeSize+12:], s.lkey)
	}
}

func (p *program) recv(id uint64, sges ...sge) {
	b := make([]byte, recvSize+len(sges)*sgeSize)
	native.PutUint64(b, id)
	native.PutUint32(b[8:], uint32(len(sges)))
	putSGEs(b[recvSize:], sges)
	p.post(&p.q.rq, b)
}

// poll returns the completions that have come.
func (p *program) poll() (out []completion) {
	r := &p.c.cqs[p.h[1]].ring
	for tail := native.Uint32(r.s.mem[ringTail:]); tail != native.Uint32(r.s.mem[ringHead:]); tail++ {
		b := r.slot(tail)
		out = append(out, completion{
			id: native.Uint64(b), status: status(native.Uint32(b[8:])), opcode: native.Uint32(b[12:]), bytes: native.Uint32(b[20:]),
		})
		native.PutUint32(r.s.mem[ringTail:], tail+1)
	}
	return out
}

func (p *program) statuses(want ...status) {
	p.w.t.Helper()
	got := p.poll()
	for i, c := range got {
		if i >= len(want) || c.status != want[i] {
			p.w.t.Fatalf("completions %+v, want statuses %v", got, want)
		}
	}
	if len(got) != len(want) {
		p.w.t.Fatalf("completions %+v, want statuses %v", got, want)
	}
}

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
	p[0].statuses(success, success, success, success, success)
	p[1].statuses(success)
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
	if w.nics[0].staged+w.nics[1].staged != 0 || len(w.nics[0].flows)+len(w.nics[0].pieces) != 0 {
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
			p[1].modify(maskState, qpsErr, nil)
			p[0].send(sendWR{opcode: wrWrite, rkey: p[1].key, sges: here(p[0])})
		}, remOpErr, nil},
		{"peer's queue pair is not there yet", 7, func(p [2]*program) {
			p[1].modify(maskState, qpsReset, nil)
			p[1].modify(maskPKey|maskPort|maskAccess, qpsInit, map[int]uint64{argAccess: 15})
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
			if p[0].q.state != qpsErr {
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
	if got, theirs := p[0].poll(), p[1].poll(); len(got) != 40 || len(theirs) != 40 || got[39].status != success {
		t.Fatalf("%d and %d completions of 40", len(got), len(theirs))
	}
	if !bytes.Equal(p[0].memory[:60000], p[1].memory[1<<20:1<<20+60000]) {
		t.Error("other bytes")
	}
}

// TestWaitsShort has one SEND, all of which has arrived, wait: the sender asks whether the receiver is there, which leaves
// the bytes as they are.
func TestWaitsShort(t *testing.T) {
	w, p := pairOf(t, 7)
	copy(p[0].memory, "0123456789")
	p[0].send(sendWR{id: 1, opcode: wrSend, sges: []sge{{0, 10, p[0].key}}})
	w.run(4 * probeAfter)
	p[1].recv(1, sge{64, 10, p[1].key})
	w.run(fabric.Second)
	p[0].statuses(success)
	p[1].statuses(success)
	if got := string(p[1].memory[64:74]); got != "0123456789" {
		t.Errorf("received %q", got)
	}
}

// TestStageKeeps puts bytes over those that are there, before, behind and around them.
func TestStageKeeps(t *testing.T) {
	g := &stage{}
	put := func(at uint64, s string) { g.put(at, []byte(s)) }
	put(window-3, "abcdef") // round the ring's end
	put(window-5, "----------")
	put(window+10, "xyz")
	put(window+5, "++++++++++")
	put(window-1, "?")
	want := "--abcdef--+++++xyz++"
	got := string(g.from(window-5)) + string(g.from(window))
	if got != want || len(g.spans) != 1 {
		t.Errorf("%q in %d spans, want %q", got, len(g.spans), want)
	}
}

// TestIdle: queue pairs that have nothing under way do not wake the NIC.
func TestIdle(t *testing.T) {
	w, p := pairOf(t, 7)
	p[0].send(sendWR{id: 1, opcode: wrWrite, sges: []sge{{0, 60000, p[0].key}}, remote: 1 << 20, rkey: p[1].key})
	w.run(fabric.Second)
	p[0].statuses(success)
	for i := range w.nics {
		if at, ok := w.nics[i].Wake(); ok {
			t.Errorf("side %d wakes at %v", i, at)
		}
	}
}

// TestQueued: what waits for its turn in the host's endpoint is not taken for unanswered, however long it waits; what was
// sent and is not answered is.
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
		p[1].statuses(success)
		p[1].call(opDestroyQP, uint64(p[1].h[2]))
		w.run(3 * fabric.Second)
		p[0].statuses(success)
		if n := w.nics[1]; len(n.leaving)+len(n.flows)+len(n.pieces) != 0 {
			t.Errorf("kept: %d streams, %d flows, %d pieces", len(n.leaving), len(n.flows), len(n.pieces))
		}
	}
}

// FuzzProgram has a program call and post whatever it likes: the NIC neither fails nor
// touches memory of another program that lent none.
func FuzzProgram(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint64(1))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
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
				in := call{word: uint32(next() % uint64(opFindHost+2))}
				for i := range in.arg {
					in.arg[i] = next()
				}
				_, fd, _ := p[0].c.do(w.now, &in)
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
	q.state = qpsRTS
	n, sent := w.nics[0], 0
	for round := range 3 {
		for q.room(w.now) {
			q.sendDatagram(w.now, &sendRequest{opcode: wrSend, inline: make([]byte, 64), udAddr: w.nics[1].addr, udQPN: 5}, true)
			sent++
		}
		if want := (round + 1) * maxSending; sent != want || len(n.flows) != maxSending || len(n.pieces) != maxSending {
			t.Fatalf("round %d: %d sent, want %d; %d flows and %d pieces under way", round, sent, want, len(n.flows), len(n.pieces))
		}
		w.cargo = nil // they are lost, all of them
		w.now += datagramLife + 2*checkEvery
		n.Tick(w.now)
	}
	if len(n.flows)+len(n.pieces)+len(n.sending)+q.grams != 0 {
		t.Errorf("left: %d flows, %d pieces, %d datagrams, of the queue pair %d", len(n.flows), len(n.pieces), len(n.sending), q.grams)
	}
}
