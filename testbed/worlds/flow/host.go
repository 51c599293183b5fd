package flow

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// fluidHost is a host's core whose queue pairs are fluids.
type fluidHost struct {
	w    *world
	id   fabric.NodeID
	core *host.Core

	messages map[fabric.NodeID]*message // the oldest unsent message, by peer
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
	h := &fluidHost{w: w, id: id, core: core, messages: map[fabric.NodeID]*message{}}
	core.Attach(h, h)
	w.hosts[id] = h
	for _, u := range w.known {
		core.Update(w.clock, u)
	}
	return h, nil
}

// Open implements [host.Endpoint].
func (h *fluidHost) Open(now fabric.Time, m transport.Message) error {
	w := h.w
	if m.Bytes == 0 {
		return h.refuse("of probes")
	}
	var k int32
	if n := len(w.free); n > 0 {
		k, w.free = w.free[n-1], w.free[:n-1]
	} else {
		k = int32(len(w.pieces))
		w.pieces = append(w.pieces, piece{})
	}
	w.pieces[k] = piece{id: collective.ID(m.ID), qp: m.QP, src: h.id, dst: m.Dst, bytes: m.Bytes, label: m.Label}
	if w.pieces[k].last = max(m.Start, now); h.join(k) {
		w.at(w.pieces[k].last, onStart, k)
	}
	return nil
}

// What a host does once paths fail or queues grow never happens without packets.

// Relabel implements [host.Endpoint].
func (h *fluidHost) Relabel(transport.QP, fabric.Label) error {
	return h.refuse("of queue pairs that change their path")
}

// Resend implements [host.Endpoint].
func (h *fluidHost) Resend(transport.QP) error { return h.refuse("of retransmissions") }

// Restart implements [host.Endpoint].
func (h *fluidHost) Restart(transport.QP) error { return h.refuse("of queue pairs that start again") }

// Hold implements [host.Endpoint].
func (h *fluidHost) Hold(transport.QP, fabric.Time) error {
	return h.refuse("of queue pairs that wait")
}

// Close implements [host.Endpoint].
func (h *fluidHost) Close(transport.QP) error { return h.refuse("of probes") }

// Ask implements [host.Endpoint].
func (h *fluidHost) Ask(fabric.NodeID, fabric.Label, uint32) error { return h.refuse("of path probes") }

// refuse returns the error about a request of a scheme that the flow world cannot model.
func (h *fluidHost) refuse(what string) error {
	return fmt.Errorf("%w %s, for which %s asks", ErrScheme, what, h.w.run.Scheme)
}

// Alarm implements [host.Shell].
func (h *fluidHost) Alarm(at fabric.Time) { h.w.at(at, onAlarm, int32(h.id)) }

// Wake implements [host.Shell].
func (h *fluidHost) Wake(fabric.Time) {}

// Flipped implements [host.Shell]: see [fluidHost.Relabel].
func (h *fluidHost) Flipped(fabric.Time, hostagent.Flip) {}

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
func (h *fluidHost) PathsFailed(fabric.Time, []hostagent.Failed) {}

// Probed implements [host.Shell].
func (h *fluidHost) Probed(fabric.Time, host.ProbeResult) {}

// Fault implements [host.Shell].
func (h *fluidHost) Fault(_ fabric.Time, err error) {
	h.w.fail(fmt.Errorf("%s: %w", h.w.f.Name(h.id), err))
}
