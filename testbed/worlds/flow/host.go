package flow

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/host"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// fluidHost is a host's core whose queue pairs are fluids.
type fluidHost struct {
	w    *world
	id   fabric.NodeID
	core *host.Core
	nic  endpoint.Config // configuration that its queue pairs would have

	messages map[fabric.NodeID]*message // the oldest unsent message, by peer

	// In runs with failures: its pieces, and the sending time of the latest answered last packet.
	open       []int32
	latest     fabric.Time
	trip, vary fabric.Time // smoothed round trip of last packets, and its mean deviation, if paths are not watched
}

var (
	_ host.Endpoint = (*fluidHost)(nil)
	_ host.Shell    = (*fluidHost)(nil)
)

// host returns a host, and makes it on first use.
func (w *world) host(id fabric.NodeID) (*fluidHost, error) {
	if w.hosts[id] != nil {
		return w.hosts[id], nil
	}
	settings, err := w.run.Hosts()
	if err != nil {
		return nil, err
	}
	if w.model == balance.Spread { // one queue pair per flow; the world spreads its bytes over paths
		settings.Scheme, settings.Params = balance.ECMP, nil
	}
	core, err := host.New(settings.Core(w.f, id))
	if err != nil {
		return nil, err
	}
	h := &fluidHost{w: w, id: id, core: core, nic: settings.Endpoint(core), messages: map[fabric.NodeID]*message{}}
	core.Attach(h, h)
	w.hosts[id] = h
	for _, n := range w.notices { // updates that the other hosts have received already
		n.give(n.at, h)
	}
	return h, nil
}

// Open implements [host.Endpoint].
func (h *fluidHost) Open(now fabric.Time, m endpoint.Message) error {
	w := h.w
	if m.Bytes == 0 && !w.fails {
		return fmt.Errorf("%w of probes: %s asks for one", ErrScheme, w.run.Scheme)
	}
	var k int32
	if n := len(w.free); n > 0 {
		k, w.free = w.free[n-1], w.free[:n-1]
	} else {
		k = int32(len(w.pieces))
		w.pieces = append(w.pieces, piece{})
	}
	w.pieces[k] = piece{
		id: collective.ID(m.ID), qp: m.QP, src: h.id, dst: m.Dst, bytes: m.Bytes, label: m.Label, once: m.Once, waits: true,
		turn: w.pieces[k].turn, place: int32(len(h.open)),
	}
	if w.fails {
		h.open = append(h.open, k)
	}
	if w.pieces[k].last = max(m.Start, now); h.join(k) {
		w.at(w.pieces[k].last, onStart, k, w.pieces[k].turn)
	}
	return nil
}

// Relabel implements [host.Endpoint].
func (h *fluidHost) Relabel(qp endpoint.QP, l fabric.Label) error {
	if k, ok := h.piece(qp); ok {
		h.w.relabel(k, l)
	}
	return nil
}

// Resend implements [host.Endpoint]. Packets on a working path are not lost, whatever the agent assumes.
func (h *fluidHost) Resend(qp endpoint.QP) error {
	if k, ok := h.piece(qp); ok && !h.w.pieces[k].waits && h.w.pieces[k].track.ailing() {
		h.w.goBack(k)
	}
	return nil
}

// Restart implements [host.Endpoint]. A flow's packets in flight are not lost, and it has the new path's rate at
// once.
func (h *fluidHost) Restart(endpoint.QP) error { return nil }

// Hold implements [host.Endpoint].
func (h *fluidHost) Hold(endpoint.QP, fabric.Time) error {
	return fmt.Errorf("%w of queue pairs that %s holds", ErrScheme, h.w.run.Scheme)
}

// Close implements [host.Endpoint].
func (h *fluidHost) Close(qp endpoint.QP) error {
	if k, ok := h.piece(qp); ok {
		if t := h.w.pieces[k].track; t != nil && t.flow >= 0 {
			h.w.flows[t.flow].left = 0 // it ends with the window
			h.w.pieces[k].once = true
			return nil
		}
		h.w.forget(k)
	}
	return nil
}

// Alarm implements [host.Shell].
func (h *fluidHost) Alarm(at fabric.Time) { h.w.at(at, onAlarm, int32(h.id), 0) }

// Wake implements [host.Shell].
func (h *fluidHost) Wake(fabric.Time) {}

// Flipped implements [host.Shell].
func (h *fluidHost) Flipped(now fabric.Time, f hostagent.Flip) {
	h.w.flips++
	if f.Reason != hostagent.Return {
		h.w.lastFlip = now
	}
}

// Sent implements [host.Shell].
func (h *fluidHost) Sent(_ fabric.Time, message uint64) {
	id := collective.ID(message)
	if h.w.run.Scenario.Host.Completion == scenario.OnAck {
		if err := h.w.received(id); err != nil {
			h.w.fail(err)
		}
	}
	if err := h.w.job.Sent(id); err != nil {
		h.w.fail(err)
	}
	h.w.checkFinished()
}

// PathsFailed implements [host.Shell].
func (h *fluidHost) PathsFailed(now fabric.Time, failed []hostagent.Failed) {
	if h.w.suspects {
		for _, f := range failed {
			h.w.planes[0].Report(now, h.id, f)
		}
	}
}

// Probed implements [host.Shell].
func (h *fluidHost) Probed(now fabric.Time, r host.ProbeResult) { h.w.planes[0].Probed(now, h.id, r) }

// Fault implements [host.Shell].
func (h *fluidHost) Fault(_ fabric.Time, err error) {
	h.w.fail(fmt.Errorf("%s: %w", h.w.f.Name(h.id), err))
}
