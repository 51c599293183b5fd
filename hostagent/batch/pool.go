package batch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
)

// pool is the queue pairs to one host, and the pieces that wait for one.
type pool struct {
	qps   map[labeller.QP]*lent
	idle  []*lent // the one used last at the end
	queue []*entry
}

// lent is a queue pair.
type lent struct {
	qp    labeller.QP
	label fabric.Label // what its packets carry,
	known bool         // if that is known
	busy  bool
	back  bool // withdrawn
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

// pick takes an idle queue pair: one that has the label, or one whose label
// is unknown, or the one idle longest.
func (p *pool) pick(e *entry) *lent {
	if len(p.idle) == 0 {
		return nil
	}
	best := 0
	for i, l := range p.idle {
		if l.known && e.Labelled && l.label == e.Label {
			best = i
			break
		}
		if !l.known && p.idle[best].known {
			best = i
		}
	}
	l := p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	l.busy = true
	return l
}

// release makes the queue pair of a piece idle, or has the piece wait no
// longer.
func (p *pool) release(e *entry) {
	l := p.qps[e.QP]
	if l == nil {
		p.queue = slices.DeleteFunc(p.queue, func(w *entry) bool { return w == e })
		return
	}
	l.busy = false
	if l.back {
		delete(p.qps, l.qp)
		return
	}
	p.idle = append(p.idle, l)
}

// settle does what the core decided: new pieces wait for queue pairs, moved ones
// get their labels.
func (a *Agent) settle() error {
	var errs []error
	ready := a.core.Ready()
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
	// Labels of flips first: what is opened in the same breath may flip too.
	for _, p := range ready.Open {
		errs = append(errs, a.place(p.Dst))
	}
	select {
	case a.wake <- struct{}{}:
	default:
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
			return nil // it waits
		}
		if err := a.label(l, f.To); err != nil {
			return err
		}
	}
	if e.given {
		a.work.Moved = append(a.work.Moved, Move{f.QP, e.QP, f.From, f.To, f.Reason})
		return nil
	}
	for i := range a.work.Send { // not taken yet
		if a.work.Send[i].Key == f.QP {
			a.work.Send[i].Label = f.To
		}
	}
	return nil
}

// label has the labeller set a label, unless the queue pair has it.
func (a *Agent) label(l *lent, to fabric.Label) error {
	if l.known && l.label == to {
		return nil
	}
	if err := a.labels.Set(labeller.Assignment{QP: l.qp, Label: to}); err != nil {
		return fmt.Errorf("batch: %w", err)
	}
	l.label, l.known = to, true
	return nil
}

// place gives waiting pieces to a host idle queue pairs.
func (a *Agent) place(h fabric.NodeID) error {
	var errs []error
	p := a.pool(h)
	for len(p.queue) > 0 {
		e := p.queue[0]
		l := p.pick(e)
		if l == nil {
			break
		}
		p.queue = p.queue[1:]
		e.QP = l.qp
		if e.Labelled {
			errs = append(errs, a.label(l, e.Label))
		}
		a.work.Send = append(a.work.Send, e.Piece)
	}
	return errors.Join(errs...)
}
