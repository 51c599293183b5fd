package virtual

import (
	"math"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
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

// Bounds returns [Bound] and [StepBound] in microseconds; nil: none.
func Bounds(run scenario.Run, job *collective.Job) (bound, step *float64) {
	least := Bound(run, job)
	return micros(least), micros(stepBound(run, job, least))
}

func micros(bound fabric.Time) *float64 {
	if bound == math.MaxInt64 {
		return nil
	}
	us := bound.Micros()
	return &us
}

// Bound returns the lower bound on the completion time of a run's collective, in any world; math.MaxInt64: none.
func Bound(run scenario.Run, job *collective.Job) fabric.Time {
	servers := run.Scenario.Servers
	phases := make([][]bound.Transfer, job.Phases())
	// A rank's sends are not all on its own host's link, or channels do not wait for each other: assume no order.
	unordered := servers.CrossRail == scenario.ByServer || job.Spec().Channels > 1
	inside := make([]int64, run.Fabric.Hosts()) // bytes, by rank
	for p := range phases {
		to := p
		if unordered {
			to = 0
		}
		for send := range job.Traffic(p) {
			t, internal, ok := transferOf(run, send)
			if internal {
				inside[send.Src] += send.Bytes
			}
			if ok {
				phases[to] = append(phases[to], t)
			}
		}
	}
	if unordered {
		phases = phases[:1]
	}
	return max(bound.CCT(run.Fabric, phases, format(run), outages(run)), insideBound(run, inside))
}

// transferOf returns the transfer of a send through the fabric, and whether it first crosses its sender's internal
// link; ok is false if it never leaves the server.
func transferOf(run scenario.Run, s collective.Send) (t bound.Transfer, internal, ok bool) {
	servers, f := run.Scenario.Servers, run.Fabric
	from, _ := servers.Server(s.Src)
	to, _ := servers.Server(s.Dst)
	if servers.Grouped() && from == to {
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

// maxSteps is the largest number of messages for which [StepBound] looks at their order.
const maxSteps = 4 << 20

// StepBound returns the lower bound on the completion time of a run's collective that takes the order of its messages
// into account, and ranks that are late; math.MaxInt64: none. It is at least [Bound], and the same with more than 4 Mi
// messages.
func StepBound(run scenario.Run, job *collective.Job) fabric.Time {
	return stepBound(run, job, Bound(run, job))
}

// stepBound is [StepBound] for a run whose lower bound ([Bound]) is known: least.
func stepBound(run scenario.Run, job *collective.Job, least fabric.Time) fabric.Time {
	if job.Messages() > maxSteps {
		return least
	}
	late := run.Lateness()
	return max(least, scheduleBound(run, workload.NewSchedule(job, late.StartDelay, late.SendDelay)))
}

// programBounds is [Bounds] of a run's program.
func programBounds(run scenario.Run) (bound, step *float64) {
	least := programBound(run)
	schedule, err := run.Program.Schedule()
	if err != nil || len(schedule.Messages) > maxSteps {
		return micros(least), micros(least)
	}
	return micros(least), micros(max(least, scheduleBound(run, schedule)))
}

// partsBound returns the step bound of some parts of a run's program, alone and without failures; nil: none.
func partsBound(run scenario.Run, from, to int) *float64 {
	run.Program, run.Events = run.Program.Only(from, to), nil
	_, step := programBounds(run)
	return step
}

// scheduleBound returns the bound of a schedule.
func scheduleBound(run scenario.Run, s workload.Schedule) fabric.Time {
	g := bound.Graph{Moments: s.Moments, Messages: make([]bound.Message, 0, len(s.Messages))}
	for _, w := range s.Waits {
		g.Waits = append(g.Waits, bound.Wait{From: int32(w.From), To: int32(w.To), Time: w.Duration})
	}
	inside := run.Scenario.Servers.Link()
	for _, m := range s.Messages {
		if t, _, ok := transferOf(run, m.Send); ok {
			g.Messages = append(g.Messages, bound.Message{
				Transfer: t, Posted: int32(m.Posted), Received: int32(m.Received), Acked: int32(m.Acked),
			})
			continue
		}
		took := inside.Rate.TimeFor(m.Bytes) + inside.Delay
		for _, to := range []int{m.Received, m.Acked} {
			if to >= 0 {
				g.Waits = append(g.Waits, bound.Wait{From: int32(m.Posted), To: int32(to), Time: took})
			}
		}
	}
	return bound.Steps(run.Fabric, g, format(run), outages(run))
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
		if t, _, ok := transferOf(run, s); ok {
			phase = append(phase, t)
		}
	}
	return max(bound.CCT(run.Fabric, [][]bound.Transfer{phase}, format(run), outages(run)), run.Program.LongestCompute())
}
