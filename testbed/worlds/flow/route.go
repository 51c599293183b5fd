package flow

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
)

// start computes the flows of a queue pair.
func (w *world) start(k int32) {
	p := &w.pieces[k]
	labels := w.labels(p.src, p.dst)
	if w.model != balance.Spread || labels == nil {
		labels = []fabric.Label{p.label}
	}
	wire := w.wireBytes(p.bytes) / float64(len(labels))
	for _, l := range labels {
		if to := w.path(p, l); to.live {
			w.begin(k, wire, &to)
		} else {
			w.severed = true
		}
	}
}

// wireBytes returns the length of a queue pair's packets on the wire.
func (w *world) wireBytes(bytes int64) float64 {
	payload := int64(w.run.Scenario.Host.Payload)
	return float64(bytes + max(1, (bytes+payload-1)/payload)*w.header + rethBytes)
}

// path returns the path along a label, or the hashed one.
func (w *world) path(p *piece, l fabric.Label) (to path) {
	if w.given || l >= w.f.LabelSpan() {
		return w.follow(p.src, p.dst, l)
	}
	hops, ok := w.f.HostPath(w.hops[:0], p.src, p.dst, l)
	w.hops = hops
	if !ok { // a label of another pod's paths: switches follow the valid part of it
		return w.follow(p.src, p.dst, l)
	}
	for i, h := range hops {
		to.links[i] = w.direction(h.Link, h.From)
	}
	to.hops, to.live = int8(len(hops)), true
	return to
}

// begin sends wire bytes of a queue pair on a path.
func (w *world) begin(k int32, wire float64, to *path) {
	var id int32
	if n := len(w.freeFlows); n > 0 {
		id, w.freeFlows = w.freeFlows[n-1], w.freeFlows[:n-1]
	} else {
		id = int32(len(w.flows))
		w.flows = append(w.flows, flow{})
	}
	f := &w.flows[id]
	*f = flow{links: to.links, hops: to.hops, bytes: wire, left: wire, piece: k}
	w.pieces[k].flows++
	w.active = append(w.active, id)
	w.started = append(w.started, startedFlow{id, w.clock})
	w.stale = true
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
