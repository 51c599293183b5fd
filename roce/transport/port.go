package transport

import "github.com/ethereal-fabric/ethereal/fabric"

// sendPort has the packets to send by a port of the host. In a fabric of planes a host has one port per plane: a QP
// uses the port that its label names, and an ACK the port of its own label.
type sendPort struct {
	shares      []peerShare // by [Message.Share]
	first, last int32       // of the shares with queued QPs, by number; -1: none
	queue       controlQueue
}

// peerShare has the QPs of one share that may have something to send now, in turn. Shares take turns, too: one packet
// each.
type peerShare struct {
	head, tail *qp
	next       int32 // next share in turn; -1: none
	waits      bool  // it is in turn
}

func newPort() sendPort { return sendPort{shares: make([]peerShare, 1), first: -1, last: -1} }

// hasWaiting reports whether a QP may have something to send.
func (p *sendPort) hasWaiting() bool { return p.first >= 0 }

// put queues a QP as the last of its share, or the first.
func (p *sendPort) put(q *qp, first bool) {
	for int(q.share) >= len(p.shares) {
		p.shares = append(p.shares, peerShare{})
	}
	s := &p.shares[q.share]
	q.next = nil
	switch {
	case s.head == nil:
		s.head, s.tail = q, q
	case first:
		q.next, s.head = s.head, q
	default:
		s.tail.next = q
		s.tail = q
	}
	if !s.waits {
		p.appendWaiting(int32(q.share))
	}
}

// appendWaiting queues a share as the last.
func (p *sendPort) appendWaiting(n int32) {
	p.shares[n].waits, p.shares[n].next = true, -1
	if p.first < 0 {
		p.first = n
	} else {
		p.shares[p.last].next = n
	}
	p.last = n
}

// pop removes the next QP from its share's list. The share keeps its turn until [sendPort.endTurn].
func (p *sendPort) pop() *qp {
	s := &p.shares[p.first]
	q := s.head
	if s.head = q.next; s.head == nil {
		s.tail = nil
	}
	return q
}

// endTurn ends the turn of the first share: one that sent becomes the last, one without QPs leaves the list. A single
// share stays in its place.
func (p *sendPort) endTurn(sent bool) {
	n := p.first
	switch s := &p.shares[n]; {
	case s.head == nil:
		p.first, s.waits = s.next, false
	case sent && s.next >= 0:
		p.first = s.next
		p.appendWaiting(n)
	}
}

// remove removes a queued QP from its share's list.
func (p *sendPort) remove(q *qp) {
	s := &p.shares[q.share]
	before := (*qp)(nil)
	for at := s.head; at != q; at = at.next {
		before = at
	}
	if before == nil {
		s.head = q.next
	} else {
		before.next = q.next
	}
	if s.tail == q {
		s.tail = before
	}
	if s.head == nil {
		p.unlinkWaiting(int32(q.share))
	}
}

// unlinkWaiting removes a share from the list.
func (p *sendPort) unlinkWaiting(n int32) {
	before := int32(-1)
	for at := p.first; at != n; at = p.shares[at].next {
		before = at
	}
	if before < 0 {
		p.first = p.shares[n].next
	} else {
		p.shares[before].next = p.shares[n].next
	}
	if p.last == n {
		p.last = before
	}
	p.shares[n].waits = false
}

// portOf returns the number of the port in a label; for a label without plane, which switches hash, a pseudo-random
// one.
func (e *Endpoint) portOf(l fabric.Label) int {
	switch {
	case len(e.ports) == 1:
		return 0
	case l < e.cfg.Fabric.LabelSpan():
		return e.cfg.Fabric.PlaneOf(l)
	}
	return int(l) % len(e.ports)
}

// changePort moves a QP that gets a label to that label's port.
func (e *Endpoint) changePort(q *qp, l fabric.Label) {
	to := uint8(e.portOf(l))
	if to == q.port {
		return
	}
	if q.where == inTurn {
		e.ports[q.port].remove(q)
		q.port = to
		e.enqueue(q)
	}
	q.port = to
}
