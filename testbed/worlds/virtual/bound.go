package virtual

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/bound"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// ipBytes returns the length of a run's IP headers.
func ipBytes(run scenario.Run) int64 {
	n := int64(ipv4Bytes)
	if run.Scenario.Host.IPv6 {
		n = ipv6Bytes
	}
	if run.Scenario.Host.Carrier == scenario.SRv6USID {
		n += usid.HeaderSize
	}
	return n
}

// Bound returns the lower bound on the completion time of a run's collective, in any world; math.MaxInt64: none.
func Bound(run scenario.Run, job *collective.Job) fabric.Time {
	servers := run.Scenario.Servers
	phases := make([][]bound.Transfer, job.Phases())
	inside := make([]int64, run.Fabric.Hosts()) // bytes, by rank
	for p := range phases {
		to := p
		if servers.CrossRail == scenario.ByServer {
			to = 0 // a rank's sends are not all on its own host's link: assume no order
		}
		for send := range job.Traffic(p) {
			t, internal, ok := way(run, send)
			if internal {
				inside[send.Src] += send.Bytes
			}
			if ok {
				phases[to] = append(phases[to], t)
			}
		}
	}
	if servers.CrossRail == scenario.ByServer {
		phases = phases[:1]
	}
	return max(bound.CCT(run.Fabric, phases, format(run), outages(run)), insideBound(run, inside))
}

// way returns the transfer of a send through the fabric, and whether it first crosses its sender's internal link;
// ok is false if it never leaves the server.
func way(run scenario.Run, s collective.Send) (t bound.Transfer, internal, ok bool) {
	servers, f := run.Scenario.Servers, run.Fabric
	from, _ := servers.Server(s.Src)
	to, _ := servers.Server(s.Dst)
	if servers.On() && from == to {
		return t, true, false
	}
	relay := servers.Relay(s.Src, s.Dst)
	return bound.Transfer{Src: servers.Host(f, relay), Dst: servers.Host(f, s.Dst), Bytes: s.Bytes}, relay != s.Src, true
}

// insideBound returns the minimum time that internal links need for the bytes that each rank sends over its own.
func insideBound(run scenario.Run, bytes []int64) fabric.Time {
	most, link := slices.Max(bytes), run.Scenario.Servers.Link()
	if most == 0 {
		return 0
	}
	return link.Rate.TimeFor(most) + link.Delay
}

// format returns the wire format of the run's packets.
func format(run scenario.Run) bound.Format {
	return bound.Format{
		Payload: int64(run.Scenario.Host.Payload),
		Header:  headerBytes + ipBytes(run) + framing(run),
		Ack:     headerBytes + ipBytes(run) + aethBytes + framing(run),
	}
}

// programBound returns the lower bound on the completion time of a run's program: its messages as one phase,
// without assumptions about their order, and the longest computation of a rank.
func programBound(run scenario.Run) fabric.Time {
	all, err := run.Program.Traffic()
	if err != nil {
		return 0 // the run would have been refused
	}
	var phase []bound.Transfer
	for _, s := range all {
		if t, _, ok := way(run, s); ok {
			phase = append(phase, t)
		}
	}
	return max(bound.CCT(run.Fabric, [][]bound.Transfer{phase}, format(run), outages(run)), run.Program.LongestCompute())
}
