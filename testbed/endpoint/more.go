package endpoint

// more is the state of QPs that are balanced, or have receivers that reorder, or
// DCQCN.
type more struct {
	timing    timing     // of balanced QPs
	selective *selective // nil: go-back-N
	dcqcn     *dcqcn     // nil: another control
}

// more returns a new QP's further state, recycled if q has had some before.
func (e *Endpoint) more(q *qp) *more {
	if !q.balanced && e.cfg.Receiver == GoBackN && e.cfg.Control != DCQCN {
		return nil
	}
	m := q.more
	if m == nil {
		m = &more{}
	}
	m.timing = timing{}
	if e.cfg.Receiver != GoBackN {
		if m.selective == nil {
			m.selective = &selective{}
		}
		m.selective.begin(e.threshold(q))
	}
	if e.cfg.Control == DCQCN {
		if m.dcqcn == nil {
			m.dcqcn = &dcqcn{}
		}
		*m.dcqcn = dcqcn{}
	}
	return m
}

// selective returns what the QP has for receivers that reorder; nil: go-back-N.
func (q *qp) selective() *selective {
	if q.more == nil {
		return nil
	}
	return q.more.selective
}
