package flow

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// start gives a queue pair its flows.
func (w *world) start(k int32) {
	p := &w.pieces[k]
	packets := (p.bytes + int64(w.run.Scenario.Host.Payload) - 1) / int64(w.run.Scenario.Host.Payload)
	wire := float64(p.bytes + packets*w.header + rethBytes)
	switch {
	case w.labels(p.src, p.dst) == nil:
		w.begin(k, wire, 0)
	case w.model == balance.Labelled:
		w.begin(k, wire, p.label)
	case w.model == balance.Hashed:
		w.begin(k, wire, w.drawn(p.src, p.dst))
	default:
		labels := w.usable(p.src, p.dst)
		for _, l := range labels {
			w.begin(k, wire/float64(len(labels)), l)
		}
	}
}

func (w *world) begin(k int32, wire float64, label fabric.Label) {
	var id int32
	if n := len(w.spare); n > 0 {
		id, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		id = int32(len(w.flows))
		w.flows = append(w.flows, flow{})
	}
	f := &w.flows[id]
	*f = flow{posted: wire, left: wire, piece: k, active: true}
	p := &w.pieces[k]
	p.flows++
	w.route(f, p, label)
	w.active = append(w.active, id)
	w.started = append(w.started, started{id, w.clock})
	w.stale = true
}

// route puts a flow on a path.
func (w *world) route(f *flow, p *piece, label fabric.Label) {
	w.carry(f)
	hops, ok := w.f.Way(w.hops[:0], p.src, p.dst, label)
	if !ok { // a label of another pod's paths: any will do
		hops, _ = w.f.Way(w.hops[:0], p.src, p.dst, w.labels(p.src, p.dst)[0])
	}
	for i, h := range hops {
		f.links[i] = int32(2 * h.Link)
		if w.f.Link(h.Link).A.Node != h.From {
			f.links[i]++
		}
	}
	f.hops, w.hops = int8(len(hops)), hops
	if len(w.down) > 0 {
		w.stall(f)
	}
}

// carry counts what a flow has sent on its path, which it leaves.
func (w *world) carry(f *flow) {
	for _, d := range f.links[:f.hops] {
		w.carried[d] += f.posted - f.left
	}
	f.posted = f.left
}

// stall starts the timer of a flow whose path is dead. The sender knows nothing
// and sends on at the rate it had; its timer runs from the last packet.
func (w *world) stall(f *flow) {
	f.sent = 0
	if !w.dead(f) {
		return
	}
	p := &w.pieces[f.piece]
	rate := f.rate
	if rate == 0 { // its share of the host's link
		rate = float64(w.f.Planes()) * w.full(fabric.LinkID(f.links[0]/2)) / float64(max(w.hosts[p.src].core.Open(), 1))
	}
	f.sent = w.clock + fabric.Time(f.left/rate)
	if w.model == balance.Labelled {
		w.at(f.sent+w.run.Scenario.Host.RTO, onTimer, int32(p.src), uint32(p.qp))
	}
}

func (w *world) dead(f *flow) bool {
	for _, d := range f.links[:f.hops] {
		if w.down[fabric.LinkID(d/2)] {
			return true
		}
	}
	return false
}

// labels returns the labels of all paths between two hosts; nil if there is but one.
func (w *world) labels(from, to fabric.NodeID) []fabric.Label {
	src, dst := w.f.ToROf(from), w.f.ToROf(to)
	// Fabrics are symmetric: what matters is whether the hosts share a ToR, or a pod.
	apart := 0
	switch {
	case w.f.Node(src).Pod != w.f.Node(dst).Pod:
		apart = 2
	case src != dst:
		apart = 1
	}
	if w.paths[apart] == nil {
		w.paths[apart] = w.f.PathLabels(src, dst)
	}
	return w.paths[apart]
}

// usable leaves out the paths that the tables, or the data plane, avoid.
func (w *world) usable(src, dst fabric.NodeID) []fabric.Label {
	all := w.labels(src, dst)
	if len(w.known) == 0 {
		return all
	}
	var out []fabric.Label
	for _, l := range all {
		good := true
		hops, _ := w.f.Way(w.hops[:0], src, dst, l)
		for _, h := range hops {
			tables, known := w.known[h.Link]
			good = good && (!known || !tables && w.f.Link(h.Link).A.Node != h.From)
		}
		w.hops = hops
		if good {
			out = append(out, l)
		}
	}
	if len(out) == 0 {
		return all
	}
	return out
}

// drawn picks a path as a hash would.
func (w *world) drawn(src, dst fabric.NodeID) fabric.Label {
	ls := w.usable(src, dst)
	return ls[w.rng.IntN(len(ls))]
}

// drawnAgain picks a path for a flow whose own is dead. Switches hash it: it stays in its plane, which its host chose.
func (w *world) drawnAgain(f *flow, p *piece) fabric.Label {
	if w.f.Planes() == 1 || w.model != balance.Hashed {
		return w.drawn(p.src, p.dst)
	}
	plane := int(f.links[0]/2) / w.f.Hosts()
	var own []fabric.Label
	for _, l := range w.usable(p.src, p.dst) {
		if w.f.PlaneOf(l) == plane {
			own = append(own, l)
		}
	}
	if len(own) == 0 {
		return w.f.LabelFor(plane*w.f.ToRUplinks(), 0)
	}
	return own[w.rng.IntN(len(own))]
}

// repaired lets the flows that stand still go on where the tables now lead them.
// A receiver sees a gap as soon as something arrives again, so a sender that is
// still sending goes on at once; one that has sent everything waits for its
// timer.
func (w *world) repaired() {
	rto := w.run.Scenario.Host.RTO
	for _, id := range w.active {
		f := &w.flows[id]
		if f.sent == 0 {
			continue
		}
		at := w.clock
		if w.clock > f.sent {
			at = f.sent + (w.clock-f.sent+rto-1)/rto*rto
		}
		w.at(at, onResume, id, uint32(w.pieces[f.piece].qp))
	}
}

// resume puts a flow that stood still on a path that the tables have now.
func (w *world) resume(id int32, qp hostagent.QP) {
	f := &w.flows[id]
	p := &w.pieces[f.piece]
	if !f.active || f.sent == 0 || p.qp != qp {
		return
	}
	if w.labels(p.src, p.dst) == nil {
		w.stall(f)
	} else {
		w.route(f, p, w.drawnAgain(f, p))
	}
	w.stale = true
}

// linkEvent cuts or restores a link.
func (w *world) linkEvent(e scenario.LinkEvent) {
	if w.firstCut < 0 && !e.Up {
		w.firstCut = w.clock
	}
	w.stale = true
	for _, d := range []int32{int32(2 * e.Link), int32(2*e.Link + 1)} {
		if e.Up {
			w.solver.capacity[d] = w.full(e.Link)
		} else {
			w.solver.capacity[d] = 0
		}
	}
	if e.Up {
		delete(w.down, e.Link)
		for _, id := range w.active { // the path may be good again; the timer will tell
			if f := &w.flows[id]; f.sent > 0 && !w.dead(f) {
				f.sent = 0
			}
		}
		return
	}
	w.down[e.Link] = true
	for _, id := range w.active {
		if f := &w.flows[id]; f.sent == 0 {
			w.stall(f)
		}
	}
}

// timer is a retransmission timer that may have expired.
func (w *world) timer(id fabric.NodeID, qp hostagent.QP) {
	for _, a := range w.active {
		f := &w.flows[a]
		if p := &w.pieces[f.piece]; p.src == id && p.qp == qp && w.dead(f) {
			w.timeouts++
			w.hosts[id].core.Timeout(w.clock, qp)
			return
		}
	}
}
