package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

const (
	defaultWays = 4
	maxWays     = 256
)

// Names of the schemes whose hosts draw source ports.
const (
	ECMP   = "ecmp"
	MPRDMA = "mp-rdma" // static
)

func ecmpSpec() Spec {
	return Spec{
		Name: ECMP, Summary: "each flow has one queue pair; switches hash its random source port to choose uplinks",
		Params: []transport.Param{convergenceDoc}, Receiver: transport.GoBackN, Flows: Hashed,
	}
}

func mprdmaSpec() Spec {
	return Spec{
		Name: MPRDMA, Summary: "as ecmp, but each flow has several queue pairs",
		Params:   []transport.Param{{Name: "ways", Meaning: "pieces of a message, up to 256; 4 when absent"}, convergenceDoc},
		Receiver: transport.GoBackN, Flows: Hashed,
		host: func(a *params.Reader) factory { return hashedBy(a.Integer("ways", defaultWays, 1, maxWays)) },
	}
}

// hashed leaves the choice of paths to the switches' hash: ecmp and mp-rdma.
type hashed struct {
	pieces
	ways int
}

func hashedBy(ways int) factory {
	return func(c Config) (Host, error) {
		p, err := newPieces(c)
		if err != nil {
			return nil, err
		}
		return &hashed{pieces: p, ways: ways}, nil
	}
}

// Post cuts every flow into pieces with one source port each.
func (h *hashed) Post(now fabric.Time, batch []hostagent.Flow) error {
	return h.post(now, batch, h.ways, func(p *hostagent.Piece) { p.Label = h.port() })
}
