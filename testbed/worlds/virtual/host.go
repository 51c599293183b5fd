package virtual

import (
	"fmt"
	"net/netip"

	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
	"github.com/ethereal-fabric/ethereal/testbed/workload/bound"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/controlplane"
)

// hostShell is one rank: a host's core on the simulator's RoCEv2 interface, and its incoming messages.
type hostShell struct {
	w    *world
	id   fabric.NodeID
	rank int
	port int // ingress port of the present packet
	nic  *transport.Endpoint
	wrap *usid.Encapsulator // nil: labels need no outer header
	core *host.Core

	tick     func(now fabric.Time)
	arriving map[collective.ID]arrival
	flows    []report.FlowTime // messages that have arrived

	// Events whose first occurrence is on the timeline already.
	timedOut, quenched, resent bool
}

// arrival is a message in transit.
type arrival struct {
	src         fabric.NodeID
	bytes, left int64
	posted      fabric.Time
}

var (
	_ transport.Handler = (*hostShell)(nil)
	_ host.Shell        = (*hostShell)(nil)
	_ host.Endpoint     = (*transport.Endpoint)(nil)
	_ sim.Endpoint      = (*hostShell)(nil)
	_ sim.Pausable      = (*hostShell)(nil)
)

func (w *world) newHost(id fabric.NodeID) (*hostShell, error) {
	settings, err := w.run.Hosts()
	if err != nil {
		return nil, err
	}
	return w.newHostOf(settings.Core(w.f, id), &settings)
}

// newHostOf returns a shell around a core of such a configuration.
func (w *world) newHostOf(config host.Config, settings *host.Settings) (*hostShell, error) {
	id := config.Host
	h := &hostShell{w: w, id: id, arriving: map[collective.ID]arrival{}}
	var err error
	if h.core, err = host.New(config); err != nil {
		return nil, err
	}
	h.tick = h.core.Tick
	if settings.USID {
		if h.wrap, err = usid.New(w.f, id); err != nil {
			return nil, err
		}
	}
	c := settings.Endpoint(h.core)
	if c.Balancer != nil && w.f.Planes() > 1 {
		return nil, refusePlanes(w.run, "labels chosen for every packet", "use a scheme that labels queue pairs, or --world flow")
	}
	if h.nic, err = transport.New(c, h); err != nil {
		return nil, err
	}
	h.core.Attach(h.recorded(), h)
	w.net.SetHost(id, h)
	return h, nil
}

// postTo makes a host send a message of the collective to another.
func (w *world) postTo(now fabric.Time, h, to *hostShell, s collective.Send) {
	a := arrival{src: h.id, bytes: s.Bytes, left: s.Bytes, posted: now}
	if w.net.Cores() == 1 || w.net.Region(h.id) == w.net.Region(to.id) {
		to.arriving[s.ID] = a
	} else { // it is notified in time: the first packet takes longer
		w.net.Serially(h.id, func(fabric.Time) { to.arriving[s.ID] = a })
	}
	h.w.obs.Recorder.Posted(now, h.id, uint64(s.ID), to.id, s.Bytes)
	h.core.Post(now, hostagent.Flow{ID: uint64(s.ID), Dst: to.id, Bytes: s.Bytes})
}

// Alarm requests a call of the core's Tick at a time, for [host.Shell].
func (h *hostShell) Alarm(at fabric.Time) { h.w.net.AtNode(h.id, at, h.tick) }

// Wake reports that the endpoint may have something to send, for [host.Shell].
func (h *hostShell) Wake(fabric.Time) { h.w.net.Wake(h.id) }

// Flipped reports that a queue pair was moved to another path, for [host.Shell].
func (h *hostShell) Flipped(now fabric.Time, f hostagent.Flip) {
	h.w.obs.Recorder.Flipped(now, h.id, f)
	h.w.net.Serially(h.id, func(now fabric.Time) { h.w.noteFlip(now, h.id, f) })
}

// PathsFailed reports paths that timed out though no link on them was known to be dead, for [host.Shell].
func (h *hostShell) PathsFailed(_ fabric.Time, failed []hostagent.Failed) {
	if c := h.w.controllers[0]; c.CombinesReports() { // planes share no suspicions: see checkPlanes
		for _, f := range failed {
			h.w.net.Serially(h.id, func(now fabric.Time) { c.Report(now, h.id, f) })
		}
	}
}

// probe carries out a controller's request.
func (h *hostShell) probe(now fabric.Time, p suspicion.Probe) {
	h.core.Probe(now, host.ProbeRequest{ID: p.ID, Dst: p.Dst, Label: p.Label, Packets: p.Packets, Timeout: p.Timeout})
}

// Probed reports the result of a controller's path probe, for [host.Shell].
func (h *hostShell) Probed(_ fabric.Time, r host.ProbeResult) {
	h.w.net.Serially(h.id, func(now fabric.Time) { h.w.controllers[0].Probed(now, h.id, r) })
}

// Fault reports a violated contract, such as a queue pair that cannot be opened, for [host.Shell].
func (h *hostShell) Fault(_ fabric.Time, err error) {
	h.w.fail(fmt.Errorf("%s: %w", h.w.f.Name(h.id), err))
}

// restartAgent restarts an agent: it receives the state of all links, as an agent that connects does.
func (h *hostShell) restartAgent(now fabric.Time) {
	var snapshot *statepb.Update
	for _, c := range h.w.controllers {
		snapshot = controlplane.MergeSnapshots(snapshot, c.Snapshot())
	}
	h.core.AgentRestarted(now, snapshot)
}

// Next writes the headers of the next packet to send, for [sim.Endpoint].
func (h *hostShell) Next(now fabric.Time, buf []byte) (sim.Frame, fabric.Time, bool) {
	return h.next(0, now, buf)
}

func (h *hostShell) next(port int, now fabric.Time, buf []byte) (sim.Frame, fabric.Time, bool) {
	f, ok := h.nic.NextBy(port, now, buf)
	if ok {
		h.recordRetransmitting()
		header := f.Len
		if h.wrap != nil {
			header = h.wrap.Wrap(buf, f.Len, f.Len+f.Tail)
		}
		return sim.Frame{
			Header: header, Payload: f.Tail - frame.ICRCSize, Trailer: frame.ICRCSize, Control: f.Control,
		}, 0, true
	}
	wake, ok := h.nic.NextWakeBy(port)
	if !ok {
		wake = sim.Never
	}
	return sim.Frame{}, wake, false
}

// Pause stops the sending of data, or resumes it, for [sim.Pausable].
func (h *hostShell) Pause(_ fabric.Time, paused bool) { h.nic.Pause(paused) }

// recordRetransmitting records a host's first retransmission after a failure on the timeline.
func (h *hostShell) recordRetransmitting() {
	if h.resent || h.w.firstCut < 0 || h.nic.Stats().Retransmissions == 0 {
		return
	}
	h.resent = true
	h.note(report.KindRetransmit, "first retransmission of this host")
}

// Receive processes a packet that has arrived, for [sim.Endpoint].
func (h *hostShell) Receive(now fabric.Time, header []byte, tail int) {
	if h.wrap != nil {
		header = usid.Unwrap(header)
	}
	h.nic.Receive(now, header, tail)
	h.core.Received(now) // an echo can cause probes
}

// Acked processes newly acknowledged payload bytes of a queue pair, for [transport.Handler].
func (h *hostShell) Acked(now fabric.Time, qp transport.QP, bytes int64) {
	h.core.Acked(now, qp, bytes)
}

// Done processes the acknowledgement of a queue pair's last bytes, for [transport.Handler].
func (h *hostShell) Done(now fabric.Time, qp transport.QP) {
	h.w.obs.Recorder.Closed(now, h.id, uint64(qp))
	h.core.Done(now, qp)
}

// Sent reports that all of a message is acknowledged, for [host.Shell].
func (h *hostShell) Sent(now fabric.Time, message uint64) {
	id := collective.ID(message)
	h.w.obs.Recorder.Sent(now, message)
	if h.w.run.Scenario.Host.Completion == scenario.OnAck {
		h.deliverToRank(now, id)
	}
	if x := h.w.servers.failover; x != nil {
		delete(x.assignments, id)
	}
	if err := h.w.job.sent(now, id); err != nil {
		h.w.fail(err)
	}
	h.w.host(id.Src()).checkFinished() // this host, or one for which it forwards
}

// Timeout processes the expiry of a queue pair's retransmission timer, for [transport.Handler].
func (h *hostShell) Timeout(now fabric.Time, qp transport.QP) {
	if !h.timedOut {
		h.timedOut = true
		h.note(report.KindTimeout, "first retransmission time-out of this host")
	}
	h.w.obs.Recorder.TimedOut(now, h.id, uint64(qp))
	h.core.Timeout(now, qp)
	h.w.obs.Recorder.ReactionEnded(h.id)
}

// Delivered processes the complete arrival of a queue pair's bytes, for [transport.Handler]. A message has arrived
// when all its pieces have.
func (h *hostShell) Delivered(now fabric.Time, src fabric.NodeID, message uint64, bytes int64) {
	id := collective.ID(message)
	if h.strays(src, id) {
		return
	}
	a, ok := h.arriving[id]
	if a.left -= bytes; !ok || a.left < 0 {
		h.w.fail(fmt.Errorf("%s: %d bytes too many of message %v", h.w.f.Name(h.id), -a.left, id))
		return
	}
	if h.arriving[id] = a; a.left > 0 {
		return
	}
	delete(h.arriving, id)
	h.flows = append(h.flows, report.FlowTime{
		From: h.w.f.Name(a.src), To: h.w.f.Name(h.id), Posted: a.posted, Bytes: a.bytes, Took: now - a.posted, Alone: bound.Alone(h.w.f, a.src, h.id, a.bytes, h.w.format),
	})
	h.w.obs.Recorder.Received(now, message)
	if h.w.run.Scenario.Host.Completion == scenario.OnArrival {
		h.deliverToRank(now, id)
	}
}

// received lets the rank continue with the operations that wait for a message.
func (h *hostShell) received(now fabric.Time, id collective.ID) {
	if err := h.w.job.received(now, id); err != nil {
		h.w.fail(err)
	}
	h.checkFinished()
}

// Quench processes the UDP payload of a source quench or notice, for [transport.Handler].
func (h *hostShell) Quench(now fabric.Time, payload []byte, src netip.Addr) {
	q, err := frame.ParseQuench(payload, src)
	if err != nil {
		h.w.fail(fmt.Errorf("%s: %w", h.w.f.Name(h.id), err))
		return
	}
	if !h.quenched {
		h.quenched = true
		h.note(report.KindQuench, "first source quench of this host")
	}
	h.w.obs.Recorder.Quenched(now, h.id, q)
	q.Switch = h.w.f.PlaneNode(h.port, q.Switch)
	h.core.Quench(now, q)
	h.w.obs.Recorder.ReactionEnded(h.id)
}

// checkFinished records when the rank, and when the collective, is done.
func (h *hostShell) checkFinished() {
	if !h.w.job.done(h.rank) {
		return
	}
	h.w.net.Serially(h.id, func(now fabric.Time) {
		h.w.obs.Recorder.Finished(now, h.id)
		h.w.note(now, report.KindDone, h.w.f.Name(h.id), "rank finished")
		h.w.checkFinished(now)
	})
}

// recordedEndpoint records which queue pairs are opened.
type recordedEndpoint struct {
	host.Endpoint
	h *hostShell
}

// recorded returns the endpoint for the host's core.
func (h *hostShell) recorded() host.Endpoint {
	if h.w.obs.Recorder == nil {
		return h.nic
	}
	return recordedEndpoint{h.nic, h}
}

// Open opens a queue pair for a piece of a message, or for a probe, for [host.Endpoint].
func (e recordedEndpoint) Open(now fabric.Time, m transport.Message) error {
	e.h.w.obs.Recorder.Opened(now, e.h.id, m)
	return e.Endpoint.Open(now, m)
}

// Close ends a queue pair, for [host.Endpoint].
func (e recordedEndpoint) Close(qp transport.QP) error {
	e.h.w.obs.Recorder.Closed(e.h.w.net.Now(), e.h.id, uint64(qp))
	return e.Endpoint.Close(qp)
}

// note adds an event of the host to the timeline.
func (h *hostShell) note(kind report.Kind, text string) {
	h.w.net.Serially(h.id, func(now fabric.Time) { h.w.note(now, kind, h.w.f.Name(h.id), text) })
}
