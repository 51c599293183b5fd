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
}

var (
	_ host.Endpoint = (*fluidHost)(nil)
	_ host.Shell    = (*fluidHost)(nil)
)

// host returns a host, made when it is first used.
func (w *world) host(id fabric.NodeID) (*fluidHost, error) {
	if w.hosts[id] != nil {
		return w.hosts[id], nil
	}
	settings, err := w.run.Hosts()
	if err != nil {
		return nil, err
	}
	if w.model == balance.Spread { // one queue pair a flow; which paths its bytes take is decided here
		settings.Scheme, settings.Params = balance.ECMP, nil
	}
	core, err := host.New(settings.Core(w.f, id))
	if err != nil {
		return nil, err
	}
	h := &fluidHost{w, id, core}
	core.Attach(h, h)
	w.hosts[id] = h
	if w.update != nil { // what the others have heard already
		core.Update(w.clock, w.update)
	}
	return h, nil
}

// Open implements [host.Endpoint].
func (h *fluidHost) Open(now fabric.Time, m endpoint.Message) error {
	w := h.w
	if m.Bytes == 0 {
		return fmt.Errorf("%w of probes: %s asks for one", ErrScheme, w.run.Scheme)
	}
	var k int32
	if n := len(w.free); n > 0 {
		k, w.free = w.free[n-1], w.free[:n-1]
	} else {
		k = int32(len(w.pieces))
		w.pieces = append(w.pieces, piece{})
	}
	w.pieces[k] = piece{id: collective.ID(m.ID), qp: m.QP, src: h.id, dst: m.Dst, bytes: m.Bytes, label: m.Label}
	w.at(max(m.Start, now), onStart, k, 0)
	return nil
}

// Relabel implements [host.Endpoint].
func (h *fluidHost) Relabel(qp endpoint.QP, l fabric.Label) error {
	w := h.w
	for k := range w.pieces {
		if p := &w.pieces[k]; p.src == h.id && p.qp == qp {
			p.label = l
		}
	}
	for _, a := range w.active {
		f := &w.flows[a]
		if p := &w.pieces[f.piece]; p.src == h.id && p.qp == qp {
			w.route(f, p, l)
			w.stale = true
		}
	}
	return nil
}

// Resend implements [host.Endpoint]: a fluid that stands still has lost nothing.
func (h *fluidHost) Resend(endpoint.QP) error { return nil }

// Hold implements [host.Endpoint].
func (h *fluidHost) Hold(endpoint.QP, fabric.Time) error {
	return fmt.Errorf("%w of queue pairs that %s holds", ErrScheme, h.w.run.Scheme)
}

// Close implements [host.Endpoint]: there are no probes.
func (h *fluidHost) Close(endpoint.QP) error { return nil }

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

// PathsFailed implements [host.Shell]: no controller joins them here.
func (h *fluidHost) PathsFailed(fabric.Time, []hostagent.Failed) {}

// Probed implements [host.Shell].
func (h *fluidHost) Probed(fabric.Time, host.ProbeResult) {}

// Fault implements [host.Shell].
func (h *fluidHost) Fault(_ fabric.Time, err error) {
	h.w.fail(fmt.Errorf("%s: %w", h.w.f.Name(h.id), err))
}
