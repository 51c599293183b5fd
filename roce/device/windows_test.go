//go:build linux

package device

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// window makes a memory window of a program, and returns its handle and key.
func (p *program) window(typ uint64) (handle uint64, key uint32) {
	p.w.t.Helper()
	out, err := p.try(opAllocMW, uint64(p.h[0]), typ)
	if err != nil {
		p.w.t.Fatal(err)
	}
	return out.arg[0], uint32(out.arg[1])
}

// bind posts a request to bind 64 bytes at 128 under a key.
func (p *program) bind(key uint32, access, length uint64) {
	p.send(sendWR{opcode: wrBind, rkey: key, remote: 128, a: length, b: access, qkey: p.key})
}

// TestWindows binds windows, reaches memory by them, and takes the access away.
func TestWindows(t *testing.T) {
	const all = uverbs.AccessRemoteRead | uverbs.AccessRemoteWrite | uverbs.AccessRemoteAtomic
	pairOf := func(t *testing.T) (*wire, [2]*program) {
		w, p := pairOf(t, 7)
		p[1].key = p[1].call(opRegMR, uint64(p[1].h[0]), 0, 4<<20, 15|uverbs.AccessMWBind, 0)
		return w, p
	}
	read := func(p [2]*program, key uint32, at uint64, want ...status) {
		t.Helper()
		p[0].send(sendWR{opcode: wrRead, rkey: key, remote: at, sges: []sge{{0, 32, p[0].key}}})
		p[0].w.run(fabric.Second)
		p[0].statuses(want...)
	}
	t.Run("type 1", func(t *testing.T) {
		w, p := pairOf(t)
		h, key := p[1].window(windowType1)
		p[1].bind(key+1, all, 64)
		w.run(fabric.Second)
		p[1].statuses(wcSuccess)
		read(p, key+1, 160, wcSuccess)
		p[1].bind(key+2, all, 64) // again, without an end between
		w.run(fabric.Second)
		p[1].statuses(wcSuccess)
		if _, err := p[1].try(opDeregMR, uint64(p[1].key)); !errors.Is(err, unix.EBUSY) {
			t.Errorf("the region of a bound window: %v, want EBUSY", err)
		}
		if _, err := p[1].try(opDeallocMW, h); err != nil {
			t.Error(err)
		}
		if _, err := p[1].try(opDeregMR, uint64(p[1].key)); err != nil {
			t.Error(err)
		}
		read(p, key+2, 160, remAccessErr)
	})
	t.Run("beyond it", func(t *testing.T) {
		w, p := pairOf(t)
		_, key := p[1].window(windowType2)
		p[1].bind(key+1, all, 64)
		w.run(fabric.Second)
		p[1].statuses(wcSuccess)
		read(p, key+1, 161, remAccessErr)
	})
	t.Run("from zero", func(t *testing.T) {
		w, p := pairOf(t)
		_, key := p[1].window(windowType2)
		p[1].bind(key, all|uverbs.AccessZeroBased, 64)
		w.run(fabric.Second)
		p[1].memory[128] = 7
		read(p, key, 0, wcSuccess)
		if p[0].memory[0] != 7 {
			t.Error("other bytes")
		}
	})
	t.Run("invalidated by the other side", func(t *testing.T) {
		w, p := pairOf(t)
		_, key := p[1].window(windowType2)
		p[1].bind(key, all, 64)
		w.run(fabric.Second)
		p[1].statuses(wcSuccess)
		p[1].recv(5)
		p[0].send(sendWR{opcode: wrSendInv, rkey: key})
		w.run(fabric.Second)
		p[0].statuses(wcSuccess)
		p[1].statuses(wcSuccess)
		read(p, key, 128, remAccessErr)
	})
	for _, c := range []struct {
		name string
		do   func(p *program)
	}{
		{"bound twice", func(p *program) {
			_, key := p.window(windowType2)
			p.bind(key, all, 64)
			p.bind(key+1, all, 64)
		}},
		{"type 2 without bytes", func(p *program) {
			_, key := p.window(windowType2)
			p.bind(key, all, 0)
		}},
		{"a region that may not be bound", func(p *program) {
			_, key := p.window(windowType1)
			p.key = p.call(opRegMR, uint64(p.h[0]), 0, 4096, 15, 0)
			p.bind(key, all, 64)
		}},
		{"no such window", func(p *program) { p.bind(1<<31, all, 64) }},
		{"invalidated before it is bound", func(p *program) {
			_, key := p.window(windowType2)
			p.send(sendWR{opcode: wrLocalInv, rkey: key})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, p := pairOf(t)
			w.t = t
			c.do(p[1])
			w.run(fabric.Second)
			got := p[1].poll()
			if len(got) == 0 || got[len(got)-1].status != mwBindErr {
				t.Errorf("%+v, want a bind error at last", got)
			}
		})
	}
}

// TestBindWaits: a window is bound after what was posted before it is complete, also where nobody asked whether it is.
func TestBindWaits(t *testing.T) {
	w, p := pairOf(t, 7)
	p[0].key = p[0].call(opRegMR, uint64(p[0].h[0]), 0, 4<<20, 15|uverbs.AccessMWBind, 0)
	_, key := p[0].window(windowType1)
	b := make([]byte, sendSize)
	native.PutUint32(b[8:], wrWrite) // not signaled
	native.PutUint32(b[28:], p[1].key)
	p[0].post(&p[0].q.sq, b)
	p[0].bind(key, uverbs.AccessRemoteRead, 64)
	w.run(fabric.Second)
	p[0].statuses(wcSuccess)
}
