package device

import (
	"fmt"
	"math"
	"net/netip"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// Bounds of what a program may have. The library reports those of limits as the device's.
const (
	maxClients   = 1024
	maxDomains   = 4096
	maxChannels  = 4096
	maxCQs       = 4096
	maxSRQs      = 1024
	maxQPs       = 4096
	maxRegions   = 65536
	maxWindows   = 65536
	maxShared    = 1 << 30 // maximum size in bytes of the rings that a program shares with the device
	maxEntries   = 16384   // maximum number of entries of a work queue
	maxCQEntries = 1 << 20 // libfabric's ofi_rxm asks for 1 << 18
	maxSGEs      = 30
	maxInline    = 1024
	maxReads     = 16 // reads and atomics of a queue pair under way, at each end
)

// deviceLimits are the device's limits that a program reads when it opens the device, in the order of enum nic_limit.
var deviceLimits = [...]uint64{
	maxDomains, maxCQs, maxSRQs, maxQPs, maxRegions, maxEntries, maxCQEntries, maxSGEs, maxReads, maxWindows,
}

// client is a program that has the device open.
type client struct {
	n          *NIC
	memory     programMemory
	bell       *sharedMemory
	seen       uint32              // of the bell
	kick       int                 // what the program writes to
	async      int                 // the pipe's end that is written to
	bytes      int                 // of rings
	regions    map[uint32]struct{} // their keys
	pid        int32               // of the process; 0: not known
	mapped     memoryMap
	accesses   accesses
	lendsFiles bool   // its accesses are made in goroutines
	share      uint16 // of the endpoint's turns, of all connections of the process

	domains  map[uint32]*protectionDomain
	channels map[uint32]*eventChannel
	cqs      map[uint32]*completionQueue
	srqs     map[uint32]*sharedReceive
	qps      map[uint32]*queuePair
	windows  map[uint32]*memoryWindow
}

type protectionDomain struct{ users int }

type eventChannel struct{ fd, users int }

// event notifies the program of something other than a completion.
func (c *client) event(cookie uint64, kind uint32) {
	var b [asyncSize]byte
	native.PutUint64(b[:], cookie)
	native.PutUint32(b[8:], kind)
	unix.Write(c.async, b[:]) //nolint:errcheck // as in push
}

// futexWake is FUTEX_WAKE, of a word that processes share.
const futexWake = 1

// wakePollers wakes the program's threads that poll in vain: there is a completion, or others have written to its
// memory.
func (c *client) wakePollers() {
	atomic.AddUint32(c.bell.wordAt(bellNews), 1)
	if atomic.LoadUint32(c.bell.wordAt(doorbellWaiting)) == 0 {
		return
	}
	atomic.StoreUint32(c.bell.wordAt(doorbellWaiting), 0)
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(c.bell.wordAt(bellNews))), futexWake, math.MaxInt32, 0, 0, 0) //nolint:errcheck // nobody waits any more
}

// doorbellRung reports whether the program has posted since the last look. From now on the program rings a doorbell.
func (c *client) doorbellRung() bool {
	atomic.StoreUint32(c.bell.wordAt(0), 1)
	return atomic.LoadUint32(c.bell.wordAt(bellRung)) != c.seen
}

// lookAtRings schedules all queue pairs to which the program may have posted.
func (c *client) lookAtRings(n *NIC) {
	atomic.StoreUint32(c.bell.wordAt(0), 0)
	now := atomic.LoadUint32(c.bell.wordAt(bellRung))
	if now == c.seen {
		return
	}
	c.seen = now
	for _, s := range c.srqs {
		if len(s.hungry) > 0 && s.rq.waiting() > 0 {
			for q := range s.hungry {
				n.touchQueuePair(q)
			}
			clear(s.hungry)
		}
	}
	for _, q := range c.qps {
		if q.sq.waiting() > 0 || q.srq == nil && (q.inbound.blocked || q.state == uverbs.QPSErr) && q.rq.waiting() > 0 {
			n.touchQueuePair(q)
		}
	}
}

// open makes a client of a program.
func (n *NIC) open(memory int, pid int32, m memoryMap) (*client, []int, error) {
	if len(n.clients) >= maxClients {
		return nil, nil, unix.EMFILE
	}
	if err := checkMemory(memory); err != nil {
		n.refusalLog.Warn("a program was refused", "err", err)
		return nil, nil, unix.EINVAL
	}
	c := n.newClient(memory)
	c.pid, c.share, c.mapped = pid, n.shareOf(pid), m
	var err error
	if c.bell, err = newShared(bellSize); err != nil {
		return nil, nil, unix.ENOMEM
	}
	if c.kick, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		c.bell.close()
		return nil, nil, unix.EMFILE
	}
	read, write, err := newPipe()
	if err != nil {
		c.bell.close()
		unix.Close(c.kick) //nolint:errcheck // nothing was written
		return nil, nil, unix.EMFILE
	}
	c.async = write
	n.clients[c] = struct{}{}
	return c, []int{c.bell.fd, c.kick, read}, nil
}

// newClient makes a client without objects, of a program with such memory.
func (n *NIC) newClient(memory int) *client {
	return &client{
		n: n, memory: programMemory{memory}, domains: map[uint32]*protectionDomain{}, channels: map[uint32]*eventChannel{},
		cqs: map[uint32]*completionQueue{}, srqs: map[uint32]*sharedReceive{}, qps: map[uint32]*queuePair{},
		windows: map[uint32]*memoryWindow{}, regions: map[uint32]struct{}{},
	}
}

// newPipe makes a pipe whose writing end never blocks. The program has the other end, with
// its own flags.
func newPipe() (read, write int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return 0, 0, err
	}
	return p[0], p[1], unix.SetNonblock(p[1], true)
}

// close ends all that a program has.
func (c *client) close(now fabric.Time) {
	for h, q := range c.qps {
		c.destroyQP(now, h, q)
	}
	for _, s := range c.srqs {
		c.free(s.mem)
	}
	for _, q := range c.cqs {
		c.free(q.mem)
	}
	for _, ch := range c.channels {
		c.endChannel(ch)
	}
	for _, w := range c.windows {
		c.endWindow(w)
	}
	for key := range c.regions {
		delete(c.n.regions, key)
		c.n.pools.regions.giveBack(c.share)
	}
	c.bell.close()
	unix.Close(c.kick)  //nolint:errcheck // as above
	unix.Close(c.async) //nolint:errcheck // as above
	c.mapped.close()
	c.closeMemory()
	delete(c.n.clients, c)
}

// addrOf is an IPv4 address as the library writes it.
func addrOf(a uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)})
}

// newHandle assigns a number to a new object, of which a program may have at most the given number. No two objects of
// any kind or program have the same number.
func newHandle[T any](n *NIC, of map[uint32]*T, most int) (uint32, error) {
	if len(of) >= most {
		return 0, unix.ENOMEM
	}
	n.lastHandle++
	return n.lastHandle, nil
}

// createChannel makes a completion channel, of which the NIC keeps a descriptor.
func (c *client) createChannel() (h uint32, read int, err error) {
	if h, err = newHandle(c.n, c.channels, maxChannels); err != nil {
		return 0, -1, err
	}
	if !c.n.pools.descriptors.take(c.share) {
		return 0, -1, unix.EMFILE
	}
	read, write, err := newPipe()
	if err != nil {
		c.n.pools.descriptors.giveBack(c.share)
		return 0, -1, err
	}
	c.channels[h] = &eventChannel{fd: write}
	return h, read, nil
}

func (c *client) endChannel(ch *eventChannel) {
	unix.Close(ch.fd) //nolint:errcheck // nothing is lost
	c.n.pools.descriptors.giveBack(c.share)
}

// newRings makes shared memory for rings, within the program's bound.
func (c *client) newRings(size int) (*sharedMemory, error) {
	if c.bytes+size > maxShared || !c.n.pools.mappings.take(c.share) {
		return nil, unix.ENOMEM
	}
	s, err := newShared(size)
	if err != nil {
		c.n.pools.mappings.giveBack(c.share)
		return nil, unix.ENOMEM
	}
	c.bytes += size
	return s, nil
}

func (c *client) free(s *sharedMemory) {
	c.bytes -= len(s.mem)
	c.n.pools.mappings.giveBack(c.share)
	s.close()
}

// powerOfTwo returns the least one that is at least n.
func powerOfTwo(n uint64) uint32 {
	k := uint32(1)
	for uint64(k) < n {
		k *= 2
	}
	return k
}

// runCall carries out a call. The descriptor that it returns, if not -1, is for the program, and closed here when it is
// sent.
func (c *client) runCall(now fabric.Time, in *programCall) (out programCall, fd int, err error) {
	fd = -1
	a := &in.arg
	small := uint32(a[0])
	if uint64(small) != a[0] {
		return out, fd, unix.EINVAL
	}
	switch callOp(in.word) {
	case opAllocPD:
		var h uint32
		if h, err = newHandle(c.n, c.domains, maxDomains); err == nil {
			c.domains[h] = &protectionDomain{}
			out.arg[0] = uint64(h)
		}
	case opDeallocPD:
		err = dropObject(c.domains, small, func(d *protectionDomain) bool { return d.users > 0 }, nil)
	case opRegMR:
		out.arg[0], err = c.register(a)
	case opDeregMR:
		err = c.deregister(small)
	case opAllocMW:
		err = c.allocWindow(a, &out)
	case opDeallocMW:
		err = dropObject(c.windows, small, func(*memoryWindow) bool { return false }, c.endWindow)
	case opReregMR:
		err = c.reregister(a)
	case opCreateChannel:
		var h uint32
		if h, fd, err = c.createChannel(); err == nil {
			out.arg[0] = uint64(h)
		}
	case opDestroyChannel:
		err = dropObject(c.channels, small, func(ch *eventChannel) bool { return ch.users > 0 }, c.endChannel)
	case opCreateCQ:
		fd, err = c.createCQ(a, &out)
	case opResizeCQ:
		fd, err = c.resizeCQ(now, a, &out)
	case opDestroyCQ:
		err = dropObject(c.cqs, small, func(q *completionQueue) bool { return q.users > 0 }, func(q *completionQueue) {
			if q.channel != nil {
				q.channel.users--
			}
			c.free(q.mem)
		})
	case opCreateSRQ:
		fd, err = c.createSRQ(a, &out)
	case opResizeSRQ:
		fd, err = c.resizeSRQ(a, &out)
	case opModifySRQ:
		if s := c.srqs[small]; s == nil {
			err = unix.ENOENT
		} else if a[1] > uint64(s.rq.count) {
			err = unix.EINVAL
		} else {
			s.limit = uint32(a[1])
		}
	case opQuerySRQ:
		err = unix.ENOENT
		if s := c.srqs[small]; s != nil {
			out.arg[0], err = uint64(s.limit), nil
		}
	case opDestroySRQ:
		err = dropObject(c.srqs, small, func(s *sharedReceive) bool { return s.users > 0 }, func(s *sharedReceive) {
			s.pd.users--
			c.free(s.mem)
		})
	case opCreateQP:
		fd, err = c.createQP(a, &out)
	case opModifyQP:
		err = unix.ENOENT
		if q := c.qps[small]; q != nil {
			err = q.modify(now, a)
		}
	case opQueryQP:
		err = unix.ENOENT
		if q := c.qps[small]; q != nil {
			out.arg[0], err = q.state, nil
		}
	case opDestroyQP:
		err = unix.ENOENT
		if q := c.qps[small]; q != nil {
			c.destroyQP(now, small, q)
			err = nil
		}
	case opQueryPort:
		if !c.n.down {
			out.arg[0] = 1
		}
	case opFindHost:
		out.arg[0], err = c.n.findHost(a[0]<<32 | a[1]&math.MaxUint32)
	default:
		err = unix.ENOSYS
	}
	return out, fd, err
}

// dropObject removes an object that nothing uses.
func dropObject[T any](from map[uint32]*T, h uint32, busy func(*T) bool, end func(*T)) error {
	x := from[h]
	switch {
	case x == nil:
		return unix.ENOENT
	case busy(x):
		return unix.EBUSY
	}
	delete(from, h)
	if end != nil {
		end(x)
	}
	return nil
}

func (c *client) createQP(a *[callArgs]uint64, out *programCall) (int, error) {
	pd, srq := c.domains[uint32(a[0])], c.srqs[uint32(a[4])]
	send, recv := c.cqs[uint32(a[2])], c.cqs[uint32(a[3])]
	switch {
	case pd == nil || send == nil || recv == nil || srq == nil && a[4] != 0:
		return -1, unix.EINVAL
	case a[1] != qptRC && a[1] != qptUD:
		return -1, unix.EOPNOTSUPP
	case a[5] > maxEntries || a[6] > maxEntries || a[7] > maxSGEs || a[8] > maxSGEs || a[9] > maxInline:
		return -1, unix.EINVAL
	case len(c.n.qps) >= 1<<20:
		return -1, unix.ENOMEM
	}
	h, err := newHandle(c.n, c.qps, maxQPs)
	if err != nil {
		return -1, err
	}
	q := &queuePair{
		n: c.n, c: c, typ: a[1], pd: pd, sendCQ: send, recvCQ: recv, srq: srq, sigAll: a[10] != 0, cookie: a[11],
		sendSGEs: int(max(1, a[7])), recvSGEs: int(max(1, a[8])), inline: int(a[9]), number: newNumber(c.n.qps, 1<<24-1),
	}
	q.inline = max(q.inline, q.sendSGEs*sgeSize) // a slot has that much room
	q.sq = sharedRing{count: powerOfTwo(a[5]), stride: sendStride(q.sendSGEs, q.inline)}
	q.rq = sharedRing{count: powerOfTwo(a[6]), stride: recvStride(q.recvSGEs), at: q.sq.bytes()}
	if q.mem, err = c.newRings(q.sq.bytes() + q.rq.bytes()); err != nil {
		return -1, err
	}
	q.sq.s, q.rq.s, q.slot = q.mem, q.mem, make([]byte, q.rq.stride)
	q.requests.q, q.responses.q, q.inbound.q, q.answers.q = q, q, q, q
	pd.users++
	send.users++
	recv.users++
	if srq != nil {
		srq.users++
	}
	c.qps[h] = q
	c.n.qps[q.number] = q
	for i, v := range []int{int(h), int(q.number), int(q.sq.count), int(q.rq.count), q.sendSGEs, q.recvSGEs, q.inline} {
		out.arg[i] = uint64(v)
	}
	return q.mem.passDescriptor(), nil
}

func (c *client) destroyQP(now fabric.Time, h uint32, q *queuePair) {
	q.leaveDevice(now)
	q.reset(now)
	delete(c.qps, h)
	delete(c.n.qps, q.number)
	delete(c.n.waiting, q)
	for _, w := range c.windows {
		if w.q == q {
			w.unbind()
		}
	}
	q.pd.users--
	q.sendCQ.users--
	q.recvCQ.users--
	if q.srq != nil {
		q.srq.users--
		delete(q.srq.hungry, q)
	}
	c.free(q.mem)
	q.sq.count, q.rq.count = 0, 0
}

func (q *queuePair) String() string {
	return fmt.Sprintf("queue pair %#x to %#x of host %d, state %d", q.number, q.peer, q.dst, q.state)
}
