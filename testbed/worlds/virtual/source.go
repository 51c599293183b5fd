package virtual

import (
	"math/rand/v2"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
	netp4 "github.com/ethereal-fabric/ethereal/testbed/sim/p4"
)

// source is the pipeline of a ToR that labels packets of its hosts by UGAL-L before the P4 program sees them: v1model's
// ingress cannot read queues. It knows which of its own ports are dead, and if a controller or a routing protocol
// repairs the tables, which other links are.
type source struct {
	*netp4.Switch
	n      *node
	rng    *rand.Rand
	byFlow bool
	flows  map[flowKey]fabric.Label
	hosts  uint32 // ports 1 to hosts lead to hosts
	dead   []bool // by port number - 1
}

// flowKey is a queue pair, by its source port as the host chose it.
type flowKey struct {
	src, dst fabric.NodeID
	port     uint16
}

var _ sim.InPlace = (*source)(nil)

func newSource(n *node, byFlow bool) *source {
	f := n.w.f
	_, hosts := f.HostsOf(n.id)
	return &source{
		Switch: n.pipeline, n: n, byFlow: byFlow, rng: rand.New(rand.NewPCG(n.w.run.Seed, uint64(n.id)<<8|1)),
		flows: map[flowKey]fabric.Label{}, hosts: uint32(hosts), dead: make([]bool, f.Node(n.id).Ports()),
	}
}

// Ingress appends to out the copies of an arriving packet, for [sim.Pipeline].
func (s *source) Ingress(a sim.Arrival, out []sim.Copy) []sim.Copy {
	s.label(a)
	return s.Switch.Ingress(a, out)
}

// IngressInPlace processes an arriving packet without copying it, for [sim.InPlace].
func (s *source) IngressInPlace(a sim.Arrival, held *sim.HeldPacket) (c sim.Copy, drop, ok bool) {
	s.label(a)
	return s.Switch.IngressInPlace(a, held)
}

// label gives a RoCEv2 packet of a host a label, unless it has one.
func (s *source) label(a sim.Arrival) {
	if a.Port > s.hosts {
		return
	}
	f := s.n.w.f
	p, err := frame.ParseHeaders(a.Header)
	if err != nil {
		return
	}
	port := p.SourcePort()
	if l, ok := frame.LabelOfSourcePort(port); !ok || l < f.LabelSpan() {
		return
	}
	src, _ := f.HostByAddr(p.Source())
	dst, ok := f.HostByAddr(p.Destination())
	if !ok || f.ToROf(dst) == s.n.id {
		return
	}
	key := flowKey{src, dst, port}
	l, known := s.flows[key]
	if !known {
		l = s.choose(f.ToROf(dst))
	}
	if s.byFlow && !known {
		s.flows[key] = l
	}
	p.SetSourcePort(frame.SourcePort(l))
}

// choose compares the minimal path to a ToR with a random other path, by the data in their first port's queue times
// their number of links between switches. In a Clos it compares two random paths.
func (s *source) choose(dst fabric.NodeID) fabric.Label {
	f := s.n.w.f
	labels := f.PathLabels(s.n.id, dst)
	best := labels[s.rng.IntN(len(labels))]
	if !f.Clos() {
		best = f.Minimal()
	}
	other := labels[s.rng.IntN(len(labels))]
	if s.cost(dst, other) < s.cost(dst, best) {
		return other
	}
	return best
}

// cost returns what UGAL-L compares; it exceeds any other if the path is known to be dead.
func (s *source) cost(dst fabric.NodeID, l fabric.Label) int64 {
	var buf [6]fabric.Hop
	hops, _ := s.n.w.f.Path(buf[:0], s.n.id, dst, l)
	if s.dead[hops[0].Port-1] || slices.ContainsFunc(hops, func(h fabric.Hop) bool { return s.n.w.reportedDead(h.Link) }) {
		return 1 << 62
	}
	data, _ := s.n.w.net.Queued(s.n.w.net.SendDirection(s.n.id, hops[0].Port))
	return data * int64(len(hops))
}
