package batch

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
)

// pool has the queue pairs to one host, and the pieces that wait for one.
type pool struct {
	qps   map[labeller.QP]*lent
	idle  []*lent // the most recently used at the end
	queue []*entry
}

// lent is a queue pair that the caller has given to the agent.
type lent struct {
	qp    labeller.QP
	label fabric.Label // what its packets carry,
	known bool         // if that is known
	busy  bool
	back  bool // withdrawn
	// Unreported flips of its piece that the labeller has not carried out yet, and the label to set.
	move []hostagent.Flip
	want fabric.Label
}

func (a *Agent) pool(h fabric.NodeID) *pool {
	p := a.pools[h]
	if p == nil {
		p = &pool{qps: map[labeller.QP]*lent{}}
		a.pools[h] = p
	}
	return p
}

func (p *pool) add(q labeller.QP) error {
	if l := p.qps[q]; l != nil && !l.back {
		return fmt.Errorf("%w: batch: %v was lent before", labeller.ErrInvalid, q)
	} else if l != nil {
		l.back = false // still busy
		return nil
	}
	l := &lent{qp: q}
	p.qps[q] = l
	p.idle = append(p.idle, l)
	return nil
}

func (p *pool) withdraw(q labeller.QP) {
	l := p.qps[q]
	switch {
	case l == nil:
	case l.busy:
		l.back = true
	default:
		delete(p.qps, q)
		p.idle = slices.DeleteFunc(p.idle, func(i *lent) bool { return i == l })
	}
}

// pick returns an idle queue pair that was not refused: one that has the label, else one whose label is unknown,
// else the one idle longest.
func (p *pool) pick(e *entry, refused map[*lent]bool) *lent {
	var best *lent
	for _, l := range p.idle {
		switch {
		case refused[l]:
		case l.known && e.Labelled && l.label == e.Label:
			return l
		case best == nil || !l.known && best.known:
			best = l
		}
	}
	return best
}

// take marks an idle queue pair as busy.
func (p *pool) take(l *lent) {
	p.idle = slices.DeleteFunc(p.idle, func(i *lent) bool { return i == l })
	l.busy = true
}

// release makes a piece's queue pair idle, or removes the piece from the waiting ones.
func (a *Agent) release(e *entry) {
	p := a.pool(e.node)
	l := p.qps[e.QP]
	if l == nil {
		p.queue = slices.DeleteFunc(p.queue, func(w *entry) bool { return w == e })
		return
	}
	l.busy, l.move = false, nil
	delete(a.behind, l)
	if l.back {
		delete(p.qps, l.qp)
		return
	}
	p.idle = append(p.idle, l)
}

// carryOut carries out the core's decisions: new pieces wait for queue pairs, moved ones get their labels.
func (a *Agent) carryOut(ready hostagent.Ready) error {
	var errs []error
	for _, p := range ready.Open {
		e := &entry{
			Piece: Piece{Key: p.QP, Message: p.Flow, Dst: a.addr[p.Dst], Offset: p.Offset, Bytes: p.Bytes, Label: p.Label, Labelled: p.Labelled},
			node:  p.Dst,
		}
		a.pieces[p.QP] = e
		if a.labels == nil {
			a.work.Send = append(a.work.Send, e.Piece)
			continue
		}
		pool := a.pool(p.Dst)
		pool.queue = append(pool.queue, e)
	}
	for _, f := range ready.Flip {
		errs = append(errs, a.flip(f))
	}
	// Labels of flips first: a piece opened in the same call may flip too.
	for _, p := range ready.Open {
		errs = append(errs, a.place(p.Dst))
	}
	errs = append(errs, a.again())
	a.work.Err = errors.Join(errs...)
	return a.work.Err
}

// again repeats failed labelling.
func (a *Agent) again() error {
	var errs []error
	for l := range a.behind {
		errs = append(errs, a.label(l, l.want))
	}
	for _, h := range slices.Sorted(maps.Keys(a.held)) { // place changes a.held
		errs = append(errs, a.place(h))
	}
	return errors.Join(errs...)
}

func (a *Agent) flip(f hostagent.Flip) error {
	e := a.pieces[f.QP]
	if e == nil {
		return nil
	}
	e.Label = f.To
	if a.labels != nil {
		l := a.pool(e.node).qps[e.QP]
		if l == nil {
			return nil // the retry is not due yet
		}
		l.want = f.To
		if err := a.label(l, f.To); err != nil {
			a.behind[l] = true
			l.move = append(l.move, f)
			return err
		}
	}
	a.moved(e, f)
	return nil
}

// moved records a flip that is in force.
func (a *Agent) moved(e *entry, f hostagent.Flip) {
	if e.given {
		a.work.Moved = append(a.work.Moved, Move{f.QP, e.QP, f.From, f.To, f.Reason})
		return
	}
	for i := range a.work.Send { // not returned yet
		if a.work.Send[i].Key == f.QP {
			a.work.Send[i].Label = f.To
		}
	}
}

// label makes the labeller set a label, unless the queue pair has it. Then it reports the flips that waited for it.
func (a *Agent) label(l *lent, to fabric.Label) error {
	if !l.known || l.label != to {
		l.known = false // after an error it may have either label
		if err := a.labels.Set(labeller.Assignment{QP: l.qp, Label: to}); err != nil {
			return fmt.Errorf("batch: %w", err)
		}
		l.label, l.known = to, true
	}
	if a.behind[l] {
		delete(a.behind, l)
		for _, f := range l.move {
			if e := a.pieces[f.QP]; e != nil && e.QP == l.qp {
				a.moved(e, f)
			}
		}
		l.move = nil
	}
	return nil
}

// place assigns idle queue pairs to the waiting pieces for a host. A piece whose label cannot be set on any of them
// keeps waiting.
func (a *Agent) place(h fabric.NodeID) error {
	var errs []error
	p := a.pool(h)
	refused := map[*lent]bool{}
	delete(a.held, h)
	for len(p.queue) > 0 {
		e := p.queue[0]
		l := p.pick(e, refused)
		if l == nil {
			break
		}
		if e.Labelled {
			if err := a.label(l, e.Label); err != nil {
				refused[l] = true
				errs = append(errs, err)
				continue
			}
		}
		p.take(l)
		p.queue = p.queue[1:]
		e.QP = l.qp
		a.work.Send = append(a.work.Send, e.Piece)
	}
	err := errors.Join(errs...)
	if err != nil && len(p.queue) > 0 {
		a.held[h] = err
	}
	return err
}
