package transport

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// timerHeap is a 4-ary heap of (time, QP). Equal times leave in an order that
// depends on the operations alone, so runs repeat.
type timerHeap []timerEntry

type timerEntry struct {
	at fabric.Time
	qp *qp
}

func (t *timerHeap) push(at fabric.Time, q *qp) {
	h := append(*t, timerEntry{})
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if h[parent].at <= at {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = timerEntry{at, q}
	*t = h
}

// pop removes the earliest timer of a heap that has one.
func (t *timerHeap) pop() *qp {
	h := *t
	top := h[0].qp
	last := h[len(h)-1]
	h[len(h)-1] = timerEntry{}
	h = h[:len(h)-1]
	*t = h
	if len(h) > 0 {
		h.sink(last)
	}
	return top
}

// postpone moves the earliest timer to a later time.
func (t timerHeap) postpone(at fabric.Time) { t.sink(timerEntry{at, t[0].qp}) }

// bringForward moves a QP's timer, which the heap has, to an earlier time.
func (t timerHeap) bringForward(q *qp, at fabric.Time) {
	i := slices.IndexFunc(t, func(x timerEntry) bool { return x.qp == q })
	for ; i > 0 && t[(i-1)/4].at > at; i = (i - 1) / 4 {
		t[i] = t[(i-1)/4]
	}
	t[i] = timerEntry{at, q}
}

// sink places x, as if the root were free.
func (t timerHeap) sink(x timerEntry) {
	i := 0
	for {
		child := 4*i + 1
		if child >= len(t) {
			break
		}
		for c := child + 1; c < min(child+4, len(t)); c++ {
			if t[c].at < t[child].at {
				child = c
			}
		}
		if t[child].at >= x.at {
			break
		}
		t[i] = t[child]
		i = child
	}
	t[i] = x
}

// expireTimers handles what is due: pacing and retransmission timers.
func (e *Endpoint) expireTimers(now fabric.Time) {
	for len(e.paced) > 0 && e.paced[0].at <= now {
		q := e.paced.pop()
		q.where = notQueued
		if q.live {
			e.activate(q)
		} else {
			e.free = append(e.free, q.pos)
		}
	}
	e.noticeOverdue(now)
	e.findLate(now)
	for {
		at, ok := e.nextTimeout()
		if !ok || at > now {
			return
		}
		q := e.expiring.pop()
		q.timed = false
		q.expireAt = never
		e.transport.expired(now, q)
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
