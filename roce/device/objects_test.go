//go:build linux

package device

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// TestAtomicWithoutPlace: an atomic whose result has no place that the program may write to leaves the other side's
// memory as it is.
func TestAtomicWithoutPlace(t *testing.T) {
	for _, op := range []uint32{wrFetchAdd, wrCompSwap} {
		w, p := pairOf(t, 7)
		native.PutUint64(p[1].memory[64:], 2)
		p[0].send(sendWR{opcode: op, rkey: p[1].key, remote: 64, a: 2, b: 3, sges: []sge{{0, 8, p[0].key + 1}}})
		w.run(fabric.Second)
		p[0].statuses(locProtErr)
		if is := native.Uint64(p[1].memory[64:]); is != 2 {
			t.Errorf("operation %d: the other side's word was 2, and is %d", op, is)
		}
	}
}

// try is call for what may be refused.
func (p *program) try(o callOp, args ...uint64) (out programCall, err error) {
	in := programCall{word: uint32(o)}
	copy(in.arg[:], args)
	out, fd, err := p.c.runCall(p.w.now, &in)
	if fd >= 0 {
		unix.Close(fd) //nolint:errcheck // nothing was written
	}
	return out, err
}

// TestHandles: what is not there, is another program's, is of another kind or is in use cannot be ended.
func TestHandles(t *testing.T) {
	w := newWire(t)
	p := [2]*program{w.program(0, nil, 7), w.program(0, nil, 7)}
	pd, cq, qp := uint64(p[0].h[0]), uint64(p[0].h[1]), uint64(p[0].h[2])
	for _, c := range []struct {
		name   string
		by     *program
		op     callOp
		handle uint64
		want   error
	}{
		{"another program's domain", p[1], opDeallocPD, pd, unix.ENOENT},
		{"another program's queue pair", p[1], opDestroyQP, qp, unix.ENOENT},
		{"another program's memory", p[1], opDeregMR, uint64(p[0].key), unix.ENOENT},
		{"a queue pair as completion queue", p[0], opDestroyCQ, qp, unix.ENOENT},
		{"a domain in use", p[0], opDeallocPD, pd, unix.EBUSY},
		{"a completion queue in use", p[0], opDestroyCQ, cq, unix.EBUSY},
		{"a queue pair", p[0], opDestroyQP, qp, nil},
		{"the same again", p[0], opDestroyQP, qp, unix.ENOENT},
		{"its completion queue", p[0], opDestroyCQ, cq, nil},
		{"the same again", p[0], opDestroyCQ, cq, unix.ENOENT},
	} {
		if _, err := c.by.try(c.op, c.handle); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestLimits: a program has as many protection domains and shared receive queues as the device says, and no more.
func TestLimits(t *testing.T) {
	w := newWire(t)
	p := w.program(0, nil, 7)
	domains, srqs := 0, 0
	for {
		if _, err := p.try(opAllocPD); err != nil {
			break
		}
		domains++
	}
	for {
		if _, err := p.try(opCreateSRQ, uint64(p.h[0]), 1, 1, 0); err != nil {
			break
		}
		srqs++
	}
	if domains != maxDomains-1 || srqs != maxSRQs {
		t.Errorf("%d domains besides the first, %d shared receive queues; want %d, %d", domains, srqs, maxDomains-1, maxSRQs)
	}
}

// TestTransitions: a queue pair changes its state with the attributes that the specification asks for, and no others.
func TestTransitions(t *testing.T) {
	w := newWire(t)
	p := w.program(0, nil, 7)
	host := uint64(w.nics[1].addr)
	try := func(mask, state uint64) error {
		args := make([]uint64, callArgs)
		args[0], args[1], args[argState], args[argDestAddr] = uint64(p.h[2]), mask|uverbs.MaskState, state, host
		_, err := p.try(opModifyQP, args...)
		return err
	}
	for _, c := range []struct{ mask, state uint64 }{
		{uverbs.MaskPKey | uverbs.MaskPort | uverbs.MaskAccess, uverbs.QPSInit},
		{uverbs.MaskRTR, uverbs.QPSRTR},
		{uverbs.MaskRTS, uverbs.QPSRTS},
	} {
		for bit := uint64(1); bit <= uverbs.MaskDestQPN; bit <<= 1 {
			if c.mask&bit != 0 && try(c.mask&^bit, c.state) == nil {
				t.Fatalf("to state %d without attribute %#x", c.state, bit)
			}
		}
		if try(c.mask|uverbs.MaskQKey, c.state) == nil {
			t.Fatalf("to state %d with a queue key", c.state)
		}
		if err := try(c.mask, c.state); err != nil {
			t.Fatalf("to state %d: %v", c.state, err)
		}
	}
	if try(uverbs.MaskRTR, uverbs.QPSRTR) == nil {
		t.Error("from RTS back to RTR")
	}
}

// TestResize: what a completion queue and a shared receive queue hold stays in order when their sizes change, and a
// size that has no room for it is refused.
func TestResize(t *testing.T) {
	w, p := pairOf(t, 7)
	cq := uint64(p[0].h[1])
	send := func(n int) {
		for range n {
			p[0].send(sendWR{id: uint64(p[0].q.msn), opcode: wrWrite, rkey: p[1].key})
			w.run(fabric.Millisecond)
		}
		w.run(100 * fabric.Millisecond)
	}
	if _, err := p[0].try(opResizeCQ, cq, 8); err != nil {
		t.Fatal(err)
	}
	send(7)
	if _, err := p[0].try(opResizeCQ, cq, 4); !errors.Is(err, unix.EINVAL) {
		t.Errorf("seven completions into room for four: %v, want EINVAL", err)
	}
	if _, err := p[0].try(opResizeCQ, cq, 32); err != nil {
		t.Fatal(err)
	}
	send(9)
	got := p[0].poll()
	for i, c := range got {
		if c.id != uint64(i) {
			t.Fatalf("completion %d is of request %d", i, c.id)
		}
	}
	if len(got) != 16 {
		t.Errorf("%d completions, want 16", len(got))
	}

	out, err := p[0].try(opCreateSRQ, uint64(p[0].h[0]), 4, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	srq := p[0].c.srqs[uint32(out.arg[0])]
	post := func(id uint64) {
		b := make([]byte, recvSize)
		native.PutUint64(b, id)
		p[0].post(&srq.rq, b)
	}
	for id := range uint64(4) {
		post(id)
	}
	if _, err := p[0].try(opResizeSRQ, out.arg[0], 2); !errors.Is(err, unix.EINVAL) {
		t.Errorf("four receive requests into room for two: %v, want EINVAL", err)
	}
	if _, err := p[0].try(opResizeSRQ, out.arg[0], 8); err != nil {
		t.Fatal(err)
	}
	post(4)
	for id := range uint64(5) {
		if srq.rq.take(srq.slot); native.Uint64(srq.slot) != id {
			t.Fatalf("receive request %d comes as %d", native.Uint64(srq.slot), id)
		}
	}
}

// TestReregister: a region keeps its key, and is as it was after an error.
func TestReregister(t *testing.T) {
	w, p := pairOf(t, 7)
	key := uint64(p[1].key)
	if _, err := p[1].try(opReregMR, key, reregTranslation, 0, 64, 1<<62); err == nil {
		t.Error("memory beyond the program's was accepted")
	}
	if _, err := p[1].try(opReregMR, key, reregTranslation, 0, 4096, 8192); err != nil {
		t.Fatal(err)
	}
	p[0].send(sendWR{opcode: wrWrite, rkey: p[1].key, remote: 4096, sges: []sge{{0, 8, p[0].key}}})
	w.run(fabric.Second)
	p[0].statuses(wcSuccess)
	p[0].send(sendWR{opcode: wrWrite, rkey: p[1].key, remote: 0, sges: []sge{{0, 8, p[0].key}}})
	w.run(fabric.Second)
	p[0].statuses(remAccessErr)
}

// TestRefused: a queue pair whose peer refuses all fails at its time, also where a repetition is due in the same
// moment.
func TestRefused(t *testing.T) {
	w := newWire(t)
	p := [2]*program{w.program(0, nil, 7), w.program(0, nil, 7)} // on one host, so that nothing is under way
	p[0].connect(p[1], 1, 7)
	p[0].send(sendWR{opcode: wrWrite, rkey: p[1].key, sges: []sge{{0, 100, p[0].key}}})
	w.run(fabric.Second)
	q := p[0].q
	if len(q.requests.refused) == 0 {
		t.Fatal("nothing was refused")
	}
	q.requests.againAt, q.requests.lastAckedAt = w.now, w.now-q.silenceLimit()-1
	q.checkRequests(w.now)
	p[0].statuses(retryExcErr)
}
