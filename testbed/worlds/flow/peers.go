package flow

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// message is one that is not sent to its end yet. Messages of a host to a peer go one after the other, as on a queue
// pair of a connection: those of a younger one wait until all of the oldest is sent once. Side by side they would all
// end late; a ring whose one host fell behind by a step would send two steps at half the pace, and so on. Package
// endpoint does so in peers.go.
type message struct {
	id     collective.ID
	unsent int32   // queue pairs with packets that were never sent
	held   []int32 // its queue pairs, while it waits
	next   *message
}

// join makes a queue pair one of its message's, and reports whether it may send.
func (h *fluidHost) join(k int32) bool {
	p := &h.w.pieces[k]
	if p.bytes == 0 {
		return true
	}
	p.unsent = true
	first := h.messages[p.dst]
	last := first
	for last != nil && last.next != nil {
		last = last.next
	}
	if last == nil || last.id != p.id {
		m := &message{id: p.id}
		if last == nil {
			h.messages[p.dst], first = m, m
		} else {
			last.next = m
		}
		last = m
	}
	last.unsent++
	if last != first {
		last.held = append(last.held, k)
	}
	return last == first
}

// leave notes that a queue pair has sent all. The last one of its message lets the next message begin.
func (h *fluidHost) leave(now fabric.Time, p *piece) {
	if !p.unsent {
		return
	}
	p.unsent = false
	m := h.messages[p.dst]
	if m.unsent--; m.unsent > 0 {
		return
	}
	if m.next == nil {
		delete(h.messages, p.dst)
		return
	}
	h.messages[p.dst] = m.next
	for _, k := range m.next.held {
		q := &h.w.pieces[k]
		h.w.at(max(q.last, now), onStart, k, q.turn)
	}
	m.next.held = nil
}
