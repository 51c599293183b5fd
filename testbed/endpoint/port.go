package endpoint

import "github.com/ethereal-fabric/ethereal/fabric"

// port is what is to be sent by a port of the host. There are several in a fabric of planes, one into each: a QP sends
// by the one that its label names, and an ACK goes by the one of its own.
type port struct {
	head, tail *qp // QPs that may have something to send now, in turn
	queue      controlQueue
}

// portOf returns the number of the port that a label names; for one that names none, and that switches hash, one as good
// as random.
func (e *Endpoint) portOf(l fabric.Label) int {
	switch {
	case len(e.ports) == 1:
		return 0
	case l < e.cfg.Fabric.LabelSpan():
		return e.cfg.Fabric.PlaneOf(l)
	}
	return int(l) % len(e.ports)
}

// changePort has a QP that gets a label send by that one's port.
func (e *Endpoint) changePort(q *qp, l fabric.Label) {
	to := uint8(e.portOf(l))
	if to == q.port {
		return
	}
	if q.where == inTurn {
		p := &e.ports[q.port]
		before := (*qp)(nil)
		for at := p.head; at != q; at = at.next {
			before = at
		}
		if before == nil {
			p.head = q.next
		} else {
			before.next = q.next
		}
		if p.tail == q {
			p.tail = before
		}
		q.port = to
		e.enqueue(q)
	}
	q.port = to
}
