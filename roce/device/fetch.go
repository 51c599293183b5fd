//go:build linux

package device

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// A program's memory may be a file's, on a file system that does not answer: a read of it then takes until that does. So
// bytes of files are read before a flow is handed to the agent, in a goroutine, one of each program at a time. Its own
// flows wait for it; no other program's do. Other memory is read when a packet is sent: that is faster by a quarter.

// fetching is a program's reads of files.
type fetching struct {
	queue  []*flow // whose bytes are to be read, in order
	busy   bool    // a goroutine reads
	kept   int64   // bytes that were read, or are being read, of flows under way
	closed bool    // the program has ended: the goroutine's end frees its memory's descriptor
}

// maxKept bounds what is kept of a program's bytes.
const maxKept = 256 << 20

// fetched are reads that have ended.
type fetched struct {
	wake int // eventfd: wakes the driver; -1: reads are done where they are needed
	any  atomic.Bool
	mu   sync.Mutex
	ends []fetchEnd
}

type fetchEnd struct {
	f    *flow
	c    *client
	data []byte
	err  error
}

// fetchAside has programs' bytes read in goroutines, from now on.
func (n *NIC) fetchAside() (end func(), err error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("nic: eventfd: %w", err)
	}
	n.fetched.wake = fd
	return func() {
		n.fetched.mu.Lock()
		defer n.fetched.mu.Unlock()
		n.fetched.wake = -1
		unix.Close(fd) //nolint:errcheck // nothing is lost
	}, nil
}

// ofFile returns the program in whose mapped files a flow's bytes are, at least in part; nil: none are.
func (f *flow) ofFile() *client {
	end := f.span.at + uint64(f.span.n)
	for i := f.s.find(f.span.at); i < len(f.s.segs) && int64(end-f.s.segs[i].at) > 0; i++ {
		if g := &f.s.segs[i]; g.memory != nil && slices.ContainsFunc(g.sges, g.memory.inFile) {
			return g.memory
		}
	}
	return nil
}

// inFile reports whether memory is in a region of files.
func (c *client) inFile(s sge) bool {
	if c.fileRegions == 0 {
		return false
	}
	for key := range c.regions {
		if r := c.n.regions[key]; r.file && s.addr < r.addr+r.length && r.addr < s.addr+uint64(s.length) {
			return true
		}
	}
	return false
}

// mapsFile reports whether a process has mapped a file, of no memory file system that the kernel mounts itself, anywhere
// in its memory from addr on. Of a process that cannot be looked at, it reports false.
func mapsFile(pid int32, addr, n uint64) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var from, to, offset, inode uint64
		var mode, device, name string
		fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d %s", &from, &to, &mode, &offset, &device, &inode, &name) //nolint:errcheck // a name may be missing
		if from < addr+n && addr < to && inode != 0 &&
			!strings.HasPrefix(name, "/dev/shm/") && !strings.HasPrefix(name, "/memfd:") && !strings.HasPrefix(name, "/SYSV") && name != "/dev/zero" {
			return true
		}
	}
	return false
}

// fetch has a flow's bytes read before it is sent.
func (c *client) fetch(f *flow) {
	c.fetching.queue = append(c.fetching.queue, f)
	c.fetchNext()
}

// fetchNext begins the next read, if there is one, and room for it.
func (c *client) fetchNext() {
	x := &c.fetching
	for len(x.queue) > 0 && !x.busy && !x.closed {
		f := x.queue[0]
		if c.n.flows[f.id] != f { // it is not wanted any more
			x.queue = x.queue[1:]
			continue
		}
		if x.kept > 0 && x.kept+f.span.n > maxKept {
			return
		}
		x.queue = x.queue[1:]
		x.busy, f.owner = true, c
		x.kept += f.span.n
		// What the goroutine reads of the stream is not changed as long as it is there.
		at, size, segs := f.span.at, f.span.n, f.s.segs[f.s.find(f.span.at):]
		go func() {
			data := make([]byte, size)
			err := readSegments(data, at, segs)
			y := &c.n.fetched
			y.mu.Lock()
			defer y.mu.Unlock()
			y.ends = append(y.ends, fetchEnd{f, c, data, err})
			y.any.Store(true)
			if y.wake >= 0 {
				unix.Write(y.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) //nolint:errcheck // it is readable already
			}
		}()
	}
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

// takeFetched sends the flows whose bytes have been read.
func (n *NIC) takeFetched(now fabric.Time) {
	if !n.fetched.any.Load() {
		return
	}
	n.fetched.mu.Lock()
	ends := n.fetched.ends
	n.fetched.ends = nil
	n.fetched.any.Store(false)
	n.fetched.mu.Unlock()
	for _, x := range ends {
		x.c.fetching.busy = false
		switch {
		case x.c.fetching.closed:
			unix.Close(x.c.memory.fd) //nolint:errcheck // nothing was written
			continue
		case n.flows[x.f.id] != x.f: // it was given up meanwhile
		case x.err != nil:
			x.f.s.broken = true
			n.wait(x.f.s.q)
		default:
			x.f.data = x.data
			n.carry(now, x.f)
		}
		x.c.fetchNext()
	}
}

// drop forgets a flow.
func (n *NIC) drop(f *flow) {
	if n.flows[f.id] != f {
		return
	}
	delete(n.flows, f.id)
	if c := f.owner; c != nil {
		c.fetching.kept -= f.span.n
		f.owner, f.data = nil, nil
		c.fetchNext()
	}
}

// closeMemory closes the program's memory, when nobody reads it any more.
func (c *client) closeMemory() {
	if c.fetching.closed = true; !c.fetching.busy {
		unix.Close(c.memory.fd) //nolint:errcheck // nothing was written
	}
}
