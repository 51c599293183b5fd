package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Values of spray's parameter mode.
const (
	sprayRandom     = "random"
	sprayRoundRobin = "round-robin"
	sprayValiant    = "valiant"
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

// sprayedQP is the label state of a queue pair whose packets are sprayed.
type sprayedQP struct {
	rotation
	dst fabric.NodeID
}

// spray gives every packet its own label: random ones, or in turn, with one pointer per queue pair that starts at
// random. (One pointer for the host would synchronise with the queue pairs' turns: with as many of them as paths,
// or a multiple, each would stay on one path.)
type spray struct {
	pieces
	robin, ports, valiant bool
	qps                   qpStates[sprayedQP]
	choices               map[int][]fabric.Label // by number of paths: within the pod, and between pods
}

// Spray is the name of the scheme in which hosts send each packet by a path chosen at random or in turn.
const Spray = "spray"

func spraySpec() Spec {
	return Spec{
		Name: Spray, Summary: "hosts choose a new path for every packet, at random or in turn",
		Params: []transport.Param{
			{Name: "mode", Meaning: "random, round-robin, valiant: how hosts choose; valiant: at random among the paths of a dragonfly that are not minimal"}, entropyDoc, lossDoc, newsDoc,
		},
		Receiver: transport.Ideal, Flows: Spread, host: readSpray,
	}
}

func readSpray(a *params.Reader) hostFactory {
	mode, entropy := a.Choice("mode", sprayRandom, sprayRoundRobin, sprayValiant), a.Choice("entropy", byPath, byPort)
	return func(c Config) (Host, error) {
		p, err := newPieces(c)
		if err != nil {
			return nil, err
		}
		return &spray{
			pieces: p, robin: mode == sprayRoundRobin, ports: entropy == byPort, valiant: mode == sprayValiant,
			qps: newQPStates[sprayedQP](), choices: map[int][]fabric.Label{},
		}, nil
	}
}

// Post opens a queue pair per flow.
func (s *spray) Post(now fabric.Time, batch []hostagent.Flow) error {
	return s.postPieces(now, batch, 1, func(p *hostagent.Piece) {
		r := s.qps.begin(p.QP)
		r.dst, r.labels = p.Dst, s.labelOrder(p.Dst)
		r.at = s.rng.IntN(len(r.labels))
		p.Label = s.notMinimal(r.dst, r.labels[r.at], r.labels)
		p.Labelled = p.Label < s.span
	})
}

// labelOrder returns the labels of packets to a host, in an order that is random per host.
func (s *spray) labelOrder(dst fabric.NodeID) []fabric.Label {
	labels := s.pathLabels(dst)
	n := len(labels)
	if known := s.choices[n]; known != nil {
		return known
	}
	switch {
	case n == 0: // switches have no choice: one port suffices
		labels = []fabric.Label{s.randomPort()}
	case s.ports:
		labels = labels[:0]
		for l := s.span; l < 1<<fabric.LabelBits; l++ {
			labels = append(labels, l)
		}
	}
	s.rng.Shuffle(len(labels), func(i, j int) { labels[i], labels[j] = labels[j], labels[i] })
	s.choices[n] = labels
	return labels
}

// Label returns the path label of the data packet that a queue pair sends now, for [PacketHost].
func (s *spray) Label(_ fabric.Time, qp hostagent.QP) fabric.Label {
	r := s.qps.open[qp]
	if s.robin {
		return s.livePath(r.dst, r.next())
	}
	return s.livePath(r.dst, s.notMinimal(r.dst, s.randomLabel(r.labels), r.labels))
}

// notMinimal returns the label, or another one if it must not name the minimal path.
func (s *spray) notMinimal(dst fabric.NodeID, l fabric.Label, labels []fabric.Label) fabric.Label {
	if !s.valiant || s.f.Clos() || len(labels) < 2 {
		return l
	}
	for minimal := s.f.Minimal(); l == minimal; {
		l = s.randomLabel(labels)
	}
	return l
}

// Echo does nothing: ACKs do not influence the choice of paths.
func (s *spray) Echo(fabric.Time, hostagent.QP, transport.Echo) {}

// Done forgets a queue pair.
func (s *spray) Done(_ fabric.Time, qp hostagent.QP) { s.qps.end(qp) }
