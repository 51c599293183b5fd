package netsim

import (
	"fmt"
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Never is the wake-up time of an endpoint that waits for nothing but packets.
const Never fabric.Time = math.MaxInt64

// Frame is a packet an [Endpoint] sends. Its length on the wire is the sum of
// Header, Payload and Trailer.
type Frame struct {
	Header  int  // bytes written to the buffer
	Payload int  // bytes of message, virtual
	Trailer int  // bytes after the payload, virtual: 4 for a RoCEv2 ICRC
	Control bool // counted as control on the host's link
}

// Endpoint is a host's NIC, which is asked for packets rather than pushing
// them.
type Endpoint interface {
	// Next is called when the host's port is idle. It writes the header of the
	// next packet to buf (MaxHeader bytes) and returns it, or ok = false and
	// the time at which to be asked again, after now; Never if nothing but a
	// packet or [Network.Wake] can change the answer.
	Next(now fabric.Time, buf []byte) (f Frame, wake fabric.Time, ok bool)
	// Receive takes a packet that has fully arrived: its real bytes, valid
	// during the call, and how many virtual bytes follow them, trailer
	// included. Next is asked afterwards if the port is idle; there is no need
	// to call Wake.
	Receive(now fabric.Time, header []byte, tail int)
}

// host is the port side of an endpoint.
type host struct {
	endpoint Endpoint
	out      LinkDir
	// wakes are the pending poll events, soonest last. A poll is only
	// scheduled when it is sooner than all pending ones, so they are a stack.
	wakes []fabric.Time
}

// Wake makes the host's endpoint be asked for a packet: it has been given
// something to send. It may be called before the run and from everything that
// runs within it; the endpoint is not asked before the caller returns.
func (n *Network) Wake(id fabric.NodeID) {
	if id == n.receiving {
		return // will be asked when Receive returns
	}
	n.wakeAt(id, n.now)
}

func (n *Network) wakeAt(id fabric.NodeID, at fabric.Time) {
	h := &n.hosts[id]
	at = max(at, n.dirs[h.out].busyUntil)
	if k := len(h.wakes); k > 0 && h.wakes[k-1] <= at {
		return
	}
	h.wakes = append(h.wakes, at)
	n.queue.push(eventOf(at, eventPoll, uint32(id), 0))
}

// poll handles a poll event.
func (n *Network) poll(id fabric.NodeID) {
	h := &n.hosts[id]
	h.wakes = h.wakes[:len(h.wakes)-1]
	n.ask(id, h)
}

// ask lets the endpoint send if its port is idle, and schedules the next time.
func (n *Network) ask(id fabric.NodeID, h *host) {
	d := &n.dirs[h.out]
	if n.now < d.busyUntil {
		n.wakeAt(id, d.busyUntil)
		return
	}
	pid, p := n.pool.get()
	f, wake, ok := h.endpoint.Next(n.now, p.data[:])
	if !ok {
		n.pool.put(pid)
		if wake <= n.now {
			n.fail(fmt.Errorf("%w: %s: asked at %v, wants to be asked again at %v, which is not later",
				ErrEndpoint, n.fab.Name(id), n.now, wake))
		} else if wake != Never {
			n.wakeAt(id, wake)
		}
		return
	}
	if f.Header < 1 || f.Header > MaxHeader || f.Payload < 0 || f.Trailer < 0 ||
		f.Header+f.Payload+f.Trailer > MaxPacket {
		n.pool.put(pid)
		n.fail(fmt.Errorf("%w: %s: frame %+v; a header has 1 to %d bytes, a packet at most %d",
			ErrEndpoint, n.fab.Name(id), f, MaxHeader, MaxPacket))
		return
	}
	p.header = uint16(f.Header)
	p.payload = int32(f.Payload)
	p.length = int32(f.Header + f.Payload + f.Trailer)
	p.class = 0
	if f.Control {
		p.class = 1
	}
	n.totals.Created++
	n.transmit(h.out, pid, p)
	n.wakeAt(id, d.busyUntil)
}

// deliver hands a packet to a host.
func (n *Network) deliver(id fabric.NodeID, pid packetID, p *packet) {
	h := &n.hosts[id]
	n.totals.Delivered++
	n.totals.DeliveredPayload += int64(p.payload)
	n.receiving = id
	h.endpoint.Receive(n.now, p.data[:p.header], int(p.length)-int(p.header))
	n.receiving = -1
	n.pool.put(pid)
	n.ask(id, h)
}
