package scheme

import (
	"fmt"
	"math/rand/v2"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

const (
	defaultWays = 4
	maxWays     = 256
)

// hashed leaves the paths to the switches' hash: ecmp and mp-rdma.
type hashed struct {
	ways  int
	rng   *rand.Rand
	span  fabric.Label // labels below it name paths
	f     *fabric.Fabric
	host  fabric.NodeID
	start fabric.Time // starts are up to this late
	last  hostagent.QP
	open  []hostagent.Piece
}

func newHashed(c hostagent.Config, ways int) (Host, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.StartJitter == 0 {
		c.StartJitter = hostagent.DefaultStartJitter
	}
	span := c.Fabric.LabelSpan()
	if span >= 1<<fabric.LabelBits {
		return nil, fmt.Errorf("scheme: the fabric's paths use all %d labels, so no source port is left to hash", span)
	}
	return &hashed{
		ways: ways, span: span, f: c.Fabric, host: c.Host, start: c.StartJitter,
		rng: rand.New(rand.NewPCG(c.Seed, uint64(c.Host))),
	}, nil
}

// Post cuts every flow into equal pieces, the last taking the remainder.
func (h *hashed) Post(now fabric.Time, batch []hostagent.Flow) error {
	for _, f := range batch {
		if f.Bytes < 1 || f.Dst < 0 || int(f.Dst) >= h.f.Hosts() || f.Dst == h.host {
			return fmt.Errorf("scheme: flow %d: %d bytes to node %d; want at least 1 byte to another host", f.ID, f.Bytes, f.Dst)
		}
	}
	for _, f := range batch {
		n := min(int64(h.ways), f.Bytes)
		for i := range n {
			p := hostagent.Piece{Flow: f.ID, Dst: f.Dst, Offset: i * (f.Bytes / n), Bytes: f.Bytes / n, Start: now}
			if i == n-1 {
				p.Bytes = f.Bytes - p.Offset
			}
			h.last++
			p.QP = h.last
			p.Label = h.span + fabric.Label(h.rng.IntN(1<<fabric.LabelBits-int(h.span)))
			if h.start > 0 {
				p.Start += fabric.Time(h.rng.Int64N(int64(h.start) + 1))
			}
			h.open = append(h.open, p)
		}
	}
	return nil
}

// Ready returns the queue pairs to open.
func (h *hashed) Ready() hostagent.Ready {
	r := hostagent.Ready{Open: h.open}
	h.open = h.open[:0]
	return r
}

// AckLabel mirrors, so that ACKs are hashed by the same port.
func (h *hashed) AckLabel(_ fabric.Time, _ fabric.NodeID, mirrored fabric.Label, _ bool) fabric.Label {
	return mirrored
}

// What a hashing scheme takes no notice of.

func (h *hashed) Acked(fabric.Time, hostagent.QP, int64) {}
func (h *hashed) Done(fabric.Time, hostagent.QP)         {}
func (h *hashed) Timeout(fabric.Time, hostagent.QP)      {}
func (h *hashed) Update(fabric.Time, *statepb.Update)    {}
func (h *hashed) Tick(fabric.Time)                       {}
func (h *hashed) Deadline() (at fabric.Time, ok bool)    { return 0, false }

// Quench disregards a quench: its port is on no path that this host chose.
func (h *hashed) Quench(fabric.Time, hostagent.Quench) hostagent.Verdict { return hostagent.NotOurs }
