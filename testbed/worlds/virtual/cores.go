package virtual

import (
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
		if n == 0 {
			n = max(w.obs.Cores, sim.PayingRegions(w.f))
		}
		if n > 1 && w.job.localSteps() {
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

// carried returns how many bytes a host's link can carry in a time, also if it is slow now. Two packets more: one may
// have begun to arrive.
func (w *world) carried(h fabric.NodeID, in fabric.Time) int64 {
	link := w.net.SendDirection(h, 1).Link()
	rate := max(w.f.Link(link).Rate, w.net.Rate(sim.Downward(link)))
	return int64(float64(in)*float64(rate)/8/float64(fabric.Second)) + 2*int64(w.run.Scenario.Host.Payload)
}

// localSteps returns true: a rank's next messages depend on its own alone.
func (s collectiveJob) localSteps() bool { return !s.w.servers.Grouped() }

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
	in := by - w.net.Now()
	if left(w.unfinishedRank) > w.carried(w.unfinishedRank, in) {
		return false
	}
	for h := range w.hosts {
		if id := fabric.NodeID(h); left(id) > left(w.unfinishedRank) {
			w.unfinishedRank = id
		}
	}
	return left(w.unfinishedRank) <= w.carried(w.unfinishedRank, in)
}

// localSteps reports whether between two operations of a rank its next messages depend on its own alone. Messages
// within a server end by events of no region; those between servers must not wait for them within an operation.
func (p *workloadJob) localSteps() bool {
	w := p.w
	if w.servers.failover != nil || w.late.Any() || w.servers.CrossRail == scenario.ByServer {
		return false
	}
	return p.CountArrivals(w.crosses)
}

// lookForQuiet is the longest time for which operations are known not to end before they are looked at again.
const lookForQuiet = 100 * fabric.Microsecond

// inOrder reports whether an operation might end by a time: what follows it touches other ranks' data. It does not while
// each rank has more bytes to receive than its link can carry until then.
func (p *workloadJob) inOrder(by fabric.Time) bool {
	if steps := p.Steps(); steps != p.quietSteps {
		p.quietSteps, p.quietUntil = steps, 0
	}
	if by <= p.quietUntil {
		return false
	}
	now := p.w.net.Now()
	p.quietUntil = now + lookForQuiet
	for rank := range p.w.hosts {
		h := p.w.host(rank).id
		for left := p.LeastLeft(rank, p.w.received(h)); p.quietUntil > now && left <= p.w.carried(h, p.quietUntil-now); {
			p.quietUntil = now + (p.quietUntil-now)/2
		}
	}
	return by > p.quietUntil
}
