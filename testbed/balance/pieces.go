package balance

import (
	"fmt"
	"math/rand/v2"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

// pieces is the common part of all schemes except ethereal: flows become queue pairs, and notifications of failures
// are processed if the scheme is configured so.
type pieces struct {
	rng       *rand.Rand
	span      fabric.Label // labels below it name paths
	f         *fabric.Fabric
	host      fabric.NodeID
	start     fabric.Time // starts are up to this late
	last      hostagent.QP
	open      []hostagent.Piece
	deadLinks *deadLinks // nil: notifications are ignored
}

func newPieces(c Config) (pieces, error) {
	if err := c.Validate(); err != nil {
		return pieces{}, err
	}
	if c.StartJitter == 0 {
		c.StartJitter = hostagent.DefaultStartJitter
	}
	span := c.Fabric.LabelSpan()
	if span >= 1<<fabric.LabelBits {
		return pieces{}, fmt.Errorf("scheme: the fabric's paths use all %d labels, so no source port is left to hash", span)
	}
	p := pieces{
		span: span, f: c.Fabric, host: c.Host, start: c.StartJitter,
		rng: rand.New(rand.NewPCG(c.Seed, uint64(c.Host))),
	}
	if c.takesNotifications {
		var err error
		if p.deadLinks, err = newDeadLinks(c.Config); err != nil {
			return pieces{}, err
		}
	}
	return p, nil
}

// randomPort draws a source port that names no path, for switches to hash.
func (s *pieces) randomPort() fabric.Label {
	return s.span + fabric.Label(s.rng.IntN(1<<fabric.LabelBits-int(s.span)))
}

// postPieces cuts every flow into equal pieces, the last taking the remainder, lets
// label choose each one's label, and draws its start.
func (s *pieces) postPieces(now fabric.Time, batch []hostagent.Flow, count int, label func(p *hostagent.Piece)) error {
	for _, f := range batch {
		if f.Bytes < 1 || f.Dst < 0 || int(f.Dst) >= s.f.Hosts() || f.Dst == s.host {
			return fmt.Errorf("scheme: flow %d: %d bytes to node %d; want at least 1 byte to another host", f.ID, f.Bytes, f.Dst)
		}
	}
	for _, f := range batch {
		n := min(int64(count), f.Bytes)
		for i := range n {
			p := hostagent.Piece{Flow: f.ID, Dst: f.Dst, Offset: i * (f.Bytes / n), Bytes: f.Bytes / n, Start: now}
			if i == n-1 {
				p.Bytes = f.Bytes - p.Offset
			}
			s.last++
			p.QP = s.last
			label(&p)
			if s.start > 0 {
				p.Start += fabric.Time(s.rng.Int64N(int64(s.start) + 1))
			}
			s.open = append(s.open, p)
		}
	}
	return nil
}

// Ready returns the queue pairs to open.
func (s *pieces) Ready() hostagent.Ready {
	r := hostagent.Ready{Open: s.open}
	s.open = s.open[:0]
	return r
}

func (s *pieces) Acked(fabric.Time, hostagent.QP, int64) {}
func (s *pieces) Done(fabric.Time, hostagent.QP)         {}
func (s *pieces) Timeout(fabric.Time, hostagent.QP)      {}

// qpStates stores a scheme's state of its queue pairs, recycled when they end.
type qpStates[T any] struct {
	open map[hostagent.QP]*T
	free []*T
}

func newQPStates[T any]() qpStates[T] { return qpStates[T]{open: map[hostagent.QP]*T{}} }

// begin returns the state of a new queue pair: a recycled one, or zero.
func (b *qpStates[T]) begin(qp hostagent.QP) *T {
	var t *T
	if n := len(b.free); n > 0 {
		t, b.free = b.free[n-1], b.free[:n-1]
	} else {
		t = new(T)
	}
	b.open[qp] = t
	return t
}

func (b *qpStates[T]) end(qp hostagent.QP) {
	if t, ok := b.open[qp]; ok {
		delete(b.open, qp)
		b.free = append(b.free, t)
	}
}
