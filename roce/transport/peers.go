package transport

import "github.com/ethereal-fabric/ethereal/fabric"

// reservedQPs is how many of the lowest queue pair numbers InfiniBand keeps for
// management.
const reservedQPs = 2

// peer is another host's slots, each with its generation and QP, and the messages to
// it; and where the state of its own lowest slots is here. Most have one QP at a time
// either way: what is asked for it lies together.
type peer struct {
	slot         contextSlot              // the lowest
	contexts     [nearContexts]int32      // of the responder, + 1, by slot from the lowest; 0: none
	trip         fabric.Time              // round trip of a full packet through the idle fabric
	messageOrder                          // of share 0
	others       map[uint16]*messageOrder // of other shares, while there are any

	more  []contextSlot // above the lowest
	free  []uint16
	slots uint16 // that there are
}

// messageOrder is the messages of a share that have something to send for the first time, oldest first.
type messageOrder struct {
	first, last *message
	waits       bool  // the oldest is held back until enough of those before it is acknowledged
	unanswered  int64 // bytes that queue pairs have sent to the end and that are not acknowledged
}

// orderOf returns a share's order.
func (p *peer) orderOf(share uint16) *messageOrder {
	if share == 0 {
		return &p.messageOrder
	}
	o := p.others[share]
	if o == nil {
		if p.others == nil {
			p.others = map[uint16]*messageOrder{}
		}
		o = &messageOrder{}
		p.others[share] = o
	}
	return o
}

// nearContexts is how many of a peer's slots are found without a hash table.
const nearContexts = 2

type contextSlot struct {
	generation uint8
	qp         *qp // nil: free
}

func (p *peer) takeSlot() (s uint16, ok bool) {
	if n := len(p.free); n > 0 {
		s = p.free[n-1]
		p.free = p.free[:n-1]
		return s, true
	}
	if p.slots >= slotMask-reservedQPs { // the last one is multicast's
		return 0, false
	}
	if p.slots++; p.slots > 1 {
		p.more = append(p.more, contextSlot{})
	}
	return p.slots - 1 + reservedQPs, true
}

// slotAt returns a slot; nil: there is none.
func (p *peer) slotAt(s uint32) *contextSlot {
	switch i := s - reservedQPs; {
	case i >= uint32(p.slots): // below the lowest, too
		return nil
	case i == 0:
		return &p.slot
	default:
		return &p.more[i-1]
	}
}

// peerDirectory finds the peer of a host, by its number: in pages, since most hosts of a
// large fabric never meet.
type peerDirectory struct {
	pages  []*[directoryPage]int32 // positions in peers, + 1; 0: none
	tripOf func(host fabric.NodeID) fabric.Time
	peers  []peer
}

const directoryPage = 64

// find returns the position of a host's peer, -1 if it has none.
func (d *peerDirectory) find(host fabric.NodeID) int32 {
	if page := int(host) / directoryPage; page < len(d.pages) && d.pages[page] != nil {
		return d.pages[page][host%directoryPage] - 1
	}
	return -1
}

// findOrAdd is find for a host of the fabric, which gets a peer if it has none.
func (d *peerDirectory) findOrAdd(host fabric.NodeID) int32 {
	if p := d.find(host); p >= 0 {
		return p
	}
	page := int(host) / directoryPage
	for len(d.pages) <= page {
		d.pages = append(d.pages, nil)
	}
	if d.pages[page] == nil {
		d.pages[page] = new([directoryPage]int32)
	}
	d.peers = append(d.peers, peer{trip: d.tripOf(host)})
	d.pages[page][host%directoryPage] = int32(len(d.peers))
	return int32(len(d.peers) - 1)
}

// message is one message to a peer that is not sent to its end yet: the QPs that
// carry it, which have its ID in common.
//
// Messages of a share to a peer go one after the other, as on a queue pair of a connection:
// the QPs of the oldest one take turns with those to other peers, and those of
// younger ones are held back until all of it is sent, and enough of it acknowledged. What
// must be repeated later takes turns with them. Served in turn, they would all end late: a
// ring whose one host fell behind by a step would send two steps at half the pace, and so on.
type message struct {
	id         uint64
	unsent     int // QPs with packets that were never sent
	head, tail *qp // QPs held back, in order; nil for the oldest message
	next       *message
}

// joinMessage makes q, new, one of its message's QPs, and reports whether it may send.
func (e *Endpoint) joinMessage(q *qp) bool {
	p := e.peers[q.peer].orderOf(q.share)
	m := p.last
	if m == nil || m.id != q.message {
		m = e.newMessage()
		*m = message{id: q.message}
		if p.last == nil {
			p.first = m
		} else {
			p.last.next = m
		}
		p.last = m
	}
	m.unsent++
	q.of = m
	if m == p.first {
		if p.waits = p.waits || m.unsent == 1 && p.unanswered > e.mostUnanswered; !p.waits {
			return true
		}
	}
	q.where, q.next = heldAtSender, nil
	if m.head == nil {
		m.head = q
	} else {
		m.tail.next = q
	}
	m.tail = q
	return false
}

// leaveMessage records that q has sent all of its part of a message, or never will. After the last one the next
// message begins, as soon as enough is acknowledged.
func (e *Endpoint) leaveMessage(q *qp) {
	m := q.of
	q.of = nil
	if m == nil {
		return
	}
	p := e.peers[q.peer].orderOf(q.share)
	p.unanswered += q.unacked
	if m.unsent--; m.unsent > 0 {
		return
	}
	held := m != p.first || p.waits // closed before its time came: its QPs are held no more
	if m == p.first {
		p.first, p.waits = m.next, false
	} else {
		before := p.first
		for before.next != m {
			before = before.next
		}
		if before.next = m.next; m == p.last {
			p.last = before
		}
	}
	for h := m.head; held && h != nil; {
		next := h.next
		h.where = notQueued
		e.free = append(e.free, h.pos)
		h = next
	}
	switch {
	case p.first == nil:
		p.last = nil
		e.forgetOrder(q, p)
	case m.next == p.first:
		e.beginNext(p)
	}
	m.next, e.messages = e.messages, m
}

// beginNext lets the oldest message begin, unless too much before it is unanswered.
func (e *Endpoint) beginNext(p *messageOrder) {
	if p.waits = p.unanswered > e.mostUnanswered; p.waits {
		return
	}
	for h := p.first.head; h != nil; {
		next := h.next
		e.enqueue(h)
		h = next
	}
	p.first.head, p.first.tail = nil, nil
}

// countAnswered records that bytes of a QP are acknowledged, or never will be.
func (e *Endpoint) countAnswered(q *qp, bytes int64) {
	bytes = min(bytes, q.unacked) // what was given up counts as answered
	q.unacked -= bytes
	if q.of != nil || bytes == 0 {
		return
	}
	p := e.peers[q.peer].orderOf(q.share)
	p.unanswered -= bytes
	if p.waits && p.unanswered <= e.mostUnanswered {
		e.beginNext(p)
	}
	e.forgetOrder(q, p)
}

// giveUp makes other messages wait for q no longer.
func (e *Endpoint) giveUp(q *qp) {
	e.leaveMessage(q)
	e.countAnswered(q, q.unacked)
}

// forgetOrder drops the order of a share that has nothing to remember.
func (e *Endpoint) forgetOrder(q *qp, p *messageOrder) {
	if p.first == nil && p.unanswered == 0 {
		delete(e.peers[q.peer].others, q.share)
	}
}

func (e *Endpoint) newMessage() *message {
	m := e.messages
	if m == nil {
		return new(message)
	}
	e.messages = m.next
	return m
}
