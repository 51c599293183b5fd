package endpoint

import (
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
)

// selective is what a QP remembers of its packets when the receivers take them
// in any order. Packets below the QP's unacked are all acknowledged.
//
// A packet is lost if one that was sent at least `threshold` later has been
// acknowledged, or if the timer has run since it was sent: the timer is started
// anew when the first unacknowledged packet changes. It is then repeated, once
// for each of the two reasons; what is acknowledged is not.
type selective struct {
	acked     window
	again     int32 // next packet to be looked at for repetition
	lost      int32 // packets below are lost, or acknowledged
	old       int32 // packets below had been sent when the timer was started
	threshold int32
}

// unlimited is a reorder window or threshold of no effect.
const unlimited = math.MaxInt32 / 2

func (s *selective) begin(threshold int32) {
	s.acked.reset()
	s.again, s.lost, s.old, s.threshold = 0, 0, 0, threshold
}

// pick returns the packet that the QP has to send next. ok is false if there
// is none for now.
func (e *Endpoint) pick(q *qp) (i int32, ok bool) {
	s := q.selective()
	if s == nil {
		return q.nextOut, q.nextOut < q.total() && !q.failed
	}
	if s.again < s.lost {
		s.again = s.acked.next(max(s.again, q.unacked))
		if s.again < s.lost {
			return s.again, true
		}
	}
	return q.nextOut, q.nextOut < q.total() && q.nextOut-q.unacked < e.span
}

// onSelectiveAck handles an ACK of one packet, in MSN, and of all up to another.
func (e *Endpoint) onSelectiveAck(now fabric.Time, q *qp, p *packet) {
	s := q.selective()
	upTo := q.unacked + psnDiff(p.psn, q.firstPSN+uint32(q.unacked)) + 1
	own := q.unacked + psnDiff(rocev2.AETH(p.rest).MSN(), q.firstPSN+uint32(q.unacked))
	if upTo > q.sent || own >= q.sent {
		e.stats.Malformed++
		return
	}
	if q.balanced {
		e.cfg.Balancer.Echo(now, q.id, Echo{p.label, p.becn, q.more.timing.acked(now, own, own+1)})
	}
	newly, bytes := int32(0), int64(0)
	take := func(i int32) {
		s.acked.add(i)
		newly++
		bytes += q.payload(i, i+1, int64(e.cfg.MTU))
	}
	if own >= q.unacked && !s.acked.has(own) {
		take(own)
	}
	for i := s.acked.next(q.unacked); i < upTo; i = s.acked.next(i + 1) {
		take(i)
	}
	if newly == 0 {
		e.stats.StaleAcks++
		return
	}
	if p.becn {
		e.stats.Marked++
	}
	before := q.unacked
	q.unacked = s.acked.next(before)
	s.acked.forget(q.unacked)
	q.rate.acked(e, q, newly, max(upTo, own+1), p.becn, false)
	if lost := s.lose(own-s.threshold+1, q.unacked); lost > 0 && e.cfg.Watcher != nil {
		id := q.id
		if e.cfg.Watcher.Lost(now, id, lost); !q.live || q.id != id {
			return // it was closed
		}
	}
	e.activate(q)
	switch {
	case q.unacked == q.sent:
		q.expireAt = never
	case q.unacked > before:
		e.restart(now, q)
	}
	e.settle(now, q, bytes)
}

// lose takes the packets below to for lost, unless they are acknowledged, and
// returns how many that are which were not before.
func (s *selective) lose(to, unacked int32) (n int) {
	for i := s.acked.next(max(s.lost, unacked)); i < to; i = s.acked.next(i + 1) {
		n++
	}
	s.lost = max(s.lost, to)
	return n
}

// repeated notes that a packet has been sent again.
func (m *more) repeated(i int32) {
	m.selective.again = i + 1
	if m.timing.packet == i+1 {
		m.timing.packet = 0
	}
}

// expired notes that the timer has run.
func (s *selective) expired(q *qp) {
	s.again, s.lost = q.unacked, max(s.lost, s.old)
}
