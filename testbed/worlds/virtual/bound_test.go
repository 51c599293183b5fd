package virtual

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// TestBound: no run ends before its lower bound, whatever the fabric, its rates,
// the collective, the size of its messages and the scheme, with and without
// links cut and restored. Hosts send at line rate and queue pairs open at once,
// so that nothing but the network holds the packets up.
func TestBound(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	const deadline = 20 * fabric.Millisecond
	least, leastStep, runs, unfinished, sharper := 1e9, 1e9, 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		s := scenario.Default()
		s.Name, s.Deadline = "bound", deadline
		s.Fabric = drawFabric(rt)
		f, err := fabric.New(s.Fabric)
		if err != nil {
			rt.Fatal(err)
		}
		s.Host.CongestionControl = transport.NoControl
		s.Host.RTO = 50 * fabric.Microsecond
		s.Host.Payload = rapid.SampledFrom([]fabric.Bytes{9000, 4096, 1000}).Draw(rt, "payload")
		s.Agent.BatchWindow, s.Agent.StartJitter = 0, 0
		s.Collectives = []scenario.Collective{drawCollective(rt, f.Hosts(), s.Host.Payload)}
		s.Schemes = []scenario.Scheme{{Name: rapid.SampledFrom(scenario.SchemeNames()).Draw(rt, "scheme")}}
		s.Seeds = scenario.Seeds{rapid.Uint64Range(1, 1000).Draw(rt, "seed")}
		s.Failures = drawFailure(rt, f)
		all, err := s.Expand()
		if err != nil {
			rt.Fatal(err)
		}
		for _, run := range all {
			r, err := lab.Run(context.Background(), run, scenario.Observer{})
			if err != nil {
				rt.Fatal(err)
			}
			runs++
			switch {
			case !r.Finished:
				unfinished++
			case r.Bound == nil:
				rt.Fatalf("%v: ended at %v us, though the bound says never", run, *r.CCT)
			case *r.CCT < *r.StepBound || *r.StepBound < *r.Bound:
				rt.Fatalf("%v: CCT %v us, step bound %v us, bound %v us: they must not increase", run, *r.CCT, *r.StepBound, *r.Bound)
			default:
				least, leastStep = min(least, *r.CCT / *r.Bound), min(leastStep, *r.CCT / *r.StepBound)
				if *r.StepBound > 1.01**r.Bound {
					sharper++
				}
			}
		}
	})
	t.Logf("%d runs, %d of them not finished at %v; the least ratio of CCT to bound is %.6f, to step bound %.6f; the step bound is over 1 %% larger in %d",
		runs, unfinished, deadline, least, leastStep, sharper)
}

// TestProgramBound: the same for programs, with computations between collectives.
func TestProgramBound(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := scenario.Default()
		s.Name, s.Deadline = "bound", 20*fabric.Millisecond
		s.Fabric = drawFabric(rt)
		f, err := fabric.New(s.Fabric)
		if err != nil {
			rt.Fatal(err)
		}
		s.Host.CongestionControl, s.Host.RTO = transport.NoControl, 50*fabric.Microsecond
		s.Agent.BatchWindow, s.Agent.StartJitter = 0, 0
		s.Collectives = []scenario.Collective{{Kind: collective.Permutation, Bytes: 1}} // for the program
		s.Schemes = []scenario.Scheme{{Name: rapid.SampledFrom([]string{"ethereal", "spray", "ecmp"}).Draw(rt, "scheme")}}
		s.Failures = drawFailure(rt, f)
		all, err := s.Expand()
		if err != nil {
			rt.Fatal(err)
		}
		run := all[0]
		run.Collective, run.Program = scenario.Collective{Kind: scenario.Workload}, drawProgram(rt, f.Hosts())
		r, err := lab.Run(context.Background(), run, scenario.Observer{})
		if err != nil {
			rt.Fatal(err)
		}
		if r.Finished && (r.Bound == nil || *r.CCT < *r.StepBound || *r.StepBound < *r.Bound) {
			rt.Fatalf("%v: CCT %v us, step bound %v us, bound %v us: they must not increase", run, *r.CCT, *r.StepBound, *r.Bound)
		}
	})
}

// drawProgram draws a program of a few operations a rank, of which each waits for some earlier ones.
func drawProgram(rt *rapid.T, ranks int) *workload.Program {
	p := &workload.Program{Name: "drawn", Ranks: make([][]workload.Op, ranks)}
	group := make([]int, ranks)
	for r := range group {
		group[r] = r
	}
	kinds := []string{collective.AllToAll, collective.AllReduce, collective.AllGather}
	for range rapid.IntRange(1, 5).Draw(rt, "operations") {
		op := workload.Op{Kind: workload.Collective, Group: group, What: rapid.SampledFrom(kinds).Draw(rt, "kind")}
		if op.What == collective.AllReduce {
			op.Algorithm = rapid.SampledFrom([]string{collective.Direct, collective.Ring, collective.DoubleBinaryTree}).Draw(rt, "algorithm")
		}
		op.Bytes = int64(ranks) * rapid.Int64Range(1, 60_000).Draw(rt, "bytes")
		compute := rapid.Bool().Draw(rt, "compute")
		for r := range p.Ranks {
			ops := p.Ranks[r]
			if compute {
				op = workload.Op{Kind: workload.Compute, Duration: fabric.Time(rapid.IntRange(0, 20).Draw(rt, "us")) * fabric.Microsecond}
			}
			op.After = nil
			if len(ops) > 0 && rapid.IntRange(0, 3).Draw(rt, "waits") > 0 {
				op.After = []int{len(ops) - 1}
			}
			p.Ranks[r] = append(ops, op)
		}
	}
	return p
}

// drawFabric draws a small fabric with links of unequal rates, among them one at
// which a byte takes no whole number of picoseconds.
func drawFabric(rt *rapid.T) fabric.Spec {
	spec := rapid.SampledFrom([]fabric.Spec{
		{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 1},
		{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2},
		{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 1},
		{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 3, HostsPerToR: 3},
		{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 2},
		{Kind: fabric.KindFatTree, K: 2},
		{Kind: fabric.KindFatTree, K: 4},
		{Kind: fabric.KindFatTree, Pods: 2, ToRsPerPod: 2, AggsPerPod: 2, Cores: 2, HostsPerToR: 2},
		{Kind: fabric.KindFatTree, Pods: 3, ToRsPerPod: 1, AggsPerPod: 2, Cores: 4, HostsPerToR: 1},
	}).Draw(rt, "fabric")
	rate := rapid.SampledFrom([]fabric.Rate{400 * fabric.Gbps, 100 * fabric.Gbps, 800 * fabric.Gbps, 333 * fabric.Gbps})
	delay := rapid.SampledFrom([]fabric.Time{500 * fabric.Nanosecond, fabric.Nanosecond, 2 * fabric.Microsecond})
	equal := rapid.Bool().Draw(rt, "equal links")
	for i, l := range []*fabric.LinkSpec{&spec.HostLink, &spec.ToRUplink, &spec.AggUplink} {
		if *l = spec.HostLink; i == 0 || !equal {
			*l = fabric.LinkSpec{Rate: rate.Draw(rt, "rate"), Delay: delay.Draw(rt, "delay")}
		}
	}
	return spec
}

// drawCollective draws any collective of that many ranks. Messages are of one
// byte, one packet, one byte more, a power of two, or of any size.
func drawCollective(rt *rapid.T, ranks int, payload fabric.Bytes) scenario.Collective {
	kind := rapid.SampledFrom(collective.Kinds()).Draw(rt, "kind")
	algorithms := slices.Clone(collective.Algorithms(kind))
	if ranks&(ranks-1) != 0 {
		algorithms = slices.DeleteFunc(algorithms, func(a string) bool {
			return a == collective.HalvingDoubling
		})
	}
	c := scenario.Collective{Kind: kind, Algorithm: rapid.SampledFrom(algorithms).Draw(rt, "algorithm")}
	messages := fabric.Bytes(ranks) // that the whole vector makes
	switch {
	case kind == collective.Permutation:
		c.Shift = rapid.IntRange(0, ranks-1).Draw(rt, "shift")
		messages = 1
	case kind == collective.Incast:
		c.Target = rapid.IntRange(0, ranks-1).Draw(rt, "target")
		c.Senders = rapid.IntRange(0, ranks-1).Draw(rt, "senders")
		messages = 1
	case c.Algorithm == collective.WholeVectorDoubling:
		messages = 1
	case c.Algorithm == collective.DoubleBinaryTree:
		messages = 2
	}
	c.Bytes = messages * rapid.OneOf(
		rapid.Just(fabric.Bytes(1)),
		rapid.Just(payload), rapid.Just(payload+1), rapid.Just(2*payload),
		rapid.Map(rapid.IntRange(1, 15), func(n int) fabric.Bytes { return 1 << n }),
		rapid.Map(rapid.Int64Range(1, 40_000), func(n int64) fabric.Bytes { return fabric.Bytes(n) }),
	).Draw(rt, "bytes of a message")
	return c
}

// drawFailure draws a healthy case, or one in which a link or two between
// switches are cut, early enough to matter, and perhaps restored.
func drawFailure(rt *rapid.T, f *fabric.Fabric) []scenario.Failure {
	notifier := rapid.SampledFrom([]scenario.Notifier{
		scenario.NotifyNone, scenario.NotifyTimeout, scenario.NotifyQuench, scenario.NotifyGNMI, scenario.NotifyAll,
	}).Draw(rt, "notifier")
	if notifier == scenario.NotifyNone {
		return []scenario.Failure{{Name: "healthy"}}
	}
	const cuts = 2
	c := scenario.Failure{Name: "cut", Notifiers: []scenario.Notifier{notifier}}
	links := rapid.SliceOfNDistinct(rapid.IntRange(f.Hosts(), f.Links()-1), 1, cuts, rapid.ID)
	for _, l := range links.Draw(rt, "cut links") {
		link := f.LinkName(fabric.LinkID(l))
		at := fabric.Time(rapid.IntRange(0, 20).Draw(rt, "us until the cut")) * fabric.Microsecond
		detection := fabric.Time(rapid.IntRange(0, 10).Draw(rt, "us until detected")) * fabric.Microsecond
		e := scenario.Event{At: at, Link: link, Action: scenario.Cut, Detection: detection}
		e.Direction = rapid.SampledFrom([]scenario.Direction{scenario.BothDirections, scenario.Upward, scenario.Downward}).Draw(rt, "direction")
		switch rapid.IntRange(0, 3).Draw(rt, "cut, gray or degraded") {
		case 0:
			e.Action, e.Loss = scenario.Gray, scenario.Share(rapid.IntRange(1, 100).Draw(rt, "loss"))/100
		case 1:
			full := int(f.Link(fabric.LinkID(l)).Rate / fabric.Gbps)
			e.Action, e.Rate = scenario.Degrade, fabric.Rate(rapid.IntRange(1, full).Draw(rt, "rate"))*fabric.Gbps
		}
		c.Events = append(c.Events, e)
		if out := rapid.IntRange(0, 40).Draw(rt, "us until restored"); out > 0 {
			c.Events = append(c.Events, scenario.Event{
				At: at + fabric.Time(out)*fabric.Microsecond, Link: link, Action: scenario.Restore, Detection: detection, Direction: e.Direction,
			})
		}
	}
	slices.SortStableFunc(c.Events, func(a, b scenario.Event) int { return cmp.Compare(a.At, b.At) })
	return []scenario.Failure{c}
}
