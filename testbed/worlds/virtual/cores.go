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
	case w.servers.Grouped(): // their links belong to no region
	case w.run.Scenario.Host.Completion == scenario.OnAck: // a host's receipt lets another host continue at once
	case w.run.Program != nil: // its computations have one clock
	case len(w.obs.Captures) > 0 || w.obs.Events != nil || w.obs.Recorder != nil: // one goroutine writes them
	case w.spec.SharesSuspicion(w.run.Scheme.Params) &&
		w.run.Scenario.Control.PushDelay < longestDelay(w.f): // an agent's report would arrive too early
	case w.obs.Regions > 0:
		return w.obs.Regions
	default:
		return max(w.obs.Cores, sim.PayingRegions(w.f))
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

// mayFinish reports whether the collective might be finished by a time. It is not while a rank, the witness, has
// more bytes to receive than its link can carry until then.
func (w *world) mayFinish(by fabric.Time) bool {
	j, ok := w.job.(collectiveJob)
	if !ok || w.servers.Grouped() {
		return true
	}
	if w.incoming == nil {
		w.incoming = make([]int64, len(w.hosts))
		for p := range j.Phases() {
			for s := range j.Traffic(p) {
				w.incoming[s.Dst] += s.Bytes
			}
		}
	}
	left := func(h fabric.NodeID) int64 {
		return w.incoming[h] - int64(w.hosts[h].nic.Stats().BytesDelivered)
	}
	// Two packets more: one may have begun to arrive, and at another rate than the link's present one.
	carried := func(h fabric.NodeID) int64 {
		rate := w.net.Rate(sim.Downward(w.net.SendDirection(h, 1).Link()))
		return int64(float64(by-w.net.Now())*float64(rate)/8/float64(fabric.Second)) + 2*int64(w.run.Scenario.Host.Payload)
	}
	if left(w.unfinishedRank) > carried(w.unfinishedRank) {
		return false
	}
	for h := range w.hosts {
		if id := fabric.NodeID(h); left(id) > left(w.unfinishedRank) {
			w.unfinishedRank = id
		}
	}
	return left(w.unfinishedRank) <= carried(w.unfinishedRank)
}
