package virtual

import (
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
)

// networkState returns what a program's runner must know to skip collectives.
func (w *world) networkState() workload.NetworkState {
	return workload.NetworkState{
		Crosses:      w.crosses,
		Disturbances: w.disturbances,
		Until:        w.calmUntil,
	}
}

// crosses reports whether messages between two ranks leave their server.
func (w *world) crosses(src, dst int) bool {
	from, _ := w.servers.Server(src)
	to, _ := w.servers.Server(dst)
	return from != to
}

// disturbances counts events of links and of the control plane, flips, and what hosts do about lost packets and
// congestion.
func (w *world) disturbances() int64 {
	n := int64(len(w.timeline) + len(w.flips))
	for _, h := range w.hosts {
		s := h.nic.Stats()
		n += int64(s.Retransmissions + s.Timeouts + s.NaksTaken + s.Quenches + s.CongestionMarks + s.RateCuts)
	}
	for _, dropped := range w.net.Totals().Dropped {
		n += dropped
	}
	return n
}

// calmUntil returns when the run's next event happens. It returns now where hosts may change paths later without
// another event: in runs with interventions, and after events that agents do not know for certain.
func (w *world) calmUntil(now fabric.Time) fabric.Time {
	if len(w.run.Interventions) > 0 {
		return now
	}
	next := fabric.Time(math.MaxInt64)
	for _, e := range w.run.Events {
		switch {
		case e.At > now:
			next = min(next, e.At)
		case e.At+e.Detection > now:
			next = min(next, e.At+e.Detection)
		case e.Silent || !w.run.Notifier.GNMI() || !e.Up && !e.Cuts():
			return now
		}
	}
	return next
}

// fastForward makes the runner skip collectives, if the scenario says so.
func (w *world) fastForward(r *workload.Runner) {
	if w.run.Scenario.FastForward == scenario.Repeats {
		r.FastForward(w.networkState())
	}
}
