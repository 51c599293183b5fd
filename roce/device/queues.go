//go:build linux

package device

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// completionQueue is a program's completion queue.
type completionQueue struct {
	c       *client
	mem     *sharedMemory
	ring    sharedRing
	cookie  uint64
	channel *eventChannel
	users   int
	overrun bool
}

// addCompletion adds a completion, and wakes the program if it asked to be.
func (q *completionQueue) addCompletion(x *completion) {
	defer q.c.wakePollers()
	if !q.ring.push(x) {
		if !q.overrun {
			q.overrun = true
			q.c.event(q.cookie, eventCQErr)
		}
		return
	}
	want := q.ring.isArmed()
	if q.channel == nil || want == 0 || want == 2 && !x.solicited && x.status == wcSuccess {
		return
	}
	if q.ring.disarm() != 0 {
		var b [8]byte
		native.PutUint64(b[:], q.cookie)
		unix.Write(q.channel.fd, b[:]) //nolint:errcheck // a program that has thousands of events waiting reads none
	}
}

// sharedReceive is a shared receive queue.
type sharedReceive struct {
	c      *client
	pd     *protectionDomain
	mem    *sharedMemory
	rq     sharedRing
	sges   int
	slot   []byte
	cookie uint64
	limit  uint32 // wake the program when fewer are there; 0: no
	users  int
	hungry map[*queuePair]struct{}
}

// receiveTaken takes note that a receive request was used up.
func (s *sharedReceive) receiveTaken() {
	if s.limit > 0 && s.rq.waiting() < s.limit {
		s.limit = 0
		s.c.event(s.cookie, eventSRQLimit)
	}
}

func (c *client) createCQ(a *[callArgs]uint64, out *programCall) (int, error) {
	ch := c.channels[uint32(a[1])]
	if a[0] < 1 || a[0] > maxCQEntries || ch == nil && a[1] != 0 {
		return -1, unix.EINVAL
	}
	h, err := newHandle(c.n, c.cqs, maxCQs)
	if err != nil {
		return -1, err
	}
	r := sharedRing{count: powerOfTwo(a[0]), stride: cqeSize}
	if r.s, err = c.newRings(r.bytes()); err != nil {
		return -1, err
	}
	q := &completionQueue{c: c, mem: r.s, ring: r, cookie: a[2], channel: ch}
	if ch != nil {
		ch.users++
	}
	c.cqs[h] = q
	out.arg[0], out.arg[1] = uint64(h), uint64(r.count)
	return r.s.passDescriptor(), nil
}

func (c *client) createSRQ(a *[callArgs]uint64, out *programCall) (int, error) {
	pd := c.domains[uint32(a[0])]
	if pd == nil || a[1] < 1 || a[1] > maxEntries || a[2] > maxSGEs {
		return -1, unix.EINVAL
	}
	h, err := newHandle(c.n, c.srqs, maxSRQs)
	if err != nil {
		return -1, err
	}
	sges := int(max(1, a[2]))
	r := sharedRing{count: powerOfTwo(a[1]), stride: recvStride(sges)}
	if r.s, err = c.newRings(r.bytes()); err != nil {
		return -1, err
	}
	pd.users++
	c.srqs[h] = &sharedReceive{
		c: c, pd: pd, mem: r.s, rq: r, sges: sges, slot: make([]byte, r.stride), cookie: a[3], hungry: map[*queuePair]struct{}{},
	}
	out.arg[0], out.arg[1], out.arg[2] = uint64(h), uint64(r.count), uint64(sges)
	return r.s.passDescriptor(), nil
}

// resizeCQ gives a completion queue a ring of another size. The program polls none of it meanwhile.
func (c *client) resizeCQ(now fabric.Time, a *[callArgs]uint64, out *programCall) (int, error) {
	q := c.cqs[uint32(a[0])]
	if q == nil {
		return -1, unix.ENOENT
	}
	c.n.Tick(now) // what was posted before may complete now, and needs room
	head := q.ring.index
	tail := atomic.LoadUint32(q.ring.s.wordAt(ringTail))
	if a[1] < 1 || a[1] > maxCQEntries || head-tail > q.ring.count || uint64(head-tail) > a[1] {
		return -1, unix.EINVAL
	}
	s, err := c.ringOf(&q.ring, a[1], out)
	if err != nil {
		return -1, err
	}
	q.ring = q.ring.movedTo(s, uint32(out.arg[0]), tail, head)
	c.free(q.mem)
	q.mem = s
	return s.passDescriptor(), nil
}

// resizeSRQ gives a shared receive queue a ring of another size. The program posts nothing meanwhile.
func (c *client) resizeSRQ(a *[callArgs]uint64, out *programCall) (int, error) {
	q := c.srqs[uint32(a[0])]
	if q == nil {
		return -1, unix.ENOENT
	}
	waits := q.rq.waiting()
	if a[1] < 1 || a[1] > maxEntries || uint64(waits) > a[1] || uint64(q.limit) > a[1] {
		return -1, unix.EINVAL
	}
	s, err := c.ringOf(&q.rq, a[1], out)
	if err != nil {
		return -1, err
	}
	q.rq = q.rq.movedTo(s, uint32(out.arg[0]), q.rq.index, q.rq.index+waits)
	c.free(q.mem)
	q.mem = s
	return s.passDescriptor(), nil
}

// ringOf makes memory for a ring like r with as many entries, and puts their number into the answer.
func (c *client) ringOf(r *sharedRing, entries uint64, out *programCall) (*sharedMemory, error) {
	to := sharedRing{count: powerOfTwo(entries), stride: r.stride}
	out.arg[0] = uint64(to.count)
	return c.newRings(to.bytes())
}
