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

// Open opens a queue pair for a piece of a message, or for a probe, for [host.Endpoint].
func (h *fluidHost) Open(now fabric.Time, m transport.Message) error {
	w := h.w
	if m.Bytes == 0 {
		return h.refuse("of probes")
	}
	var k int32
	if n := len(w.freePieces); n > 0 {
		k, w.freePieces = w.freePieces[n-1], w.freePieces[:n-1]
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

// Relabel returns an error: no queue pair changes its path in the flow world.
func (h *fluidHost) Relabel(transport.QP, fabric.Label) error {
	return h.refuse("of queue pairs that change their path")
}

// Resend returns an error: nothing is retransmitted in the flow world.
func (h *fluidHost) Resend(transport.QP) error { return h.refuse("of retransmissions") }

// Restart returns an error: no queue pair starts again in the flow world.
func (h *fluidHost) Restart(transport.QP) error { return h.refuse("of queue pairs that start again") }

// Hold returns an error: no queue pair pauses in the flow world.
func (h *fluidHost) Hold(transport.QP, fabric.Time) error {
	return h.refuse("of queue pairs that wait")
}

// Close returns an error: the flow world has no probes to close.
func (h *fluidHost) Close(transport.QP) error { return h.refuse("of probes") }

// Ask returns an error: the flow world has no path probes.
func (h *fluidHost) Ask(fabric.NodeID, fabric.Label, uint32) error { return h.refuse("of path probes") }

// refuse returns the error about a request of a scheme that the flow world cannot model.
func (h *fluidHost) refuse(what string) error {
	return fmt.Errorf("%w %s, for which %s asks", ErrScheme, what, h.w.run.Scheme)
}

// Alarm requests a call of the core's Tick at a time, for [host.Shell].
func (h *fluidHost) Alarm(at fabric.Time) { h.w.at(at, onAlarm, int32(h.id)) }

// Wake does nothing: no packets are asked for in the flow world.
func (h *fluidHost) Wake(fabric.Time) {}

// Flipped does nothing: see [fluidHost.Relabel].
func (h *fluidHost) Flipped(fabric.Time, hostagent.Flip) {}

// Sent reports that all of a message is acknowledged, for [host.Shell].
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

// PathsFailed does nothing: paths do not time out in the flow world.
func (h *fluidHost) PathsFailed(fabric.Time, []hostagent.Failed) {}

// Probed does nothing: the flow world has no probes.
func (h *fluidHost) Probed(fabric.Time, host.ProbeResult) {}

// Fault reports a violated contract, such as a queue pair that cannot be opened, for [host.Shell].
func (h *fluidHost) Fault(_ fabric.Time, err error) {
	h.w.fail(fmt.Errorf("%s: %w", h.w.f.Name(h.id), err))
}
