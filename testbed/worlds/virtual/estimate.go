package virtual

import (
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Estimate is the expected time and memory of a run on one core. docs/results/performance.md has the measurements to
// which it was fitted, and its error.
type Estimate struct {
	Bytes int64   // largest resident size, minus [EstimateProcess]; on one core
	Hops  float64 // packets and acknowledgements through switches and hosts
	set   float64 // seconds independent of hops
}

// The fit, to fat-trees of 16 to 8,192 hosts.
const (
	EstimateProcess = 50 << 20 // bytes of the program itself, with the P4 program compiled

	bytesPerSwitch   = 300e3
	bytesPerPortPair = 2400
	bytesPerMessage  = 2000

	secondsPerPortPair = 2.9e-6 // to the power below: the state exceeds the processor's caches
	portPairPower      = 1.25
	secondsPerMessage  = 40e-6
	hopsPerSecond      = 1.2e6
)

// The fit for the world without packets, to fat-trees of 128 to 32,768 hosts: an agent has state per label, a
// controller per ToR in each switch.
const (
	flowBytesPerLabel   = 900
	flowBytesPerRoute   = 100
	flowBytesPerMessage = 3000

	flowSecondsPerLabel   = 12e-6
	flowSecondsPerMessage = 60e-6

	bytesPerPath          = 600 // an uplink of a host, or the plane itself
	planesBytesPerPiece   = 850 // a queue pair
	planesSecondsPerPiece = 11e-6
)

// multiCoreFactor is the factor of a run's memory on several cores, whose regions have separate caches.
const multiCoreFactor = 1.45

// BytesOn returns Bytes for a number of cores.
func (e Estimate) BytesOn(cores int) int64 {
	if cores > 1 {
		return int64(multiCoreFactor * float64(e.Bytes))
	}
	return e.Bytes
}

// Seconds returns the CPU time of the run.
func (e Estimate) Seconds() float64 { return e.set + e.Hops/hopsPerSecond }

// Done returns the part of Seconds that is done after a number of hops.
func (e Estimate) Done(hops uint64) float64 {
	if e.Hops == 0 {
		return 0
	}
	return e.Seconds() * min(1, float64(hops)/e.Hops)
}

// Estimates returns the expected cost of each run in the world with packets.
func Estimates(runs []scenario.Run) []Estimate { return estimates(runs, estimate) }

// FlowEstimates returns the expected cost of each run in the world without packets, which uses one core.
func FlowEstimates(runs []scenario.Run) []Estimate { return estimates(runs, flowEstimate) }

func flowEstimate(r scenario.Run) Estimate {
	if r.Fabric.Planes() > 1 {
		return planesEstimate(r)
	}
	hosts, switches := float64(r.Fabric.Hosts()), float64(r.Fabric.Switches())
	paths := 0.0
	for l := range r.Fabric.LabelSpan() {
		if _, _, ok := r.Fabric.SplitLabel(l); ok {
			paths++
		}
	}
	labels, routes := hosts*paths, switches*float64(r.Fabric.ToRs())
	messages, _ := traffic(r)
	return Estimate{
		Bytes: int64(flowBytesPerLabel*labels + flowBytesPerRoute*routes + flowBytesPerMessage*messages),
		set:   flowSecondsPerLabel*labels + flowSecondsPerMessage*messages,
	}
}

// planesEstimate is the fit to 131,072 hosts in 8 planes, where agents use a share of the uplinks: the cost depends
// on the queue pairs of two steps at once.
func planesEstimate(r scenario.Run) Estimate {
	f := r.Fabric
	share := f.ToRUplinks()
	if n, err := strconv.Atoi(r.Scheme.Params["uplinks"]); err == nil && n > 0 {
		share = min(share, n)
	}
	pieces := func(s collective.Send) float64 {
		from, to := f.ToROf(fabric.NodeID(s.Src)), f.ToROf(fabric.NodeID(s.Dst))
		switch {
		case from == to:
			return float64(f.Planes())
		case f.Node(from).Pod == f.Node(to).Pod:
			return float64(f.Planes() * share)
		}
		return float64(f.Planes() * share * f.Node(f.AggID(0)).Uplinks())
	}
	_, all := weigh(r, pieces)
	atOnce := all
	if job, err := collective.New(r.CollectiveSpec()); r.Program == nil && err == nil {
		atOnce = all * min(1, 2/float64(job.Phases()))
	}
	return Estimate{
		Bytes: int64(bytesPerPath*float64(f.Hosts()*f.Planes()*(share+1)) + planesBytesPerPiece*atOnce),
		set:   planesSecondsPerPiece * all,
	}
}

func estimates(runs []scenario.Run, estimate func(scenario.Run) Estimate) []Estimate {
	type job struct {
		f       *fabric.Fabric
		spec    collective.Spec
		program *workload.Program
		payload fabric.Bytes
		acks    int
	}
	known := map[job]Estimate{}
	out := make([]Estimate, len(runs))
	for i, r := range runs {
		host := r.Scenario.Host
		j := job{f: r.Fabric, spec: r.CollectiveSpec(), program: r.Program, payload: host.Payload, acks: host.AckEvery}
		j.spec.Seed = 0
		e, ok := known[j]
		if !ok {
			e = estimate(r)
			known[j] = e
		}
		out[i] = e
	}
	return out
}

func estimate(r scenario.Run) Estimate {
	pairs := 0.0
	for i := range r.Fabric.Switches() {
		ports := float64(r.Fabric.Node(fabric.NodeID(r.Fabric.Hosts() + i)).Ports())
		pairs += ports * ports
	}
	messages, links := traffic(r)
	return Estimate{
		Bytes: int64(bytesPerSwitch*float64(r.Fabric.Switches()) + bytesPerPortPair*pairs + bytesPerMessage*messages),
		Hops:  links * (1 + 1/float64(max(1, r.Scenario.Host.AckEvery))),
		set:   secondsPerPortPair*math.Pow(pairs, portPairPower) + secondsPerMessage*messages,
	}
}

// sampled is the approximate number of messages that are examined singly.
const sampled = 50_000

// traffic returns the number of a run's messages, and the total number of links on their packets' paths. Of a large
// collective it examines a sample of the ranks.
func traffic(r scenario.Run) (messages, links float64) {
	payload := int64(max(1, r.Scenario.Host.Payload))
	return weigh(r, func(s collective.Send) float64 {
		packets := max(1, (s.Bytes+payload-1)/payload)
		return float64(packets) * float64(distance(r.Fabric, fabric.NodeID(s.Src), fabric.NodeID(s.Dst)))
	})
}

// weigh returns the number of a run's messages, and the sum of their weights.
func weigh(r scenario.Run, weight func(collective.Send) float64) (messages, sum float64) {
	seen := 0.0
	see := func(s collective.Send) {
		seen++
		sum += weight(s)
	}
	if r.Program != nil {
		// A bad program was refused when it was loaded.
		all, _ := r.Program.Traffic() //nolint:errcheck // see above
		for _, s := range all {
			see(s)
		}
		return seen, sum
	}
	job, err := collective.New(r.CollectiveSpec())
	if err != nil {
		return 0, 0 // the run will report the error
	}
	messages = float64(job.Messages())
	for _, rank := range rand.New(rand.NewPCG(1, 1)).Perm(job.Spec().Ranks) {
		for s := range job.Rank(rank) {
			see(s)
		}
		if seen >= sampled {
			break
		}
	}
	return messages, sum * messages / max(1, seen)
}

// distance returns the number of links of a shortest path between hosts.
func distance(f *fabric.Fabric, a, b fabric.NodeID) int {
	var buf [7]fabric.Hop
	hops, _ := f.HostPath(buf[:0], a, b, f.Minimal())
	return len(hops)
}
