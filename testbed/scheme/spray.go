package scheme

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/nic"
)

// Values of spray's parameter mode.
const (
	sprayRandom     = "random"
	sprayRoundRobin = "round-robin"
)

// rotation is a round-robin pointer over labels.
type rotation struct {
	labels []fabric.Label
	at     int
}

func (r *rotation) next() fabric.Label {
	l := r.labels[r.at]
	if r.at++; r.at == len(r.labels) {
		r.at = 0
	}
	return l
}

// spray gives every packet a label of its own: random ones, or in turn, with
// one pointer for all packets of the host that have the same paths to choose
// from, over the paths in random order.
type spray struct {
	pieces
	robin, ports bool
	qps          map[hostagent.QP]*rotation
	turns        map[int]*rotation // by number of paths: within the pod, and beyond
}

func settleSpray(a *args) maker {
	mode, entropy := a.choice("mode", sprayRandom, sprayRoundRobin), a.choice("entropy", byPath, byPort)
	return func(c Config) (Host, error) {
		p, err := newPieces(c)
		if err != nil {
			return nil, err
		}
		return &spray{
			pieces: p, robin: mode == sprayRoundRobin, ports: entropy == byPort,
			qps: map[hostagent.QP]*rotation{}, turns: map[int]*rotation{},
		}, nil
	}
}

// Post opens a queue pair per flow.
func (s *spray) Post(now fabric.Time, batch []hostagent.Flow) error {
	return s.post(now, batch, 1, func(p *hostagent.Piece) {
		r := s.rotation(p.Dst)
		s.qps[p.QP] = r
		p.Label, p.Labelled = r.labels[0], r.labels[0] < s.span
	})
}

// rotation returns what packets to a host go round.
func (s *spray) rotation(dst fabric.NodeID) *rotation {
	paths := s.paths(dst)
	r := s.turns[len(paths)]
	if r != nil {
		return r
	}
	switch {
	case len(paths) == 0: // switches have nothing to choose: one port will do
		paths = []fabric.Label{s.port()}
	case s.ports:
		paths = paths[:0]
		for l := s.span; l < 1<<fabric.LabelBits; l++ {
			paths = append(paths, l)
		}
	}
	r = &rotation{labels: paths}
	s.rng.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	s.turns[len(s.paths(dst))] = r
	return r
}

// Label implements [PacketHost].
func (s *spray) Label(_ fabric.Time, qp hostagent.QP) fabric.Label {
	r := s.qps[qp]
	if s.robin {
		return r.next()
	}
	return s.entropy(r.labels)
}

// Echo implements [PacketHost].
func (s *spray) Echo(fabric.Time, hostagent.QP, nic.Echo) {}

// Done forgets a queue pair.
func (s *spray) Done(_ fabric.Time, qp hostagent.QP) { delete(s.qps, qp) }
