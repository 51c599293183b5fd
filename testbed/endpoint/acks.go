package endpoint

import (
	"github.com/ethereal-fabric/ethereal/fabric"
)

// onAck handles an acknowledgement, positive or negative.
func (e *Endpoint) onAck(now fabric.Time, q *qp, p *packet, nak bool) {
	upTo := q.unacked + psnDiff(p.psn, q.firstPSN+uint32(q.unacked))
	if !nak {
		upTo++
	}
	if upTo > q.sent {
		e.stats.Malformed++
		return
	}
	if q.balanced && !nak {
		e.cfg.Balancer.Echo(now, q.id, Echo{p.label, p.becn, q.more.timing.acked(now, q.unacked, upTo)})
	}
	if upTo < q.unacked || !nak && upTo == q.unacked {
		e.stats.StaleAcks++
		return
	}
	lost := 0
	if e.cfg.Watcher != nil {
		lost = e.lostBy(q, upTo, nak)
	}
	newly := upTo - q.unacked
	bytes := q.payload(q.unacked, upTo, int64(e.cfg.MTU))
	q.unacked = upTo
	late := upTo > q.nextOut
	q.nextOut = max(q.nextOut, upTo)
	marked := p.becn && !nak // a NAK's mark is in the next ACK as well
	if marked {
		e.stats.Marked++
	}
	if newly > 0 {
		q.rate.acked(e, q, newly, upTo, marked, late)
	}
	if nak {
		e.stats.NaksTaken++
		q.goBack()
		e.activate(q)
	}
	if q.unacked < q.nextOut {
		e.restart(now, q)
	} else {
		q.expireAt = never
	}
	if lost > 0 {
		id := q.id
		if e.cfg.Watcher.Lost(now, id, lost); !q.live || q.id != id {
			return // it was closed
		}
	}
	e.settle(now, q, bytes)
}

// settle reports newly acknowledged bytes, and the end of a QP that has come to
// it.
func (e *Endpoint) settle(now fabric.Time, q *qp, bytes int64) {
	id, done := q.id, q.unacked >= q.data
	if done {
		e.release(q)
		e.stats.QPsDone++
	}
	e.stats.BytesAcked += uint64(bytes)
	if bytes > 0 {
		e.handler.Acked(now, id, bytes)
	}
	if done {
		e.handler.Done(now, id)
	}
}

// restart starts the QP's retransmission timer anew.
func (e *Endpoint) restart(now fabric.Time, q *qp) {
	q.expireAt = now + e.cfg.RTO
	if s := q.selective(); s != nil {
		s.old = q.sent
	}
	if !q.timed {
		q.timed = true
		e.expiring.push(q.expireAt, q)
	}
}

// expire handles what is due: pacing and retransmission timers.
func (e *Endpoint) expire(now fabric.Time) {
	for len(e.paced) > 0 && e.paced[0].at <= now {
		q := e.paced.pop()
		q.where = nowhere
		if q.live {
			e.activate(q)
		} else {
			e.free = append(e.free, q.pos)
		}
	}
	for {
		at, ok := e.nextTimeout()
		if !ok || at > now {
			return
		}
		q := e.expiring.pop()
		q.timed = false
		q.expireAt = never
		if s := q.selective(); s != nil {
			s.expired(q)
			q.more.timing.packet = 0
		} else {
			q.goBack()
		}
		e.stats.Timeouts++
		e.activate(q)
		e.handler.Timeout(now, q.id)
	}
}

// nextTimeout returns the earliest deadline. The heap's times may be too early,
// since restarting a timer does not touch it: those on top are put right.
func (e *Endpoint) nextTimeout() (fabric.Time, bool) {
	for len(e.expiring) > 0 {
		t := e.expiring[0]
		switch {
		case t.qp.expireAt == never:
			t.qp.timed = false
			e.expiring.pop()
		case t.qp.expireAt > t.at:
			e.expiring.postpone(t.qp.expireAt)
		default:
			return t.at, true
		}
	}
	return 0, false
}
