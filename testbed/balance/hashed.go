package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

const (
	defaultPaths = 4
	maxPaths     = 256
)

// Names of the schemes whose hosts draw source ports.
const (
	ECMP   = "ecmp"
	MPRDMA = "mp-rdma" // MP-RDMA without its adaptive windows: each flow has several queue pairs
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
		host: func(a *params.Reader) hostFactory { return hashedBy(a.Integer("ways", defaultPaths, 1, maxPaths)) },
	}
}

// switchHashed leaves the choice of paths to the switches' hash: ecmp and mp-rdma.
type switchHashed struct {
	pieces
	sourcePorts int
}

func hashedBy(ways int) hostFactory {
	return func(c Config) (Host, error) {
		p, err := newPieces(c)
		if err != nil {
			return nil, err
		}
		return &switchHashed{pieces: p, sourcePorts: ways}, nil
	}
}

// Post cuts every flow into pieces with one source port each.
func (h *switchHashed) Post(now fabric.Time, batch []hostagent.Flow) error {
	return h.postPieces(now, batch, h.sourcePorts, func(p *hostagent.Piece) { p.Label = h.randomPort() })
}
