package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/params"
)

const (
	clockedProbe = 100 // one packet in so many goes by a random path
	clockedRing  = 256 // ACKs that can wait for a packet to clock
)

// clocked is MP-RDMA's congestion-aware choice of paths (Lu et al., NSDI 2018): an ACK clocks out the next packet
// on its own path, so that each path carries as much as it acknowledges. A marked ACK removes half a packet from
// its path: every other one clocks nothing. Packets without such a clock, as those of the first round trip, and one
// in a hundred take a random path. The host's rate control limits the rate, not the paper's window, and slow paths
// are not pruned.
type clocked struct {
	pieces
	ports bool
	qps   book[clock]
}

// clock has a queue pair's ACKs that have clocked nothing yet.
type clock struct {
	paths  []fabric.Label // nil: ports
	ring   []fabric.Label
	oldest int
	count  int
	halves int // marked ACKs, modulo 2
}

// MPRDMAClocked is MP-RDMA as published.
const MPRDMAClocked = "mp-rdma-clocked"

func clockedSpec() Spec {
	return Spec{
		Name: MPRDMAClocked, Summary: "MP-RDMA as published: an unmarked ACK lets the next packet take the path of the acknowledged one",
		Params:   []endpoint.Param{entropyDoc, lossDoc},
		Receiver: endpoint.SelectiveRepeat, Flows: Spread, host: readClocked,
	}
}

func readClocked(a *params.Reader) factory {
	entropy := a.Choice("entropy", byPath, byPort)
	return func(c Config) (Host, error) {
		p, err := newPieces(c)
		if err != nil {
			return nil, err
		}
		return &clocked{pieces: p, ports: entropy == byPort, qps: newBook[clock]()}, nil
	}
}

// Post opens a queue pair per flow.
func (s *clocked) Post(now fabric.Time, batch []hostagent.Flow) error {
	return s.post(now, batch, 1, func(p *hostagent.Piece) {
		k := s.qps.begin(p.QP)
		ring := k.ring
		if ring == nil {
			ring = make([]fabric.Label, clockedRing)
		}
		*k = clock{ring: ring}
		if !s.ports {
			k.paths = s.paths(p.Dst)
		}
		p.Label = s.entropy(k.paths)
		p.Labelled = p.Label < s.span
	})
}

// Label implements [PacketHost].
func (s *clocked) Label(_ fabric.Time, qp hostagent.QP) fabric.Label {
	k := s.qps.open[qp]
	if k.count == 0 {
		return s.entropy(k.paths)
	}
	l := k.ring[k.oldest]
	k.oldest = (k.oldest + 1) % len(k.ring)
	k.count--
	if s.rng.IntN(clockedProbe) == 0 {
		return s.entropy(k.paths)
	}
	return l
}

// Echo implements [PacketHost].
func (s *clocked) Echo(_ fabric.Time, qp hostagent.QP, e endpoint.Echo) {
	k := s.qps.open[qp]
	if k == nil {
		return
	}
	if e.Marked {
		if k.halves ^= 1; k.halves == 0 {
			return
		}
	}
	if k.count == len(k.ring) { // the oldest is dropped
		k.oldest = (k.oldest + 1) % len(k.ring)
		k.count--
	}
	k.ring[(k.oldest+k.count)%len(k.ring)] = e.Label
	k.count++
}

// Timeout forgets the ACKs: some of their paths may lose packets.
func (s *clocked) Timeout(_ fabric.Time, qp hostagent.QP) {
	if k := s.qps.open[qp]; k != nil {
		k.count = 0
	}
}

// Done forgets a queue pair.
func (s *clocked) Done(_ fabric.Time, qp hostagent.QP) { s.qps.end(qp) }
