package hostprocess

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// agentStats is implemented by a balancer that is a hostagent.Core.
type agentStats interface{ Stats() hostagent.Stats }

// Stats returns the counts since Configure.
func (r *Rank) Stats() *hostproto.Stats {
	byLabel, other := r.engine.LabelBytes()
	s := &hostproto.Stats{
		Stats: r.engine.Stats(), LabelBytes: slices.Clone(byLabel), OtherBytes: other,
		Posted: r.posted, Sent: r.sent, Received: r.received, Open: len(r.sending), QPs: r.core.PeakQPs(),
	}
	if a, ok := r.core.Scheme().(agentStats); ok {
		x := a.Stats()
		s.Flips, s.Returns, s.Verdicts = x.Flips, x.Returns, slices.Clone(x.Quenches[:])
		s.Paths = hostproto.Paths{
			Alive: x.PathsAlive, Dead: x.PathsDead, Back: x.PathsBack, Late: x.PathsLate, Convicted: x.LinksConvicted,
		}
	}
	return s
}
