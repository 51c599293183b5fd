package balance

import (
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Thresholds of hopper, in percent.
const (
	hopperProbe = 150 // of the base round trip: probe above
	hopperMove  = 80  // of the current round trip: move if the best probe is below
	hopperPaths = 2   // number of paths that are probed at a time
)

// hopper moves whole queue pairs (arXiv 2506.08132). Once per round trip it checks the round-trip time. If that is
// long, it sends probes with two other labels, and moves to the better of them if that is clearly better than the
// present path. Before the first packet on the new path it waits for the difference of the two round-trip times, so
// that packets stay in order: ACKs have separate queues, so the whole difference is on the data's way.
type hopper struct {
	pieces
	ports bool
	wire  wireLengths
	qps   qpStates[hoppingQP]
	holds []Hold
}

// hoppingQP is a queue pair of the hopper scheme, or a probe for one.
type hoppingQP struct {
	qp    hostagent.QP
	dst   fabric.NodeID
	paths []fabric.Label // nil: ports
	label fabric.Label
	base  fabric.Time
	rtt   fabric.Time // the latest

	probing int         // probes without an answer
	best    fabric.Time // shortest round trip of the answers; math.MaxInt64: none
	bestBy  fabric.Label

	probed hostagent.QP // the queue pair that a probe is for; 0: not a probe
}

// Hopper is the name of the scheme that moves queue pairs by round-trip times.
const Hopper = "hopper"

func hopperSpec() Spec {
	return Spec{
		Name: Hopper, Summary: "a queue pair moves to a better path when its round-trip time grows",
		Params: []transport.Param{
			{Name: "entropy", Meaning: "port, path: switches hash a packet's source port, or its label names its path"}, lossDoc,
		},
		Receiver: transport.SelectiveRepeat, Flows: NoFlowModel, Holds: true, host: readHopper,
	}
}

func readHopper(a *params.Reader) hostFactory {
	entropy := a.Choice("entropy", byPort, byPath)
	return func(c Config) (Host, error) {
		p, err := newPieces(c)
		if err != nil {
			return nil, err
		}
		return &hopper{pieces: p, ports: entropy == byPort, wire: wireOf(c), qps: newQPStates[hoppingQP]()}, nil
	}
}

// Post opens a queue pair per flow.
func (s *hopper) Post(now fabric.Time, batch []hostagent.Flow) error {
	return s.postPieces(now, batch, 1, func(p *hostagent.Piece) {
		h := s.qps.begin(p.QP)
		*h = hoppingQP{qp: p.QP, dst: p.Dst, base: s.baseRTT(p.Dst, s.wire)}
		if !s.ports {
			h.paths = s.pathLabels(p.Dst)
		}
		h.label = s.randomLabel(h.paths)
		p.Label, p.Labelled = h.label, h.label < s.span
	})
}

// Label returns the path label of the data packet that a queue pair sends now, for [PacketHost].
func (s *hopper) Label(_ fabric.Time, qp hostagent.QP) fabric.Label { return s.qps.open[qp].label }

// Echo processes what an ACK says about the data packet that caused it: path, mark, round trip, for [PacketHost].
func (s *hopper) Echo(now fabric.Time, qp hostagent.QP, e transport.Echo) {
	h := s.qps.open[qp]
	if h == nil {
		return
	}
	if h.probed != 0 {
		s.answered(now, h, e.RTT)
		return
	}
	if e.RTT == 0 {
		return
	}
	h.rtt = e.RTT
	if h.probing == 0 && h.rtt*100 > h.base*hopperProbe && s.f.ToROf(h.dst) != s.f.ToROf(s.host) {
		s.probe(now, h)
	}
}

// probe requests the round-trip times of other labels.
func (s *hopper) probe(now fabric.Time, h *hoppingQP) {
	h.best = math.MaxInt64
	var tried [hopperPaths]fabric.Label
	for i := range min(hopperPaths, s.otherLabels(h)) {
		l := s.randomLabel(h.paths)
		for l == h.label || i > 0 && l == tried[0] {
			l = s.randomLabel(h.paths)
		}
		tried[i] = l
		s.last++
		*s.qps.begin(s.last) = hoppingQP{qp: s.last, label: l, probed: h.qp}
		s.open = append(s.open, hostagent.Piece{QP: s.last, Dst: h.dst, Label: l, Labelled: l < s.span, Start: now})
		h.probing++
	}
}

// otherLabels returns the number of other labels that a queue pair can take.
func (s *hopper) otherLabels(h *hoppingQP) int {
	if h.paths == nil {
		return 1<<fabric.LabelBits - int(s.span) - 1
	}
	return len(h.paths) - 1
}

// answered processes a probe's round trip; 0: the probe was lost and retransmitted.
func (s *hopper) answered(now fabric.Time, probe *hoppingQP, rtt fabric.Time) {
	h := s.qps.open[probe.probed]
	probe.probed = math.MaxUint32 // answered already
	if h == nil {
		return
	}
	if rtt > 0 && rtt < h.best {
		h.best, h.bestBy = rtt, probe.label
	}
	if h.probing--; h.probing == 0 && h.best < math.MaxInt64 && h.best*100 < h.rtt*hopperMove {
		h.label = h.bestBy
		s.holds = append(s.holds, Hold{h.qp, now + h.rtt - h.best})
	}
}

// Holds returns the pauses of queue pairs requested since the last call, for [PausingHost].
func (s *hopper) Holds() []Hold {
	out := s.holds
	s.holds = s.holds[:0]
	return out
}

// Done forgets a queue pair.
func (s *hopper) Done(_ fabric.Time, qp hostagent.QP) { s.qps.end(qp) }
