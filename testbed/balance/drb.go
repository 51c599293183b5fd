package balance

import (
	"cmp"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// drb has a round-robin pointer per destination host over the switches of the lowest layer that it and the
// destination have in common, which stand for the paths between them. Consecutive packets differ in the first
// switch (the digits of the order are reversed, hence the name, Cao et al., CoNEXT 2013), and the pointers start at
// random.
type drb struct {
	pieces
	qps map[hostagent.QP]echoedPointer
	to  map[fabric.NodeID]*rotation // by destination host
}

// echoedPointer is a queue pair's pointer, shared by all queue pairs to its destination.
type echoedPointer struct {
	*rotation
	dst fabric.NodeID
}

// DRB is the name of digit-reversed bouncing (CoNEXT 2013): hosts send each packet by the next path.
const DRB = "drb"

func drbSpec() Spec {
	return Spec{
		Name: DRB, Summary: "hosts send the packets to each destination host on all paths in turn",
		Params:   []transport.Param{lossDoc, newsDoc},
		Receiver: transport.Ideal, Flows: Spread, host: func(*params.Reader) hostFactory { return newDRB },
	}
}

func newDRB(c Config) (Host, error) {
	p, err := newPieces(c)
	if err != nil {
		return nil, err
	}
	return &drb{pieces: p, qps: map[hostagent.QP]echoedPointer{}, to: map[fabric.NodeID]*rotation{}}, nil
}

// Post opens a queue pair per flow.
func (s *drb) Post(now fabric.Time, batch []hostagent.Flow) error {
	return s.postPieces(now, batch, 1, func(p *hostagent.Piece) {
		r := s.to[p.Dst]
		if r == nil {
			r = s.rotation(p.Dst)
			s.to[p.Dst] = r
		}
		s.qps[p.QP] = echoedPointer{r, p.Dst}
		p.Label, p.Labelled = r.labels[r.at], r.labels[r.at] < s.span
	})
}

func (s *drb) rotation(dst fabric.NodeID) *rotation {
	paths := s.pathLabels(dst)
	if len(paths) == 0 {
		return &rotation{labels: []fabric.Label{s.randomPort()}}
	}
	slices.SortFunc(paths, func(a, b fabric.Label) int {
		au, av, _ := s.f.SplitLabel(a)
		bu, bv, _ := s.f.SplitLabel(b)
		return cmp.Or(cmp.Compare(av, bv), cmp.Compare(au, bu))
	})
	return &rotation{labels: paths, at: s.rng.IntN(len(paths))}
}

// Label returns the path label of the data packet that a queue pair sends now, for [PacketHost].
func (s *drb) Label(_ fabric.Time, qp hostagent.QP) fabric.Label {
	q := s.qps[qp]
	l := q.next()
	for range q.labels { // skip dead ones, so that turns stay even
		if s.livePath(q.dst, l) == l {
			return l
		}
		l = q.next()
	}
	return l
}

// Echo does nothing: ACKs do not influence the choice of paths.
func (s *drb) Echo(fabric.Time, hostagent.QP, transport.Echo) {}

// Done forgets a queue pair.
func (s *drb) Done(_ fabric.Time, qp hostagent.QP) { delete(s.qps, qp) }
