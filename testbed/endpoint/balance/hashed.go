package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

const (
	defaultWays = 4
	maxWays     = 256
)

// hashed leaves the paths to the switches' hash: ecmp and mp-rdma.
type hashed struct {
	pieces
	ways int
}

func hashedBy(ways int) maker {
	return func(c Config) (Host, error) {
		p, err := newPieces(c)
		if err != nil {
			return nil, err
		}
		return &hashed{pieces: p, ways: ways}, nil
	}
}

// Post cuts every flow into pieces with a source port each.
func (h *hashed) Post(now fabric.Time, batch []hostagent.Flow) error {
	return h.post(now, batch, h.ways, func(p *hostagent.Piece) { p.Label = h.port() })
}
