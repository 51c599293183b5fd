//go:build linux

package device

import (
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// memoryWindow is a part of a region that others reach by a key that programs change by work requests, without
// a call. The key's upper 24 bits are its index, of which the highest is set, so that no region has it; the lower eight
// are the program's.
type memoryWindow struct {
	c     *client
	pd    *protectionDomain
	typ   uint64
	index uint32

	r      *memoryRegion // that it is bound to; nil: it gives access to nothing
	q      *queuePair    // alone may be asked by its key: type 2
	key    uint32
	addr   uint64 // in the region's addresses
	length uint64
	base   uint64 // what others call addr
	access uint64
}

const (
	windowType1 = 1
	windowType2 = 2
	windowBit   = 1 << 23 // bit of an index in an RKey that marks a memory window
)

func (w *memoryWindow) unbind() {
	if w.r != nil {
		w.r.windows--
		w.r, w.q = nil, nil
	}
}

// allocWindow makes a window. Its key is of no use before it is bound.
func (c *client) allocWindow(a *[callArgs]uint64, out *programCall) error {
	pd := c.domains[uint32(a[0])]
	if pd == nil || a[1] != windowType1 && a[1] != windowType2 {
		return unix.EINVAL
	}
	h, err := newHandle(c.n, c.windows, maxWindows)
	if err != nil {
		return err
	}
	if !c.n.pools.windows.take(c.share) {
		return unix.ENOMEM
	}
	w := &memoryWindow{c: c, pd: pd, typ: a[1]}
	for w.index == 0 || c.n.windows[w.index] != nil {
		w.index = rand.Uint32()&(windowBit-1) | windowBit
	}
	w.key = w.index << 8
	pd.users++
	c.windows[h], c.n.windows[w.index] = w, w
	out.arg[0], out.arg[1] = uint64(h), uint64(w.key)
	return nil
}

func (c *client) endWindow(w *memoryWindow) {
	w.unbind()
	w.pd.users--
	delete(c.n.windows, w.index)
	c.n.pools.windows.giveBack(c.share)
}

// windowOf finds a program's window by a key, of which the index alone counts.
func (c *client) windowOf(key uint32) *memoryWindow {
	if w := c.n.windows[key>>8]; w != nil && w.c == c {
		return w
	}
	return nil
}

// bindWindow carries out a request to bind a window. The status is the request's.
func (q *queuePair) bindWindow(r *sendRequest) status {
	w := q.c.windowOf(r.rkey)
	addr, length, access := r.remote, r.compare, r.swap
	if w == nil || w.pd != q.pd || w.typ == windowType2 && (w.r != nil || length == 0) {
		return mwBindErr
	}
	if length == 0 { // type 1 ends so
		w.unbind()
		w.key = r.rkey
		return wcSuccess
	}
	mr := q.n.regions[r.qkey]
	if mr == nil || mr.c != q.c || mr.pd != w.pd || access&uverbs.AccessZeroBased != 0 && w.typ == windowType1 {
		return mwBindErr
	}
	need := uint64(uverbs.AccessMWBind)
	if access&(uverbs.AccessRemoteWrite|uverbs.AccessRemoteAtomic) != 0 {
		need |= uverbs.AccessLocalWrite
	}
	if _, ok := mr.offsetOf(addr, length, need); !ok {
		return mwBindErr
	}
	w.unbind()
	w.r, w.key, w.addr, w.length, w.base, w.access = mr, r.rkey, addr, length, addr, access
	if access&uverbs.AccessZeroBased != 0 {
		w.base = 0
	}
	if w.typ == windowType2 {
		w.q = q
	}
	mr.windows++
	return wcSuccess
}

// invalidate takes a window's access away. It must be of type 2, and bound on this queue pair.
func (q *queuePair) invalidate(key uint32) bool {
	w := q.c.windowOf(key)
	if w == nil || w.key != key || w.r == nil || w.typ != windowType2 || w.q != q {
		return false
	}
	w.unbind()
	return true
}

// throughWindow finds memory that the other side may use by a window's key.
func (q *queuePair) throughWindow(key uint32, addr, n, access uint64) (uint64, bool) {
	w := q.c.windowOf(key)
	if w == nil || w.key != key || w.r == nil || w.pd != q.pd || w.typ == windowType2 && w.q != q ||
		w.access&access != access || addr < w.base || addr-w.base > w.length || n > w.length-(addr-w.base) {
		return 0, false
	}
	return w.r.addr + (w.addr - w.r.iova) + (addr - w.base), true
}

// doLocal carries out a request that concerns this side alone. What was posted before it is complete.
func (q *queuePair) doLocal(r *sendRequest) status {
	switch {
	case r.opcode == wrBind:
		return q.bindWindow(r)
	case q.invalidate(r.rkey):
		return wcSuccess
	}
	return mwBindErr
}

// noneOutstanding reports whether all requests taken are complete. Those that nobody asked about are asked about.
func (q *queuePair) noneOutstanding() bool {
	var last *request
	for _, w := range q.sent {
		if !w.done {
			last = w
		}
	}
	if last == nil {
		return true
	}
	if !last.signaled && !last.fetches() && (!q.asked || q.askedMSN != last.msn) {
		q.asked, q.askedMSN = true, last.msn
		h := header{op: msgSettle, flags: flagAck, msn: last.msn}
		q.requests.appendContent(messageContent{local: h.append(nil)})
	}
	return false
}
