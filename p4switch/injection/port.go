package injection

import (
	"slices"
	"sync"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// Port is one port; it implements [port.Port].
type Port struct {
	service *Service
	number  uint32

	mu       sync.Mutex
	queue    []packet // towards the switch
	counters port.Counters
	poller   *port.Poller
	id       int

	tag uint64 // of the packet in Receive
}

// packet is a client's packet with the id of its request.
type packet struct {
	frame []byte
	id    uint64
}

// Number returns the port number in the P4 program.
func (p *Port) Number() uint32 { return p.number }

func (p *Port) deliver(frame []byte, request uint64) {
	p.mu.Lock()
	if len(p.queue) >= maxWaiting {
		p.counters.InLost++
		p.mu.Unlock()
		return
	}
	p.queue = append(p.queue, packet{slices.Clone(frame), request})
	poller, id := p.poller, p.id
	p.mu.Unlock()
	if poller != nil {
		poller.Notify(port.Event{ID: id, In: true})
	}
}

// Attach adds the port to a poller, for [port.Port].
func (p *Port) Attach(poller *port.Poller, id int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.poller, p.id = poller, id
	return nil
}

// Receive calls f with the frames that have arrived, up to a limit, for [port.Port].
func (p *Port) Receive(limit int, f func([]byte)) int {
	p.mu.Lock()
	n := min(limit, len(p.queue))
	packets := p.queue[:n:n]
	p.queue = p.queue[n:]
	p.counters.InPkts += uint64(n)
	for _, x := range packets {
		p.counters.InOctets += uint64(len(x.frame))
	}
	p.mu.Unlock()
	for _, x := range packets {
		p.tag = x.id
		f(x.frame)
	}
	return n
}

// Tag returns the ID of the client's request whose packet [Port.Receive] is delivering.
func (p *Port) Tag() uint64 { return p.tag }

// Send sends frames while there is room, and returns the number accepted, for [port.Port].
func (p *Port) Send(frames [][]byte) int { return p.SendTagged(frames, make([]uint64, len(frames))) }

// SendTagged sends frames to the client, each with the ID of the request that caused it. Without a client they are
// lost.
func (p *Port) SendTagged(frames [][]byte, tags []uint64) int {
	for i, b := range frames {
		sent := p.service.sendToClient(p.number, b, tags[i])
		p.mu.Lock()
		if sent {
			p.counters.OutPkts++
			p.counters.OutOctets += uint64(len(b))
		} else {
			p.counters.OutLost++
		}
		p.mu.Unlock()
	}
	return len(frames)
}

// Counters returns the numbers of frames and bytes so far, for [port.Port].
func (p *Port) Counters() port.Counters {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counters
}

// Close does nothing: there is nothing to free.
func (p *Port) Close() error { return nil }

// Links is the link states of the ports, which the client sets. It implements [process.Links].
type Links struct {
	mu      sync.Mutex
	all     []port.Link
	changed []int
	poller  *port.Poller
	id      int
}

// Attach makes a poller report changes.
func (l *Links) Attach(p *port.Poller, id int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.poller, l.id = p, id
	return nil
}

// List returns all links.
func (l *Links) List() ([]port.Link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all), nil
}

// Read calls f with each change.
func (l *Links) Read(f func(port.Link)) error {
	l.mu.Lock()
	var out []port.Link
	for _, i := range l.changed {
		out = append(out, l.all[i])
	}
	l.changed = l.changed[:0]
	l.mu.Unlock()
	for _, x := range out {
		f(x)
	}
	return nil
}

// SetUp enables or disables a link, as a client may too.
func (l *Links) SetUp(index int, up bool) error {
	l.mu.Lock()
	l.all[index-1].Enabled = up
	l.mu.Unlock()
	l.setUp(index-1, up)
	return nil
}

func (l *Links) setUp(i int, up bool) {
	l.mu.Lock()
	l.all[i].Up = up
	l.changed = append(l.changed, i)
	poller, id := l.poller, l.id
	l.mu.Unlock()
	if poller != nil {
		poller.Notify(port.Event{ID: id, In: true})
	}
}

// Close does nothing: there is nothing to free.
func (l *Links) Close() error { return nil }
