package endpoint

import "github.com/ethereal-fabric/ethereal/fabric"

// timers is a 4-ary heap of (time, QP). Equal times leave in an order that
// depends on the operations alone, so runs repeat.
type timers []timer

type timer struct {
	at fabric.Time
	qp *qp
}

func (t *timers) push(at fabric.Time, q *qp) {
	h := append(*t, timer{})
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if h[parent].at <= at {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = timer{at, q}
	*t = h
}

// pop removes the earliest timer of a heap that has one.
func (t *timers) pop() *qp {
	h := *t
	top := h[0].qp
	last := h[len(h)-1]
	h[len(h)-1] = timer{}
	h = h[:len(h)-1]
	*t = h
	if len(h) > 0 {
		h.sink(last)
	}
	return top
}

// postpone moves the earliest timer to a later time.
func (t timers) postpone(at fabric.Time) { t.sink(timer{at, t[0].qp}) }

// sink places x, as if the root were free.
func (t timers) sink(x timer) {
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
