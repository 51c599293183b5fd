package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

const (
	falconFlows    = 4
	maxFalconFlows = 16
	plbAttempts    = 4 // congested round trips in a row
)

// falcon is the path choice of Google's Falcon (SIGCOMM 2025; specification of the Open Compute Project). A connection
// has several flows, each on one path with a window by Swift: its fabric window. A packet takes the flow whose window
// has most room. Protective load balancing (PLB, SIGCOMM 2022) gives a flow another path when most of its packets took
// longer than Swift's target in several round trips in a row, or when it loses a packet after silence.
//
// Public sources leave open how many flows there are, and PLB's constants: they are parameters here. Falcon's second
// window, for the peer's resources, never binds: hosts here take no time. If all windows together are less than a
// packet, the connection pauses, as Swift's queue pairs do.
type falcon struct {
	pieces
	flows    int
	attempts int
	target   fabric.Time // 0: three quarters of an idle round trip, as with the rate control swift
	ports    bool
	wire     wireLengths
	qps      qpStates[falconQP]
	holds    []Hold
}

type falconQP struct {
	dst   fabric.NodeID
	flows []falconFlow
}

// falconFlow is one path of a connection.
type falconFlow struct {
	transport.SwiftPath
	label  fabric.Label
	out    int64 // bytes in flight
	silent int   // losses since the last answer

	// Protective load balancing.
	roundEnd  fabric.Time // packets that are answered later belong to the next round trip
	all, slow int         // answers in this round trip, and those above the target
	congested int         // congested round trips in a row
}

// Falcon is the name of the scheme by which Google's Falcon (SIGCOMM 2025) chooses paths.
const Falcon = "falcon"

func falconSpec() Spec {
	return Spec{
		Name: Falcon, Summary: "Google's Falcon: a few paths with a window each; a path with long delays is replaced",
		Params: []transport.Param{
			{Name: "flows", Meaning: "paths of a queue pair at a time, up to 16; 4 when absent"},
			{Name: "attempts", Meaning: "congested round trips in a row after which a path is replaced; 4 when absent"},
			{Name: "target_delay", Meaning: "queueing that is no congestion; three quarters of an idle round trip when absent"},
			entropyDoc, newsDoc,
		},
		Receiver: transport.Falcon, Control: transport.NoControl, DetectsLate: true, Flows: Spread, Holds: true, host: readFalcon,
	}
}

func readFalcon(a *params.Reader) hostFactory {
	n, entropy := a.Integer("flows", falconFlows, 1, maxFalconFlows), a.Choice("entropy", byPath, byPort)
	attempts, target := a.Integer("attempts", plbAttempts, 1, 1000), a.Time("target_delay", 0, 6*fabric.Microsecond)
	return func(c Config) (Host, error) {
		p, err := newPieces(c)
		if err != nil {
			return nil, err
		}
		return &falcon{
			pieces: p, flows: n, attempts: attempts, target: target, ports: entropy == byPort, wire: wireOf(c),
			qps: newQPStates[falconQP](),
		}, nil
	}
}

// Post opens a queue pair per flow.
func (s *falcon) Post(now fabric.Time, batch []hostagent.Flow) error {
	return s.postPieces(now, batch, 1, func(p *hostagent.Piece) {
		q := s.qps.begin(p.QP)
		*q = falconQP{dst: p.Dst, flows: q.flows[:0]}
		labels := s.drawLabels(p.Dst, s.flows, s.ports)
		trip, target := s.baseRTT(p.Dst, s.wire), s.target
		if target == 0 {
			target = trip * 3 / 4
		}
		idle := int64(float64(trip) / float64(s.f.Link(s.f.Node(s.host).Link(1)).Rate.TimeFor(1_000_000)) * 1e6)
		for _, l := range labels {
			q.flows = append(q.flows, falconFlow{
				SwiftPath: transport.NewSwift(s.wire.data, idle, int64(len(labels)), trip, target), label: l,
			})
		}
		p.Label = q.flows[0].label
		p.Labelled = p.Label < s.span
	})
}

// mostRoom returns the flow with the most free window, and the bytes in flight and in all windows.
func (q *falconQP) mostRoom() (best *falconFlow, out, windows int64) {
	best = &q.flows[0]
	for i := range q.flows {
		f := &q.flows[i]
		if f.Window-f.out > best.Window-best.out {
			best = f
		}
		out, windows = out+f.out, windows+f.Window
	}
	return best, out, windows
}

// Room reports whether a path's window has room for another packet of a queue pair, for [transport.WindowedBalancer].
func (s *falcon) Room(qp hostagent.QP, onTheWay int32) bool {
	q := s.qps.open[qp]
	if q == nil {
		return true
	}
	best, out, _ := q.mostRoom()
	if sent := int64(onTheWay) * s.wire.data; out > sent {
		q.takeFromFlight(out - sent)
		best, out, _ = q.mostRoom()
	}
	return out == 0 || best.Window-best.out >= s.wire.data
}

// takeFromFlight subtracts bytes from those in flight, most from the flows with most.
func (q *falconQP) takeFromFlight(bytes int64) {
	for bytes > 0 {
		most := &q.flows[0]
		for i := range q.flows {
			if q.flows[i].out > most.out {
				most = &q.flows[i]
			}
		}
		less := min(bytes, most.out)
		most.out -= less
		bytes -= less
	}
}

// Label returns the path label of the data packet that a queue pair sends now, for [PacketHost].
func (s *falcon) Label(now fabric.Time, qp hostagent.QP) fabric.Label {
	q := s.qps.open[qp]
	f, _, windows := q.mostRoom()
	f.out += s.wire.data
	if windows < s.wire.data {
		s.holds = append(s.holds, Hold{qp, now + fabric.Time(float64(f.Trip)*float64(s.wire.data)/float64(max(windows, 1)))})
	}
	f.label = s.livePath(q.dst, f.label)
	return f.label
}

// Holds returns the pauses of queue pairs requested since the last call, for [PausingHost].
func (s *falcon) Holds() []Hold {
	out := s.holds
	s.holds = s.holds[:0]
	return out
}

// flow returns the flow with a label. Packets of a path that it has left are the flow's with most bytes in flight.
func (q *falconQP) flow(l fabric.Label) (f *falconFlow, present bool) {
	f = &q.flows[0]
	for i := range q.flows {
		if q.flows[i].label == l {
			return &q.flows[i], true
		}
		if q.flows[i].out > f.out {
			f = &q.flows[i]
		}
	}
	return f, false
}

// Echo processes what an ACK says about the data packet that caused it: path, mark, round trip, for [PacketHost].
func (s *falcon) Echo(now fabric.Time, qp hostagent.QP, e transport.Echo) {
	q := s.qps.open[qp]
	if q == nil {
		return
	}
	f, present := q.flow(e.Label)
	f.out = max(0, f.out-s.wire.data)
	if !present || e.Trip == 0 {
		return
	}
	f.silent = 0
	f.Answered(now, e.Trip, 1)
	if f.all++; e.Trip > f.Allowed() {
		f.slow++
	}
	if now < f.roundEnd {
		return
	}
	if f.congested++; 2*f.slow < f.all {
		f.congested = 0
	}
	f.roundEnd, f.all, f.slow = now+e.Trip, 0, 0
	if f.congested >= s.attempts {
		s.replace(q, f)
	}
}

// replace moves a flow to another path, which no flow of the queue pair uses, if there is one.
func (s *falcon) replace(q *falconQP, f *falconFlow) {
	f.congested, f.all, f.slow, f.silent = 0, 0, 0, 0
	for _, l := range s.drawLabels(q.dst, maxFalconFlows+1, s.ports) {
		if _, used := q.flow(l); !used {
			f.label = s.livePath(q.dst, l)
			return
		}
	}
}

// LostBy processes the loss of a data packet on the path with label l, for [transport.PathLosses].
func (s *falcon) LostBy(now fabric.Time, qp hostagent.QP, l fabric.Label) {
	q := s.qps.open[qp]
	if q == nil {
		return
	}
	f, present := q.flow(l)
	if f.out = max(0, f.out-s.wire.data); !present {
		return
	}
	f.Lost(now)
	if f.silent++; f.silent > 1 { // a second loss and no answer in between
		s.replace(q, f)
	}
}

// Timeout treats all bytes in flight as lost.
func (s *falcon) Timeout(_ fabric.Time, qp hostagent.QP) {
	if q := s.qps.open[qp]; q != nil {
		for i := range q.flows {
			q.flows[i].out = 0
		}
	}
}

// Done forgets a queue pair.
func (s *falcon) Done(_ fabric.Time, qp hostagent.QP) { s.qps.end(qp) }
