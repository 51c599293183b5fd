package cases

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// drawnTraffic is a drawn collective.
type drawnTraffic struct {
	yaml  string      // the value of collectives[0]
	file  string      // content of its workload file; "": none
	takes fabric.Time // estimated completion time without failure
}

// drawnCollective is one collective over some ranks, of which the estimate is made.
type drawnCollective struct {
	kind, algorithm string
	ranks           int
	senders         int // of an incast; 0: all others
	extra           []string
}

// drawTraffic draws a collective whose packets cross links about hops times, acknowledgements included.
func drawTraffic(d *dice, n drawnFabric, s *settings) drawnTraffic {
	hops := d.logUniform(16*kilo, 5)
	if d.percent(8) {
		hops *= 4
	}
	ranks := n.hosts()
	if d.percent(7) && ranks >= 12 {
		return severalJobs(d, n, s, hops)
	}
	p := drawPart(d, ranks)
	var group int
	if p.kind == collective.AllReduce && d.percent(20) {
		group = divide(d, ranks)
	}
	if group > 0 {
		p.ranks = group
		p.extra = append(p.extra, fmt.Sprintf("group: %d", group))
		if stride := ranks / group; d.percent(50) && stride > 1 {
			p.extra = append(p.extra, fmt.Sprintf("stride: %d", stride))
		}
	}
	p.fixRankCount()
	if d.percent(5) {
		p.extra = append(p.extra, fmt.Sprintf("start_skew: %dus", d.between(1, 20)))
	}
	if d.percent(4) {
		p.extra = append(p.extra, fmt.Sprintf("stragglers: %d, straggler_delay: %dus", d.between(1, 3), d.between(5, 50)))
	}
	groups := max(1, ranks/p.ranks)
	bytes := p.bytes(n, s, hops/int64(groups))
	return drawnTraffic{yaml: p.text(bytes), takes: p.estimatedTime(n, s, bytes)}
}

// drawPart draws the kind and the algorithm.
func drawPart(d *dice, ranks int) drawnCollective {
	type kind struct{ kind, algorithm string }
	of := func(weight int, name, algorithm string) weightedValue[kind] {
		return weightedValue[kind]{weight, kind{name, algorithm}}
	}
	k := weighted(d,
		of(18, collective.AllToAll, ""), of(14, collective.AllToAll, "uneven"),
		of(10, collective.AllReduce, collective.Direct), of(14, collective.AllReduce, collective.HalvingDoubling),
		of(12, collective.AllReduce, collective.Ring), of(8, collective.AllReduce, collective.DoubleBinaryTree),
		of(3, collective.AllGather, collective.Direct), of(2, collective.AllGather, collective.Ring),
		of(4, collective.ReduceScatter, collective.Direct),
		of(8, collective.Permutation, ""), of(7, collective.Incast, ""))
	p := drawnCollective{kind: k.kind, algorithm: k.algorithm, ranks: ranks}
	switch {
	case k.algorithm == "uneven":
		p.algorithm = ""
		if d.percent(70) {
			p.extra = append(p.extra, "skew: "+pick(d, "0.25", "0.5", "1"))
		} else {
			p.extra = append(p.extra, "spread: "+pick(d, "0.5", "1"))
		}
	case p.kind == collective.Permutation && d.percent(60):
		p.extra = append(p.extra, fmt.Sprintf("shift: %d", d.between(1, ranks-1)))
	case p.kind == collective.Incast:
		if d.percent(70) {
			p.senders = d.between(2, ranks-1)
			p.extra = append(p.extra, fmt.Sprintf("senders: %d", p.senders))
		}
		if target := d.below(ranks); target > 0 {
			p.extra = append(p.extra, fmt.Sprintf("target: %d", target))
		}
	}
	return p
}

// fixRankCount replaces halving-doubling where the number of ranks is no power of two.
func (p *drawnCollective) fixRankCount() {
	if p.algorithm == collective.HalvingDoubling && bits.OnesCount(uint(p.ranks)) != 1 {
		p.algorithm = collective.Ring
	}
}

// divide returns the size of equal groups of ranks, preferring powers of two; 0 if there is none.
func divide(d *dice, ranks int) int {
	var sizes []int
	for g := 4; g <= ranks/2; g *= 2 {
		if ranks%g == 0 {
			sizes = append(sizes, g)
		}
	}
	if len(sizes) == 0 {
		return 0
	}
	return pick(d, sizes...)
}

// vectorsAndSteps returns how many times all ranks' vectors are sent, and the number of steps that wait for each other.
func (p drawnCollective) vectorsAndSteps() (times, steps int64) {
	n := int64(p.ranks)
	log := int64(bits.Len(uint(p.ranks - 1)))
	both := int64(1)
	if p.kind == collective.AllReduce {
		both = 2
	}
	switch p.algorithm {
	case collective.Ring:
		return both, both * (n - 1)
	case collective.HalvingDoubling:
		return both, both * log
	case collective.DoubleBinaryTree:
		return both, both * log
	}
	return both, both
}

// messages returns the least number of packets.
func (p drawnCollective) messages() int64 {
	n := int64(p.ranks)
	_, steps := p.vectorsAndSteps()
	switch {
	case p.kind == collective.Permutation, p.kind == collective.Incast:
		return n
	case p.algorithm == "" || p.algorithm == collective.Direct:
		return steps * n * (n - 1)
	}
	return steps * n
}

func (p drawnCollective) sending() int64 {
	if p.kind == collective.Incast && p.senders > 0 {
		return int64(p.senders)
	}
	return int64(p.ranks)
}

// bytes returns the size with which packets and acknowledgements cross links about hops times.
func (p drawnCollective) bytes(n drawnFabric, s *settings, hops int64) int64 {
	perPacket := int64(n.links()) * (s.ackEvery + 1) / s.ackEvery
	packets := max(hops/perPacket, p.messages())
	times, _ := p.vectorsAndSteps()
	bytes := packets * s.payload / (times * p.sending())
	bytes = min(max(bytes, 64*int64(p.ranks)), 64*mega)
	return threeDigits(bytes)
}

// threeDigits keeps three digits.
func threeDigits(n int64) int64 {
	unit := int64(1)
	for n/unit >= 1000 {
		unit *= 10
	}
	return n / unit * unit
}

// estimatedTime estimates the completion time: the hosts' links or the oversubscribed fabric, and the steps' latencies.
func (p drawnCollective) estimatedTime(n drawnFabric, s *settings, bytes int64) fabric.Time {
	times, steps := p.vectorsAndSteps()
	rate := n.spec.HostLink.Rate * fabric.Rate(n.planes())
	wire := func(b int64) int64 { return b + (b/s.payload+1)*header }
	t := rate.TimeFor(times * wire(bytes))
	switch {
	case p.kind == collective.Incast:
		t = rate.TimeFor(p.sending() * wire(bytes))
	case p.algorithm != collective.Ring && n.oversubscription() > 100:
		t = t * fabric.Time(n.oversubscription()) / 100
	}
	return t + fabric.Time(steps)*n.oneWay(min(s.payload, bytes)+header)
}

// text writes the collective's value.
func (p drawnCollective) text(bytes int64) string {
	keys := []string{"kind: " + p.kind}
	if p.algorithm != "" && p.algorithm != collective.Direct {
		keys = append(keys, "algorithm: "+p.algorithm)
	}
	keys = append(keys, "bytes: "+size(bytes))
	return "{" + strings.Join(append(keys, p.extra...), ", ") + "}"
}

// severalJobs draws two or three collectives at once, on ranks that interleave or stand beside each other.
func severalJobs(d *dice, n drawnFabric, s *settings, hops int64) drawnTraffic {
	ranks, jobs := n.hosts(), d.between(2, 3)
	each := ranks / jobs
	var b strings.Builder
	b.WriteString("jobs:\n")
	t := drawnTraffic{}
	interleaved := d.percent(50)
	for j := range jobs {
		p := drawnCollective{kind: pick(d, collective.AllReduce, collective.AllToAll), ranks: each}
		if p.kind == collective.AllReduce {
			p.algorithm = pick(d, collective.Ring, collective.HalvingDoubling, collective.Direct)
			p.fixRankCount()
		}
		bytes := p.bytes(n, s, hops/int64(jobs))
		who := fmt.Sprintf("%d..%d", j*each, (j+1)*each-1)
		if interleaved {
			who = fmt.Sprintf("%d..%d/%d", j, j+(each-1)*jobs, jobs)
		}
		p.extra = []string{"ranks: " + who}
		takes := p.estimatedTime(n, s, bytes)
		if j > 0 && d.percent(40) {
			at := t.takes * fabric.Time(d.between(0, 60)) / 100 / fabric.Microsecond
			p.extra = append(p.extra, fmt.Sprintf("at: %dus", int64(at)))
			takes += at * fabric.Microsecond
		}
		fmt.Fprintf(&b, "  - %s\n", p.text(bytes))
		t.takes = max(t.takes, takes)
	}
	t.file = b.String()
	return t
}
