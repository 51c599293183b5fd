package porttest

import (
	"sync"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// Memory is one end of a [Pair]: a port whose frames stay in memory. Unlike other ports it is safe for concurrent use.
type Memory struct {
	peer *Memory
	size int

	mu      sync.Mutex
	queue   [][]byte // towards this end
	free    [][]byte
	starved bool // the peer was refused
	closed  bool
	count   port.Counters
	poller  *port.Poller
	id      int
}

// Pair returns two connected ports: each receives what the other sends. Each direction holds at most size frames; a
// reader that does not read blocks the sender.
func Pair(size int) (*Memory, *Memory) {
	a, b := &Memory{size: size}, &Memory{size: size}
	a.peer, b.peer = b, a
	return a, b
}

// Attach adds the port to a poller, for [port.Port].
func (m *Memory) Attach(p *port.Poller, id int) error {
	m.mu.Lock()
	m.poller, m.id = p, id
	waiting := len(m.queue) > 0
	m.mu.Unlock()
	if waiting {
		p.Notify(port.Event{ID: id, In: true})
	}
	return nil
}

// Receive calls f with the frames that have arrived, up to a limit, for [port.Port].
func (m *Memory) Receive(limit int, f func([]byte)) int {
	n := 0
	for n < limit {
		m.mu.Lock()
		if len(m.queue) == 0 {
			m.mu.Unlock()
			break
		}
		frame := m.queue[0]
		m.queue = m.queue[1:]
		m.count.InPkts++
		m.count.InOctets += uint64(len(frame))
		m.mu.Unlock()
		f(frame)
		n++
		m.mu.Lock()
		if len(m.free) < m.size {
			m.free = append(m.free, frame)
		}
		m.mu.Unlock()
	}
	if n > 0 {
		m.mu.Lock()
		starved := m.starved
		m.starved = false
		m.mu.Unlock()
		if starved {
			m.peer.notify(port.Event{Out: true})
		}
	}
	return n
}

// Send sends frames while there is room, and returns the number accepted, for [port.Port].
func (m *Memory) Send(frames [][]byte) int {
	n, octets, dead := m.peer.queueFrames(frames)
	m.mu.Lock()
	defer m.mu.Unlock()
	if dead {
		m.count.OutDown += uint64(len(frames))
		return len(frames)
	}
	m.count.OutPkts += uint64(n)
	m.count.OutOctets += uint64(octets)
	return n
}

// queueFrames queues frames for this end.
func (m *Memory) queueFrames(frames [][]byte) (n, octets int, dead bool) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return 0, 0, true
	}
	was := len(m.queue)
	for n < len(frames) && len(m.queue) < m.size {
		var b []byte
		if k := len(m.free); k > 0 {
			b, m.free = m.free[k-1][:0], m.free[:k-1]
		}
		m.queue = append(m.queue, append(b, frames[n]...))
		octets += len(frames[n])
		n++
	}
	m.starved = m.starved || n < len(frames)
	m.mu.Unlock()
	if was == 0 && n > 0 {
		m.notify(port.Event{In: true})
	}
	return n, octets, false
}

// notify reports an event to the poller of this end.
func (m *Memory) notify(ev port.Event) {
	m.mu.Lock()
	p := m.poller
	ev.ID = m.id
	m.mu.Unlock()
	if p != nil {
		p.Notify(ev)
	}
}

// Counters returns the numbers of frames and bytes so far, for [port.Port].
func (m *Memory) Counters() port.Counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// Close frees the port's resources, for [port.Port]. What the peer sends from now on is lost.
func (m *Memory) Close() error {
	m.mu.Lock()
	m.closed = true
	m.queue = nil
	m.mu.Unlock()
	m.peer.notify(port.Event{Out: true})
	return nil
}
