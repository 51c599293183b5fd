package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

const (
	srdPaths     = 64 // number of paths of a queue pair, as in the paper
	maxSRDPaths  = 256
	srdPenalties = 8 // doublings of the time for which a path that loses packets is avoided
)

// srd is the path choice of Amazon's Scalable Reliable Datagram (Shalev et al., IEEE Micro 40(6), 2020): packets take
// several paths, which the sender chooses by a field that switches hash; it keeps a round trip per path, and moves
// packets away from slow ones. Lost packets are found by time, and sent again by another path.
//
// The paper leaves open how paths are chosen. Our reading: packets take the paths in turn. A path is slow if the
// average of its round trips (the latest counts one half) exceeds that of the fastest by more than the slack. It is
// then avoided for two round trips; one packet tests it, and it is used again if that packet is fast. A path that
// loses a packet is avoided for four idle round trips, doubled with each loss until an answer comes by it.
type srd struct {
	pieces
	n     int
	ports bool
	slack fabric.Time // 0: half an idle round trip
	wire  wireLengths
	qps   qpStates[srdQP]
}

type srdQP struct {
	dst   fabric.NodeID
	at    int
	base  fabric.Time // an idle round trip
	slack fabric.Time
	paths []srdPath
}

type srdPath struct {
	label  fabric.Label
	trip   fabric.Time // average; 0: unknown
	avoid  fabric.Time // no packet takes it before
	losses int8        // since the last answer
}

// SRD is the name of the scheme by which Amazon's Scalable Reliable Datagram chooses paths.
const SRD = "srd"

func srdSpec() Spec {
	return Spec{
		Name: SRD, Summary: "Amazon's SRD: hosts use up to 64 paths in turn, and avoid those with longer round trips or losses",
		Params: []transport.Param{
			{Name: "paths", Meaning: "paths of a queue pair, up to 256; 64 when absent"},
			{Name: "slack", Meaning: "by how much a path's round trip may exceed the fastest path's; half an idle round trip when absent"},
			entropyDoc, newsDoc,
		},
		Receiver: transport.Ideal, Control: transport.SRD, DetectsLate: true, Flows: Spread, host: readSRD,
	}
}

func readSRD(a *params.Reader) hostFactory {
	n, entropy := a.Integer("paths", srdPaths, 1, maxSRDPaths), a.Choice("entropy", byPath, byPort)
	slack := a.Time("slack", 0, 5*fabric.Microsecond)
	return func(c Config) (Host, error) {
		p, err := newPieces(c)
		if err != nil {
			return nil, err
		}
		return &srd{pieces: p, n: n, ports: entropy == byPort, slack: slack, wire: wireOf(c), qps: newQPStates[srdQP]()}, nil
	}
}

// Post opens a queue pair per flow.
func (s *srd) Post(now fabric.Time, batch []hostagent.Flow) error {
	return s.postPieces(now, batch, 1, func(p *hostagent.Piece) {
		q := s.qps.begin(p.QP)
		*q = srdQP{dst: p.Dst, base: s.baseRTT(p.Dst, s.wire), slack: s.slack, paths: q.paths[:0]}
		if q.slack == 0 {
			q.slack = q.base / 2
		}
		for _, l := range s.drawLabels(p.Dst, s.n, s.ports) {
			q.paths = append(q.paths, srdPath{label: l})
		}
		p.Label = q.paths[0].label
		p.Labelled = p.Label < s.span
	})
}

// Label returns the path label of the data packet that a queue pair sends now, for [PacketHost].
func (s *srd) Label(now fabric.Time, qp hostagent.QP) fabric.Label {
	q := s.qps.open[qp]
	return s.livePath(q.dst, q.pick(now))
}

// pick returns the next path that is not avoided; if all are, the one that is soonest not.
func (q *srdQP) pick(now fabric.Time) fabric.Label {
	best := &q.paths[q.at]
	for range q.paths {
		p := &q.paths[q.at]
		if q.at++; q.at == len(q.paths) {
			q.at = 0
		}
		if p.avoid <= now {
			if p.avoid > 0 { // this packet tests it
				p.avoid = now + 2*max(p.trip, q.base)
			}
			return p.label
		}
		if p.avoid < best.avoid {
			best = p
		}
	}
	return best.label
}

// Echo processes what an ACK says about the data packet that caused it: path, mark, round trip, for [PacketHost].
func (s *srd) Echo(now fabric.Time, qp hostagent.QP, e transport.Echo) {
	q := s.qps.open[qp]
	if q == nil || e.Trip == 0 {
		return
	}
	p, least := q.find(e.Label), e.Trip
	if p == nil {
		return
	}
	if p.losses = 0; p.trip == 0 {
		p.trip = e.Trip
	}
	p.trip = (p.trip + e.Trip) / 2
	for i := range q.paths {
		if t := q.paths[i].trip; t > 0 {
			least = min(least, t)
		}
	}
	if p.avoid = 0; min(p.trip, e.Trip) > least+q.slack {
		p.avoid = now + 2*p.trip
	}
}

func (q *srdQP) find(l fabric.Label) *srdPath {
	for i := range q.paths {
		if q.paths[i].label == l {
			return &q.paths[i]
		}
	}
	return nil
}

// LostBy processes the loss of a data packet on the path with label l, for [transport.PathLosses].
func (s *srd) LostBy(now fabric.Time, qp hostagent.QP, l fabric.Label) {
	q := s.qps.open[qp]
	if q == nil {
		return
	}
	if p := q.find(l); p != nil {
		p.avoid = max(p.avoid, now+q.base<<(2+p.losses))
		p.losses = min(p.losses+1, srdPenalties)
	}
}

// Done forgets a queue pair.
func (s *srd) Done(_ fabric.Time, qp hostagent.QP) { s.qps.end(qp) }
