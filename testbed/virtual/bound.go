package virtual

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/bound"
	"github.com/ethereal-fabric/ethereal/testbed/collective"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// ipBytes returns the length of a run's IP headers.
func ipBytes(run scenario.Run) int64 {
	if run.Scenario.Host.IPv6 {
		return ipv6Bytes
	}
	return ipv4Bytes
}

// Bound returns the lower bound on the completion time of a run's collective, in
// any world; math.MaxInt64: there is none.
func Bound(run scenario.Run, job *collective.Job) fabric.Time {
	s := run.Scenario
	phases := make([][]bound.Transfer, job.Phases())
	for p := range phases {
		for send := range job.Traffic(p) {
			phases[p] = append(phases[p], bound.Transfer{
				Src: fabric.NodeID(send.Src), Dst: fabric.NodeID(send.Dst), Bytes: send.Bytes,
			})
		}
	}
	format := bound.Format{
		Payload: int64(s.Host.Payload),
		Header:  headerBytes + ipBytes(run) + frameOverhead,
		Ack:     headerBytes + ipBytes(run) + aethBytes + frameOverhead,
	}
	return bound.CCT(run.Fabric, phases, format, outages(run))
}
