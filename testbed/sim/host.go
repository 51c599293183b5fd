package sim

import (
	"fmt"
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Never is the wake-up time of an endpoint that has nothing to send until it receives a packet or is woken.
const Never fabric.Time = math.MaxInt64

// Frame describes a packet that an [Endpoint] sends. Its length is the sum of Header, Payload and Trailer.
type Frame struct {
	Header  int  // bytes of headers written to the buffer
	Payload int  // bytes of payload, which have no content
	Trailer int  // bytes after the payload, without content: 4 for a RoCEv2 ICRC
	Control bool // counted as a control packet on the host's link
}

// Endpoint is a host's NIC. The network asks it for packets when the host's port is idle.
type Endpoint interface {
	// Next is called when the host's port is idle. It writes the headers of the next packet to buf (MaxHeader bytes)
	// and returns it. If there is none, ok is false, and wake is the later time at which to ask again, or [Never] if
	// only a packet or [Network.Wake] can change that.
	Next(now fabric.Time, buf []byte) (f Frame, wake fabric.Time, ok bool)
	// Receive processes a packet that has completely arrived: its headers, valid during the call, and the number of
	// bytes behind them, trailer included. Afterwards the network calls Next if the port is idle, without a call of
	// Wake.
	Receive(now fabric.Time, header []byte, tail int)
}

// MultiPort is an endpoint with several ports: one into each plane of its fabric. After an event of one port, all
// ports are asked for packets.
type MultiPort interface {
	// Port returns the endpoint that sends and receives by a port, numbered from 0.
	Port(number int) Endpoint
}

// host is a port of an endpoint.
type host struct {
	endpoint Endpoint
	node     fabric.NodeID
	out      LinkDir
	// wakes are the pending poll events, soonest last. A poll is only
	// scheduled when it is sooner than all pending ones, so they are a stack.
	wakes []fabric.Time
}

// Wake tells the network that a host's endpoint has something to send. It may be called before the run and from
// everything that runs within it; the endpoint is asked after the caller has returned.
func (n *Network) Wake(id fabric.NodeID) {
	r := n.regionOf(id)
	if id == r.receiving {
		return // will be asked when Receive returns
	}
	for port := int(id); port < len(r.ports); port += len(r.hosts) {
		r.wakeAt(port, r.now)
	}
}

// wakeAt schedules a request for a packet from a port.
func (r *region) wakeAt(port int, at fabric.Time) {
	h := &r.ports[port]
	at = max(at, r.dirs[h.out].busyUntil)
	if k := len(h.wakes); k > 0 && h.wakes[k-1] <= at {
		return
	}
	h.wakes = append(h.wakes, at)
	r.queue.push(eventOf(at, eventPoll, uint32(port), 0))
}

// poll handles a poll event.
func (r *region) poll(port int) {
	h := &r.ports[port]
	h.wakes = h.wakes[:len(h.wakes)-1]
	r.ask(port, h)
}

// ask requests a packet from the endpoint if its port is idle, and schedules the next request.
func (r *region) ask(port int, h *host) {
	d := &r.dirs[h.out]
	if r.now < d.busyUntil {
		r.wakeAt(port, d.busyUntil)
		return
	}
	pid, p := r.pool.get()
	f, wake, ok := h.endpoint.Next(r.now, p.data[:])
	if !ok {
		r.pool.put(pid)
		if wake <= r.now {
			r.fail(fmt.Errorf("%w: %s: asked at %v, wants to be asked again at %v, which is not later",
				ErrEndpoint, r.fab.Name(h.node), r.now, wake))
		} else if wake != Never {
			r.wakeAt(port, wake)
		}
		return
	}
	if f.Header < 1 || f.Header > MaxHeader || f.Payload < 0 || f.Trailer < 0 ||
		f.Header+f.Payload+f.Trailer > MaxPacket {
		r.pool.put(pid)
		r.fail(fmt.Errorf("%w: %s: frame %+v; a header has 1 to %d bytes, a packet at most %d",
			ErrEndpoint, r.fab.Name(h.node), f, MaxHeader, MaxPacket))
		return
	}
	p.header = uint8(f.Header)
	p.payload = int32(f.Payload)
	p.length = int32(f.Header + f.Payload + f.Trailer)
	p.class, p.pause, p.is = 0, 0, 0
	if f.Control {
		p.class = 1
	}
	r.totals.Created++
	r.transmit(h.out, pid, p)
	r.wakeAt(port, d.busyUntil)
}

// deliver hands a packet to a host.
func (r *region) deliver(to fabric.End, pid packetID, p *packet) {
	port := int(to.Node) + int(to.Port-1)*len(r.hosts)
	h := &r.ports[port]
	r.totals.Delivered++
	r.totals.DeliveredPayload += int64(p.payload)
	r.receiving = to.Node
	h.endpoint.Receive(r.now, p.data[:p.header], int(p.length)-int(p.header))
	r.receiving = -1
	r.pool.put(pid)
	r.ask(port, h)
	for other := int(to.Node); other < len(r.ports); other += len(r.hosts) {
		if other != port {
			r.wakeAt(other, r.now)
		}
	}
}
