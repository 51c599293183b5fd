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

// sprayed has the labels of a queue pair's packets.
type sprayed struct {
	rotation
	dst fabric.NodeID
}

// spray gives every packet its own label: random ones, or in turn, with one pointer per queue pair that starts at
// random. (One pointer for the host would synchronise with the queue pairs' turns: with as many of them as paths,
// or a multiple, each would stay on one path.)
type spray struct {
	pieces
	robin, ports bool
	qps          book[sprayed]
	choices      map[int][]fabric.Label // by number of paths: within the pod, and between pods
}

// Spray is the name of the scheme whose hosts spray.
const Spray = "spray"

func spraySpec() Spec {
	return Spec{
		Name: Spray, Summary: "hosts choose a new path for every packet, at random or in turn",
		Params: []transport.Param{
			{Name: "mode", Meaning: "random, round-robin: how hosts choose"}, entropyDoc, lossDoc, newsDoc,
		},
		Receiver: transport.Ideal, Flows: Spread, host: readSpray,
	}
}

func readSpray(a *params.Reader) factory {
	mode, entropy := a.Choice("mode", sprayRandom, sprayRoundRobin), a.Choice("entropy", byPath, byPort)
	return func(c Config) (Host, error) {
		p, err := newPieces(c)
		if err != nil {
			return nil, err
		}
		return &spray{
			pieces: p, robin: mode == sprayRoundRobin, ports: entropy == byPort,
			qps: newBook[sprayed](), choices: map[int][]fabric.Label{},
		}, nil
	}
}

// Post opens a queue pair per flow.
func (s *spray) Post(now fabric.Time, batch []hostagent.Flow) error {
	return s.post(now, batch, 1, func(p *hostagent.Piece) {
		r := s.qps.begin(p.QP)
		r.dst, r.labels = p.Dst, s.choice(p.Dst)
		r.at = s.rng.IntN(len(r.labels))
		p.Label = r.labels[r.at]
		p.Labelled = p.Label < s.span
	})
}

// choice returns the labels of packets to a host, in the host's own random order.
func (s *spray) choice(dst fabric.NodeID) []fabric.Label {
	labels := s.paths(dst)
	n := len(labels)
	if known := s.choices[n]; known != nil {
		return known
	}
	switch {
	case n == 0: // switches have no choice: one port suffices
		labels = []fabric.Label{s.port()}
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

// Label implements [PacketHost].
func (s *spray) Label(_ fabric.Time, qp hostagent.QP) fabric.Label {
	r := s.qps.open[qp]
	if s.robin {
		return s.alive(r.dst, r.next())
	}
	return s.alive(r.dst, s.entropy(r.labels))
}

// Echo implements [PacketHost].
func (s *spray) Echo(fabric.Time, hostagent.QP, transport.Echo) {}

// Done forgets a queue pair.
func (s *spray) Done(_ fabric.Time, qp hostagent.QP) { s.qps.end(qp) }
