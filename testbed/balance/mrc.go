package balance

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

const (
	defaultValues = 128
	maxValues     = 256
	maxSkips      = 15 // largest number of remembered marks per value
	defaultProbes = 16
	maxProbes     = 1000
)

// mrc is the path choice of multipath RC (MRC, arXiv 2605.04333). A queue pair has a set of entropy values, which
// its packets take in turn. After a mark, a value is skipped once. A packet that is lost, not trimmed by a switch,
// retires its value at once, and another value replaces it. Probes bring the retired value back after a number of
// consecutive answers without a loss, one probe after the other. The timer retransmits a lost probe.
//
// The paper does not say how often a marked value is skipped, nor how many probes are needed. A mark counts as in
// htsim's bitmap of UEC (uec_mp.cpp). The number of probes is our choice, since a path that loses a fifth more
// often than not lets one probe pass. A queue pair begins with as many values as there are paths, or ports, up to
// the parameter. With paths there may be no replacement for a value: the set is then one smaller until the value is
// back.
type mrc struct {
	pieces
	values int
	ports  bool
	probes int
	qps    qpStates[entropySet]
	ends   []hostagent.QP
}

// entropySet is a queue pair's set of entropy values, or a probe for one of them.
type entropySet struct {
	dst    fabric.NodeID
	values []entropyValue
	at     int
	spare  []fabric.Label // paths outside the set of values
	paths  []fabric.Label // nil: ports
	probes []hostagent.QP // unanswered ones

	probed hostagent.QP // the queue pair that a probe is for; 0: not a probe
	probe  fabric.Label
	good   int // consecutive probes answered without retransmission
}

type entropyValue struct {
	label   fabric.Label
	skips   int8
	retired bool
}

// MRC is the name of the scheme by which multipath reliable connections (MRC) choose paths.
const MRC = "mrc"

func mrcSpec() Spec {
	return Spec{
		Name: MRC, Summary: "multipath RC: hosts use several paths in turn, skip paths that mark packets and replace paths that lose packets",
		Params: []transport.Param{
			{Name: "values", Meaning: "entropies of a queue pair, up to 256; 128 when absent"},
			{Name: "probes", Meaning: "probes answered in a row that bring a retired entropy back; 16 when absent"},
			entropyDoc, lossDoc, newsDoc,
		},
		Receiver: transport.SelectiveRepeat, Flows: Spread, host: readMRC,
	}
}

func readMRC(a *params.Reader) hostFactory {
	n, entropy := a.Integer("values", defaultValues, 1, maxValues), a.Choice("entropy", byPath, byPort)
	probes := a.Integer("probes", defaultProbes, 1, maxProbes)
	return func(c Config) (Host, error) {
		p, err := newPieces(c)
		if err != nil {
			return nil, err
		}
		return &mrc{pieces: p, values: n, ports: entropy == byPort, probes: probes, qps: newQPStates[entropySet]()}, nil
	}
}

// Post opens a queue pair per flow.
func (s *mrc) Post(now fabric.Time, batch []hostagent.Flow) error {
	return s.postPieces(now, batch, 1, func(p *hostagent.Piece) {
		q := s.qps.begin(p.QP)
		*q = entropySet{dst: p.Dst, values: q.values[:0], spare: q.spare[:0], probes: q.probes[:0]}
		if !s.ports {
			q.paths = s.pathLabels(p.Dst)
		}
		if q.paths == nil {
			for range s.values {
				q.values = append(q.values, entropyValue{label: s.randomPort()})
			}
		} else {
			q.spare = append(q.spare, q.paths...)
			s.rng.Shuffle(len(q.spare), func(i, j int) { q.spare[i], q.spare[j] = q.spare[j], q.spare[i] })
			for len(q.values) < s.values && len(q.spare) > 0 {
				q.values = append(q.values, entropyValue{label: q.takeSpare()})
			}
		}
		p.Label = q.values[0].label
		p.Labelled = p.Label < s.span
	})
}

// takeSpare removes and returns a spare label.
func (q *entropySet) takeSpare() fabric.Label {
	l := q.spare[len(q.spare)-1]
	q.spare = q.spare[:len(q.spare)-1]
	return l
}

// Label returns the path label of the data packet that a queue pair sends now, for [PacketHost].
func (s *mrc) Label(_ fabric.Time, qp hostagent.QP) fabric.Label {
	q := s.qps.open[qp]
	if q.probed != 0 {
		return q.probe
	}
	return s.livePath(q.dst, q.pick())
}

// pick returns the next value that is neither retired nor to be skipped.
func (q *entropySet) pick() fabric.Label {
	best := -1
	for range q.values {
		v := &q.values[q.at]
		i := q.at
		if q.at++; q.at == len(q.values) {
			q.at = 0
		}
		switch {
		case v.retired:
		case v.skips > 0:
			v.skips--
			best = i
		default:
			return v.label
		}
	}
	if best < 0 { // all are retired: one may be alive
		best = q.at
	}
	return q.values[best].label
}

// Echo processes what an ACK says about the data packet that caused it: path, mark, round trip, for [PacketHost].
func (s *mrc) Echo(now fabric.Time, qp hostagent.QP, e transport.Echo) {
	q := s.qps.open[qp]
	switch {
	case q == nil:
	case q.probed != 0:
		s.answered(now, qp, q, e.RTT)
	case e.Marked:
		if v := q.find(e.Label); v != nil {
			v.skips = min(v.skips+1, maxSkips)
		}
	}
}

func (q *entropySet) find(l fabric.Label) *entropyValue {
	for i := range q.values {
		if q.values[i].label == l {
			return &q.values[i]
		}
	}
	return nil
}

// LostBy processes the loss of a data packet on the path with label l, for [transport.PathLosses].
func (s *mrc) LostBy(now fabric.Time, qp hostagent.QP, l fabric.Label) {
	q := s.qps.open[qp]
	if q == nil || q.probed != 0 {
		return
	}
	v := q.find(l)
	if v == nil || v.retired {
		return
	}
	switch {
	case q.paths == nil:
		*v = entropyValue{label: s.randomPort()}
	case len(q.spare) > 0:
		*v = entropyValue{label: q.takeSpare()}
	default:
		v.retired = true
	}
	s.send(now, q, entropySet{dst: q.dst, probed: qp, probe: l})
}

// send sends a probe for a queue pair.
func (s *mrc) send(now fabric.Time, q *entropySet, p entropySet) {
	s.last++
	*s.qps.begin(s.last) = p
	q.probes = append(q.probes, s.last)
	s.open = append(s.open, hostagent.Piece{QP: s.last, Dst: p.dst, Label: p.probe, Labelled: p.probe < s.span, Start: now})
}

// answered processes a probe's round trip; 0: the probe was lost and retransmitted.
func (s *mrc) answered(now fabric.Time, qp hostagent.QP, p *entropySet, rtt fabric.Time) {
	of := s.qps.open[p.probed]
	if of == nil {
		return
	}
	of.probes = slices.DeleteFunc(of.probes, func(x hostagent.QP) bool { return x == qp })
	if p.good++; rtt == 0 {
		p.good = 0
	}
	if p.good < s.probes {
		s.send(now, of, entropySet{dst: p.dst, probed: p.probed, probe: p.probe, good: p.good})
		return
	}
	of.restore(p.probe)
}

// restore puts a retired label back into the set.
func (q *entropySet) restore(l fabric.Label) {
	if v := q.find(l); v != nil {
		v.retired = false
	} else if q.paths != nil {
		q.spare = append(q.spare, l)
	}
}

// Done forgets a queue pair, and ends its probes.
func (s *mrc) Done(_ fabric.Time, qp hostagent.QP) {
	if q := s.qps.open[qp]; q != nil {
		s.ends = append(s.ends, q.probes...)
		s.qps.end(qp)
	}
}

// Ends returns, once, the probes whose results are no longer needed, for [ProbeEnder].
func (s *mrc) Ends() []hostagent.QP {
	out := s.ends
	s.ends = s.ends[:0]
	return out
}
