//go:build linux

package device

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// A program's memory may be a file's, on a file system that does not answer: an access takes until that does, and holds
// up others of the same program meanwhile. So all accesses of a program that lends such memory are made in goroutines.
// Its own transfers wait for them; no other program's do. Bytes to send are read before a flow is handed to the agent.
// A stream that receives waits, as for a receive request. Other programs' memory is accessed when a packet is sent or
// has arrived: that is faster by a quarter.

// accesses are a program's accesses in goroutines.
type accesses struct {
	fetches, stores lane
	kept            int64 // bytes that were read, or are being read, of flows under way
	closed          bool  // the program has ended: the last goroutine's end frees its memory's descriptor
}

// lane is accesses that are made one after another, in one goroutine at a time.
type lane struct {
	queue []access
	busy  bool
}

// access is an access to a program's memory. The driver calls all but do.
type access struct {
	wanted func() bool // it is still to be made, or its end of interest
	room   func() bool // it may begin, and does; nil: it may
	do     func() error
	done   func(now fabric.Time, err error)
}

// maxKept bounds what is kept of a program's bytes.
const maxKept = 256 << 20

// accessResult are accesses that have ended.
type accessResult struct {
	wake int // eventfd: wakes the driver; -1: accesses are made where they are needed
	any  atomic.Bool
	mu   sync.Mutex
	ends []accessEnd
}

type accessEnd struct {
	access
	c   *client
	l   *lane
	err error
}

// accessInGoroutines has accesses to files made in goroutines, from now on.
func (n *NIC) accessInGoroutines() (end func(), err error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("nic: eventfd: %w", err)
	}
	n.accessed.wake = fd
	return func() {
		n.accessed.mu.Lock()
		defer n.accessed.mu.Unlock()
		n.accessed.wake = -1
		unix.Close(fd) //nolint:errcheck // nothing is lost
	}, nil
}

// readsByThread reports whether a program's accesses are made in goroutines; from now on, if one of these places is a
// file's.
func (c *client) readsByThread(now fabric.Time, places []sge) bool {
	for i := 0; i < len(places) && !c.lendsFiles; i++ {
		c.lendsFiles = c.mapped.mapsFile(now, places[i].addr, uint64(places[i].length))
	}
	return c.accessesInGoroutines()
}

func (c *client) accessesInGoroutines() bool { return c.lendsFiles && c.n.accessed.wake >= 0 }

// queueAccess queues a memory access in its lane.
func (c *client) queueAccess(l *lane, a access) {
	l.queue = append(l.queue, a)
	c.advanceLane(l)
}

// advanceLane starts the lane's next access, if there is one and room for it.
func (c *client) advanceLane(l *lane) {
	for len(l.queue) > 0 && !l.busy && !c.accesses.closed {
		a := l.queue[0]
		if a.wanted() {
			if a.room != nil && !a.room() {
				return
			}
			l.busy = true
			go func() {
				err := a.do()
				x := &c.n.accessed
				x.mu.Lock()
				defer x.mu.Unlock()
				x.ends = append(x.ends, accessEnd{a, c, l, err})
				x.any.Store(true)
				if x.wake >= 0 {
					unix.Write(x.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) //nolint:errcheck // it is readable already
				}
			}()
		}
		l.queue = l.queue[1:]
	}
}

// continueEndedAccesses continues the flows and messages whose memory accesses have ended.
func (n *NIC) continueEndedAccesses(now fabric.Time) {
	if !n.accessed.any.Load() {
		return
	}
	n.accessed.mu.Lock()
	ends := n.accessed.ends
	n.accessed.ends = nil
	n.accessed.any.Store(false)
	n.accessed.mu.Unlock()
	for _, x := range ends {
		x.l.busy = false
		if x.c.accesses.closed {
			x.c.closeMemory()
			continue
		}
		if x.wanted() {
			x.done(now, x.err)
		}
		x.c.advanceLane(x.l)
	}
}

// payloadPlaces returns the program in whose memory a flow's bytes are, at least in part, and where; nil: none are.
func (f *flow) payloadPlaces() (c *client, places []sge) {
	end := f.span.at + uint64(f.span.n)
	for i := f.s.segmentAt(f.span.at); i < len(f.s.segs) && int64(end-f.s.segs[i].at) > 0; i++ {
		if g := &f.s.segs[i]; g.memory != nil {
			c, places = g.memory, append(places, g.sges...)
		}
	}
	return c, places
}

// fetchPayload has a flow's bytes read before it is sent.
func (c *client) fetchPayload(f *flow) {
	x := &c.accesses
	var data []byte
	// What the goroutine reads of the stream is not changed as long as it is there.
	at, segs := f.span.at, f.s.segs[f.s.segmentAt(f.span.at):]
	c.queueAccess(&x.fetches, access{
		wanted: func() bool { return c.n.flows[f.id] == f },
		room: func() bool {
			if x.kept > 0 && x.kept+f.span.n > maxKept {
				return false
			}
			f.owner = c
			x.kept += f.span.n
			data = make([]byte, f.span.n)
			return true
		},
		do: func() error { return readSegments(data, at, segs) },
		done: func(now fabric.Time, err error) {
			if err != nil {
				f.s.broken = true
				c.n.waitForSession(f.s.q)
				return
			}
			f.data = data
			c.n.openPieces(now, f)
		},
	})
}

// readSegments fills b with the bytes of a stream from at on; what is before the segments is zero.
func readSegments(b []byte, at uint64, segs []segment) error {
	for i := 0; i < len(segs) && len(b) > 0; i++ {
		g := &segs[i]
		if before := int64(g.at - at); before > 0 {
			k := min(before, int64(len(b)))
			b, at = b[k:], at+uint64(k)
		}
		k := min(g.len()-(at-g.at), uint64(len(b)))
		if err := g.read(b[:k], at-g.at); err != nil {
			return err
		}
		b, at = b[k:], at+k
	}
	return nil
}

// dropFlow forgets the state of a flow.
func (n *NIC) dropFlow(f *flow) {
	if n.flows[f.id] != f {
		return
	}
	delete(n.flows, f.id)
	if c := f.owner; c != nil {
		c.accesses.kept -= f.span.n
		f.owner, f.data = nil, nil
		c.advanceLane(&c.accesses.fetches)
	}
}

// repostForGoroutines posts pieces again as flows whose bytes are read by another thread, because the program has begun
// to lend memory that is mapped from files.
func (n *NIC) repostForGoroutines(now fabric.Time) {
	pieces := n.postponed
	n.postponed = nil
	for _, p := range pieces {
		if n.pieces[p.qp] == p {
			delete(n.pieces, p.qp)
			n.host.CloseFlow(now, p.qp)
			n.pieceRefused(now, p)
		}
	}
}

// closeMemory closes the program's memory, when nobody uses it any more.
func (c *client) closeMemory() {
	x := &c.accesses
	if x.closed = true; !x.fetches.busy && !x.stores.busy {
		unix.Close(c.memory.fd) //nolint:errcheck // nothing was written
	}
}
