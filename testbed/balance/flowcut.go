package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

const (
	defaultDrain = 200 // percent of the base round trip
	maxDrain     = 1_000_000
)

// flowcut is the NIC's form of flowcut switching (arXiv 2506.21406): a queue pair takes a new random path only when
// none of its packets are in flight, so that its packets stay in order whatever the paths' delays are. A queue pair
// that never pauses is made to: after a long round trip it sends nothing for that time, until the packets in flight
// have been acknowledged. If some are not by then, it continues on its path.
//
// The paper's NIC judges a path by round trips as well; how it weighs them, and among which paths it chooses, is
// not implemented.
type flowcut struct {
	pieces
	ports bool
	drain int // percent of the base round trip above which a path is left; 0: never
	mtu   int64
	wire  wireLengths
	qps   qpStates[flowcutCount]
	holds []Hold
}

// flowcutCount counts a queue pair's packets since its last change of path.
type flowcutCount struct {
	paths  []fabric.Label // nil: ports
	label  fabric.Label
	base   fabric.Time
	flying int         // packets in flight, retransmitted ones counted again
	left   int64       // bytes not acknowledged
	until  fabric.Time // end of the wait for packets in flight
}

// Flowcut is the name of the scheme whose queue pairs change paths when no packets are in flight.
const Flowcut = "flowcut"

func flowcutSpec() Spec {
	return Spec{
		Name: Flowcut, Summary: "a queue pair takes a new path only when it has no packet in flight",
		Params: []transport.Param{
			{Name: "drain", Meaning: "percent of the base round trip above which a queue pair drains before it moves; 200 when absent, 0 for never"},
			entropyDoc,
		},
		Receiver: transport.GoBackN, Flows: NoFlowModel, Holds: true, host: readFlowcut,
	}
}

func readFlowcut(a *params.Reader) hostFactory {
	drain, entropy := a.Integer("drain", defaultDrain, 0, maxDrain), a.Choice("entropy", byPath, byPort)
	return func(c Config) (Host, error) {
		p, err := newPieces(c)
		if err != nil {
			return nil, err
		}
		mtu := c.MTU
		if mtu == 0 {
			mtu = transport.DefaultMTU
		}
		return &flowcut{
			pieces: p, ports: entropy == byPort, drain: drain, mtu: int64(mtu), wire: wireOf(c), qps: newQPStates[flowcutCount](),
		}, nil
	}
}

// Post opens a queue pair per flow.
func (s *flowcut) Post(now fabric.Time, batch []hostagent.Flow) error {
	return s.postPieces(now, batch, 1, func(p *hostagent.Piece) {
		q := s.qps.begin(p.QP)
		*q = flowcutCount{base: s.baseRTT(p.Dst, s.wire), left: p.Bytes}
		if !s.ports {
			q.paths = s.pathLabels(p.Dst)
		}
		q.label = s.randomLabel(q.paths)
		p.Label, p.Labelled = q.label, q.label < s.span
	})
}

// Label returns the path label of the data packet that a queue pair sends now, for [PacketHost].
func (s *flowcut) Label(_ fabric.Time, qp hostagent.QP) fabric.Label {
	q := s.qps.open[qp]
	if q.flying == 0 {
		q.label = s.randomLabel(q.paths)
	}
	q.flying++
	return q.label
}

// Acked subtracts acknowledged packets from those in flight. A retransmitted packet stays counted, since its copy
// may still be in flight: such a queue pair keeps its path until a time-out.
func (s *flowcut) Acked(_ fabric.Time, qp hostagent.QP, bytes int64) {
	if q := s.qps.open[qp]; q != nil {
		before := (q.left + s.mtu - 1) / s.mtu
		q.left -= bytes
		q.flying = max(0, q.flying-int(before-(q.left+s.mtu-1)/s.mtu)) // late answers come after a time-out
	}
}

// Echo processes what an ACK says about the data packet that caused it: path, mark, round trip, for [PacketHost].
func (s *flowcut) Echo(now fabric.Time, qp hostagent.QP, e transport.Echo) {
	q := s.qps.open[qp]
	if q == nil || s.drain == 0 || now < q.until || len(q.paths) < 2 && !s.ports || e.RTT*100 <= q.base*fabric.Time(s.drain) {
		return
	}
	q.until = now + e.RTT
	s.holds = append(s.holds, Hold{qp, q.until})
}

// Timeout forgets the packets in flight: they are lost, or arrived long ago.
func (s *flowcut) Timeout(_ fabric.Time, qp hostagent.QP) {
	if q := s.qps.open[qp]; q != nil {
		q.flying = 0
	}
}

// Holds returns the pauses of queue pairs requested since the last call, for [PausingHost].
func (s *flowcut) Holds() []Hold {
	out := s.holds
	s.holds = s.holds[:0]
	return out
}

// Done forgets a queue pair.
func (s *flowcut) Done(_ fabric.Time, qp hostagent.QP) { s.qps.end(qp) }
