//go:build linux

package device

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
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
				break // the endpoint closes the queue pair
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
	read, async, err := newPipe()
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

func (p *program) call(o callOp, args ...uint64) uint32 {
	p.w.t.Helper()
	in := programCall{word: uint32(o)}
	copy(in.arg[:], args)
	out, fd, err := p.c.runCall(p.w.now, &in)
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
	args[0], args[1], args[argState] = uint64(p.h[2]), mask|uverbs.MaskState, state
	for k, v := range set {
		args[k] = v
	}
	p.call(opModifyQP, args...)
}

// connect takes the queue pair to RTS.
func (p *program) connect(to *program, side int, rnr uint64) {
	a := p.w.nics[1-side].addr
	modify := p.modify
	modify(uverbs.MaskPKey|uverbs.MaskPort|uverbs.MaskAccess, uverbs.QPSInit, map[int]uint64{argAccess: 15})
	modify(uverbs.MaskRTR, uverbs.QPSRTR, map[int]uint64{
		argDestAddr: uint64(a), argDestQPN: uint64(to.q.number), argRQPSN: uint64(5 + 1 - side), argMinRNRTimer: 12,
	})
	modify(uverbs.MaskRTS, uverbs.QPSRTS, map[int]uint64{
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
func (p *program) post(r *sharedRing, b []byte) {
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
