package flow

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// message is an incompletely sent message. Messages of a host to a peer are sent one after the other, as on a queue
// pair of a connection: younger ones wait until all of the oldest has been sent once. Side by side they would all
// end late; a ring with one host a step behind would send two steps at half the rate, and so on. Package endpoint
// does the same in peers.go.
type message struct {
	id     collective.ID
	unsent int32   // queue pairs with packets that were never sent
	held   []int32 // its queue pairs, while it waits
	next   *message
}

// join adds a queue pair to its message, and reports whether it may send.
func (h *fluidHost) join(k int32) bool {
	p := &h.w.pieces[k]
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

// leave records that a queue pair has sent everything. The last one of its message starts the next message.
func (h *fluidHost) leave(now fabric.Time, p *piece) {
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
		h.w.at(max(q.last, now), onStart, k)
	}
	m.next.held = nil
}
