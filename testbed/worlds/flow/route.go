package flow

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// start gives a queue pair its flows.
func (w *world) start(k int32) {
	p := &w.pieces[k]
	p.waits = false
	if w.fails {
		p.track = &track{flow: -1}
		p.track.way, p.track.back = w.ways(p)
		w.attempt(k)
		return
	}
	labels := w.labels(p.src, p.dst)
	if w.model != balance.Spread || labels == nil {
		labels = []fabric.Label{p.label}
	}
	wire := w.bytesFrom(p, 0) / float64(len(labels))
	for _, l := range labels {
		y := w.healthyWay(p, l)
		w.begin(k, wire, &y)
	}
}

// healthyWay returns the way along a label, or the hashed one, in a fabric without failures.
func (w *world) healthyWay(p *piece, l fabric.Label) (y way) {
	if l >= w.f.LabelSpan() {
		return w.follow(p.src, p.dst, l)
	}
	hops, ok := w.f.Way(w.hops[:0], p.src, p.dst, l)
	w.hops = hops
	if !ok { // a label of another pod's paths: switches follow the valid part of it
		return w.follow(p.src, p.dst, l)
	}
	for i, h := range hops {
		y.links[i] = w.direction(h.Link, h.From)
	}
	y.hops, y.reach, y.live = int8(len(hops)), int8(len(hops)), true
	return y
}

// begin sends wire bytes of a queue pair by a way.
func (w *world) begin(k int32, wire float64, y *way) (id int32) {
	if n := len(w.spare); n > 0 {
		id, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		id = int32(len(w.flows))
		w.flows = append(w.flows, flow{})
	}
	f := &w.flows[id]
	*f = flow{posted: wire, left: wire, piece: k, active: true}
	w.pieces[k].flows++
	w.put(f, y)
	w.active = append(w.active, id)
	w.started = append(w.started, started{id, w.clock})
	w.stale = true
	return id
}

// put assigns a way to a flow, up to the point that its packets reach: a host sends into its own dead link.
func (w *world) put(f *flow, y *way) {
	w.carry(f)
	f.links, f.hops = y.links, max(1, y.reach)
}

// carry counts the bytes that a flow has sent on the path that it leaves.
func (w *world) carry(f *flow) {
	for _, d := range f.links[:f.hops] {
		w.carried[d] += f.posted - f.left
	}
	f.posted = f.left
}

// labels returns the labels of all paths between two hosts; nil if there is only one.
func (w *world) labels(from, to fabric.NodeID) []fabric.Label {
	src, dst := w.f.ToROf(from), w.f.ToROf(to)
	// Fabrics are symmetric: only whether the hosts share a ToR, or a pod, matters.
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

// linkEvent cuts or restores a link. Nobody is notified yet.
func (w *world) linkEvent(e scenario.LinkEvent) {
	if w.firstCut < 0 && !e.Up {
		w.firstCut = w.clock
	}
	for _, d := range directions(e) {
		if e.Up {
			delete(w.cut, d)
		} else {
			w.cut[d] = true
		}
	}
	w.changed(w.f.Link(e.Link).A.Node)
	w.changed(w.f.Link(e.Link).B.Node)
}
