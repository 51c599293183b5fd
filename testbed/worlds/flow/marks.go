package flow

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// queues estimates which switch ports mark packets, for agents that attribute losses to congestion. A port's queue
// grows by the excess of the hosts' sending rates over the port's rate, each host sharing its link equally among
// its flows. The port marks from ECN's lower threshold on. Rates are not affected.
type queues struct {
	w      *world
	kmin   float64 // bytes
	at     fabric.Time
	excess []float64     // by direction of links: bytes per picosecond
	length []float64     // bytes
	marked []fabric.Time // time of the last mark; 0: never
	flows  []int32       // of a host's link, while they are counted
	listed []bool
	list   []int32 // directions with either
}

// newQueues returns nil if marks are not needed.
func newQueues(w *world) *queues {
	kmin := w.run.Scenario.Switch.ECN.KMin
	if !w.fails || kmin == 0 {
		return nil
	}
	n := len(w.solver.capacity)
	return &queues{
		w: w, kmin: float64(kmin), excess: make([]float64, n), length: make([]float64, n), marked: make([]fabric.Time, n),
		listed: make([]bool, n), flows: make([]int32, n),
	}
}

// advance lets the queues grow and shrink until a time.
func (q *queues) advance(now fabric.Time) {
	span := float64(now - q.at)
	q.at = now
	kept := q.list[:0]
	for _, d := range q.list {
		if q.length[d] = min(max(0, q.length[d]+q.excess[d]*span), q.kmin); q.length[d] >= q.kmin {
			q.marked[d] = now
		}
		q.excess[d] = 0
		if q.length[d] > 0 {
			kept = append(kept, d)
		} else {
			q.listed[d] = false
		}
	}
	q.list = kept
}

// take records the present flows.
func (q *queues) take(flows []flow, active []int32) {
	for _, id := range active {
		q.flows[flows[id].links[0]]++
	}
	for _, id := range active {
		f := &flows[id]
		share := q.w.solver.capacity[f.links[0]] / float64(q.flows[f.links[0]])
		for _, d := range f.links[1:max(1, f.hops)] {
			if !q.listed[d] {
				q.listed[d] = true
				q.list = append(q.list, d)
			}
			q.excess[d] += share
		}
	}
	for _, id := range active {
		q.flows[flows[id].links[0]] = 0
	}
	for _, d := range q.list {
		q.excess[d] -= q.w.solver.capacity[d]
	}
}

// mark reports whether packets have been marked since a time on some links.
func (q *queues) mark(links []int32, since fabric.Time) bool {
	return q != nil && slices.ContainsFunc(links, func(d int32) bool { return q.marked[d] > since })
}

// delay returns the queueing delay of a packet that crosses some links now.
func (q *queues) delay(links []int32) (t fabric.Time) {
	if q == nil {
		return 0
	}
	for _, d := range links {
		if q.length[d] > 0 {
			t += fabric.Time(q.length[d] / q.w.solver.capacity[d])
		}
	}
	return t
}

// reportMarks notifies a host's agent of the marks on a queue pair's path since about the time of its last packet,
// and returns that time.
func (h *fluidHost) reportMarks(now fabric.Time, p *piece) (since fabric.Time) {
	since = p.track.since
	if y := h.w.healthyWay(p, p.label); h.nic.Watcher != nil && h.w.queues.mark(y.links[1:y.hops], since) {
		h.core.Congested(now, p.dst, p.label, false)
	}
	return since
}
