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
	qps   map[labeller.QP]*pooledQP
	idle  []*pooledQP // the most recently used at the end
	queue []*pendingPiece
}

// pooledQP is a queue pair that the caller has given to the agent.
type pooledQP struct {
	qp         labeller.QP
	label      fabric.Label // what its packets carry,
	labelKnown bool         // if that is known
	busy       bool
	withdrawn  bool // withdrawn
	// Unreported flips of its piece that the labeller has not carried out yet, and the label to set.
	unreportedFlips []hostagent.Flip
	wantedLabel     fabric.Label
}

func (a *Agent) pool(h fabric.NodeID) *pool {
	p := a.pools[h]
	if p == nil {
		p = &pool{qps: map[labeller.QP]*pooledQP{}}
		a.pools[h] = p
	}
	return p
}

func (p *pool) add(q labeller.QP) error {
	if l := p.qps[q]; l != nil && !l.withdrawn {
		return fmt.Errorf("%w: batch: %v was lent before", labeller.ErrInvalid, q)
	} else if l != nil {
		l.withdrawn = false // still busy
		return nil
	}
	l := &pooledQP{qp: q}
	p.qps[q] = l
	p.idle = append(p.idle, l)
	return nil
}

func (p *pool) withdraw(q labeller.QP) {
	l := p.qps[q]
	switch {
	case l == nil:
	case l.busy:
		l.withdrawn = true
	default:
		delete(p.qps, q)
		p.idle = slices.DeleteFunc(p.idle, func(i *pooledQP) bool { return i == l })
	}
}

// pick returns an idle queue pair that was not refused: one that has the label, else one whose label is unknown,
// else the one idle longest.
func (p *pool) pick(e *pendingPiece, refused map[*pooledQP]bool) *pooledQP {
	var best *pooledQP
	for _, l := range p.idle {
		switch {
		case refused[l]:
		case l.labelKnown && e.Labelled && l.label == e.Label:
			return l
		case best == nil || !l.labelKnown && best.labelKnown:
			best = l
		}
	}
	return best
}

// take marks an idle queue pair as busy.
func (p *pool) take(l *pooledQP) {
	p.idle = slices.DeleteFunc(p.idle, func(i *pooledQP) bool { return i == l })
	l.busy = true
}

// release makes a piece's queue pair idle, or removes the piece from the waiting ones.
func (a *Agent) release(e *pendingPiece) {
	p := a.pool(e.node)
	l := p.qps[e.QP]
	if l == nil {
		p.queue = slices.DeleteFunc(p.queue, func(w *pendingPiece) bool { return w == e })
		return
	}
	l.busy, l.unreportedFlips = false, nil
	delete(a.unlabelled, l)
	if l.withdrawn {
		delete(p.qps, l.qp)
		return
	}
	p.idle = append(p.idle, l)
}

// carryOut carries out the core's decisions: new pieces wait for queue pairs, moved ones get their labels.
func (a *Agent) carryOut(ready hostagent.Ready) error {
	var errs []error
	for _, p := range ready.Open {
		e := &pendingPiece{
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
		errs = append(errs, a.assignQPs(p.Dst))
	}
	errs = append(errs, a.retryLabels())
	a.work.Err = errors.Join(errs...)
	return a.work.Err
}

// retryLabels repeats failed labelling.
func (a *Agent) retryLabels() error {
	var errs []error
	for l := range a.unlabelled {
		errs = append(errs, a.label(l, l.wantedLabel))
	}
	for _, h := range slices.Sorted(maps.Keys(a.unlabellable)) { // place changes a.held
		errs = append(errs, a.assignQPs(h))
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
		l.wantedLabel = f.To
		if err := a.label(l, f.To); err != nil {
			a.unlabelled[l] = true
			l.unreportedFlips = append(l.unreportedFlips, f)
			return err
		}
	}
	a.moved(e, f)
	return nil
}

// moved records a flip that is in force.
func (a *Agent) moved(e *pendingPiece, f hostagent.Flip) {
	if e.returned {
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
func (a *Agent) label(l *pooledQP, to fabric.Label) error {
	if !l.labelKnown || l.label != to {
		l.labelKnown = false // after an error it may have either label
		if err := a.labels.Set(labeller.Assignment{QP: l.qp, Label: to}); err != nil {
			return fmt.Errorf("batch: %w", err)
		}
		l.label, l.labelKnown = to, true
	}
	if a.unlabelled[l] {
		delete(a.unlabelled, l)
		for _, f := range l.unreportedFlips {
			if e := a.pieces[f.QP]; e != nil && e.QP == l.qp {
				a.moved(e, f)
			}
		}
		l.unreportedFlips = nil
	}
	return nil
}

// assignQPs assigns idle queue pairs to the waiting pieces for a host. A piece whose label cannot be set on any of them
// keeps waiting.
func (a *Agent) assignQPs(h fabric.NodeID) error {
	var errs []error
	p := a.pool(h)
	refused := map[*pooledQP]bool{}
	delete(a.unlabellable, h)
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
		a.unlabellable[h] = err
	}
	return err
}
