package virtual

import (
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// regions returns the number of regions of the network: one if something needs all events in order. The result is
// the same.
func (w *world) regions() int {
	switch {
	case w.f.Planes() > 1: // a host is in several regions
	case w.run.Scenario.Host.Completion == scenario.OnAck: // a host's receipt lets another host continue at once
	case len(w.obs.Captures) > 0 || w.obs.Events != nil || w.obs.Recorder != nil: // one goroutine writes them
	case w.spec.SharesSuspicion(w.run.Scheme.Params) &&
		w.run.Scenario.Control.PushDelay < longestDelay(w.f): // an agent's report would arrive too early
	default:
		n := w.obs.Regions
		if n == 0 && (w.run.Program == nil || w.obs.Cores > 1) { // on one core events in order cost more than windows save
			n = max(w.obs.Cores, sim.PayingRegions(w.f))
		}
		if n > 1 && w.job.splits() {
			return n
		}
	}
	return 1
}

// longestDelay returns the largest propagation delay of all links: no window of parallel regions is longer,
// whichever links are between them.
func longestDelay(f *fabric.Fabric) fabric.Time {
	most := fabric.Time(0)
	for i := range f.Links() {
		most = max(most, f.Link(fabric.LinkID(i)).Delay)
	}
	return most
}

// received returns how many bytes of messages have arrived at a host.
func (w *world) received(h fabric.NodeID) int64 { return int64(w.hosts[h].nic.Stats().BytesDelivered) }

// timeFor returns the least time in which so many bytes can arrive at a host, also if its link is slow now. Two packets
// less: one may have begun to arrive.
func (w *world) timeFor(h fabric.NodeID, bytes int64) fabric.Time {
	link := w.net.SendDirection(h, 1).Link()
	rate := max(w.f.Link(link).Rate, w.net.Rate(sim.Downward(link)))
	return rate.TimeFor(max(0, bytes-2*int64(w.run.Scenario.Host.Payload)))
}

// splits: a rank's next messages depend on its own alone, except within servers.
func (s collectiveJob) splits() bool { return !s.w.servers.Grouped() }

// inOrder reports whether the collective might be finished by a time. It is not while a rank, the witness, has more
// bytes to receive than its link can carry until then.
func (s collectiveJob) inOrder(by fabric.Time) bool {
	w := s.w
	if w.incoming == nil {
		w.incoming = make([]int64, len(w.hosts))
		for p := range s.Phases() {
			for m := range s.Traffic(p) {
				w.incoming[m.Dst] += m.Bytes
			}
		}
	}
	left := func(h fabric.NodeID) int64 { return w.incoming[h] - w.received(h) }
	soon := func(h fabric.NodeID) bool { return w.net.Now()+w.timeFor(h, left(h)) <= by }
	if !soon(w.unfinishedRank) {
		return false
	}
	for h := range w.hosts {
		if id := fabric.NodeID(h); left(id) > left(w.unfinishedRank) {
			w.unfinishedRank = id
		}
	}
	return soon(w.unfinishedRank)
}

// splits: between two operations of a rank its next messages depend on its own alone. Messages within a server end by
// events of no region; those between servers must not wait for them within an operation.
func (p *workloadJob) splits() bool {
	s := p.w.servers
	return s.failover == nil && s.CrossRail != scenario.ByServer && p.CountArrivals(p.w.crosses)
}

// inOrder reports whether an operation might end by a time: what follows it touches other ranks' data. It does not
// while each rank has more bytes to receive than its link can carry until then.
func (p *workloadJob) inOrder(by fabric.Time) bool {
	if steps := p.Steps(); steps != p.quietSteps {
		p.quietSteps, p.quietUntil = steps, 0
	}
	if by < p.quietUntil {
		return false
	}
	p.quietUntil = fabric.Time(math.MaxInt64)
	for rank := range p.w.hosts {
		h := p.w.host(rank).id
		if left := p.LeastLeft(rank, p.w.received(h)); left < math.MaxInt64 {
			p.quietUntil = min(p.quietUntil, p.w.net.Now()+p.w.timeFor(h, left))
		}
	}
	return by >= p.quietUntil
}
