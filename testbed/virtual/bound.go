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
	phases := make([][]bound.Transfer, job.Phases())
	for p := range phases {
		for send := range job.Traffic(p) {
			phases[p] = append(phases[p], bound.Transfer{
				Src: fabric.NodeID(send.Src), Dst: fabric.NodeID(send.Dst), Bytes: send.Bytes,
			})
		}
	}
	return bound.CCT(run.Fabric, phases, format(run), outages(run))
}

// format returns what a packet of the run costs on the wire.
func format(run scenario.Run) bound.Format {
	return bound.Format{
		Payload: int64(run.Scenario.Host.Payload),
		Header:  headerBytes + ipBytes(run) + framing(run),
		Ack:     headerBytes + ipBytes(run) + aethBytes + framing(run),
	}
}

// programBound returns the lower bound on the completion time of a run's program:
// its messages as one phase, which takes no order for granted, and the longest
// computation of a rank.
func programBound(run scenario.Run) fabric.Time {
	all, err := run.Program.Traffic()
	if err != nil {
		return 0 // it would not have run
	}
	phase := make([]bound.Transfer, len(all))
	for i, s := range all {
		phase[i] = bound.Transfer{Src: fabric.NodeID(s.Src), Dst: fabric.NodeID(s.Dst), Bytes: s.Bytes}
	}
	return max(bound.CCT(run.Fabric, [][]bound.Transfer{phase}, format(run), outages(run)), run.Program.LongestCompute())
}
