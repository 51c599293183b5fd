package balance

import (
	"cmp"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// lpt gives each whole flow to the path on which the host has least left to send, the longest flow of a batch first
// (longest processing time first), as RailS (arXiv 2510.19262) deals the messages of a mixture of experts to a
// server's rails. Here a host has one link, and the uplinks of its ToR replace the rails; the host shares them with
// other hosts and does not know their use. Ties are broken at random, otherwise all hosts would begin with the same
// path. After a time-out a flow takes another path; RailS, as far as we have read, does not describe failures.
type lpt struct {
	pieces
	left  []int64 // bytes not acknowledged, by label
	qps   qpStates[lptPiece]
	best  []fabric.Label
	flips []hostagent.Flip
}

// lptPiece is a queue pair's path and unacknowledged bytes.
type lptPiece struct {
	dst   fabric.NodeID
	label fabric.Label
	left  int64
}

// LPT is the name of the scheme that places the longest flows first (longest processing time).
const LPT = "lpt"

func lptSpec() Spec {
	return Spec{
		Name: LPT, Summary: "hosts put each whole flow on the path with the fewest bytes so far, longest flows first",
		Receiver: transport.GoBackN, Flows: Labelled, host: func(*params.Reader) hostFactory { return newLPT },
	}
}

func newLPT(c Config) (Host, error) {
	p, err := newPieces(c)
	if err != nil {
		return nil, err
	}
	return &lpt{pieces: p, left: make([]int64, p.span), qps: newQPStates[lptPiece]()}, nil
}

// Post opens a queue pair per flow.
func (s *lpt) Post(now fabric.Time, batch []hostagent.Flow) error {
	batch = slices.Clone(batch)
	slices.SortStableFunc(batch, func(a, b hostagent.Flow) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return s.postPieces(now, batch, 1, func(p *hostagent.Piece) {
		if p.Label = s.leastLoaded(p.Dst, s.span); p.Label >= s.span {
			return // under the same ToR: switches have no choice
		}
		p.Labelled = true
		*s.qps.begin(p.QP) = lptPiece{p.Dst, p.Label, p.Bytes}
		s.left[p.Label] += p.Bytes
	})
}

// leastLoaded returns the path to a host with the fewest outstanding bytes, except one; a port if there is none.
func (s *lpt) leastLoaded(dst fabric.NodeID, but fabric.Label) fabric.Label {
	s.best = s.best[:0]
	for _, l := range s.pathLabels(dst) {
		if l == but {
			continue
		}
		if len(s.best) > 0 && s.left[l] < s.left[s.best[0]] {
			s.best = s.best[:0]
		}
		if len(s.best) == 0 || s.left[l] == s.left[s.best[0]] {
			s.best = append(s.best, l)
		}
	}
	return s.randomLabel(s.best)
}

// Timeout moves a flow to another path, if there is one.
func (s *lpt) Timeout(_ fabric.Time, qp hostagent.QP) {
	q := s.qps.open[qp]
	if q == nil {
		return
	}
	to := s.leastLoaded(q.dst, q.label)
	if to >= s.span {
		return
	}
	s.flips = append(s.flips, hostagent.Flip{QP: qp, From: q.label, To: to, Reason: hostagent.ByTimeout, Dead: true})
	s.left[q.label] -= q.left
	s.left[to] += q.left
	q.label = to
}

// Ready returns the queue pairs to open and to move.
func (s *lpt) Ready() hostagent.Ready {
	r := s.pieces.Ready()
	r.Flip = s.flips
	s.flips = s.flips[:0]
	return r
}

// Acked subtracts acknowledged bytes from their path.
func (s *lpt) Acked(_ fabric.Time, qp hostagent.QP, bytes int64) {
	if q := s.qps.open[qp]; q != nil {
		q.left -= bytes
		s.left[q.label] -= bytes
	}
}

// Done forgets a queue pair.
func (s *lpt) Done(_ fabric.Time, qp hostagent.QP) {
	if q := s.qps.open[qp]; q != nil {
		s.left[q.label] -= q.left
		s.qps.end(qp)
	}
}
