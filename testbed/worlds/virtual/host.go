package virtual

import (
	"fmt"
	"net/netip"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// host is one rank: its RoCEv2 interface, its load balancer and the messages it
// sends and receives. It is the interface's event handler and the network's
// endpoint.
type host struct {
	w      *world
	id     fabric.NodeID
	rank   int
	nic    *endpoint.Endpoint
	scheme balance.Host
	// perPacket is the scheme if it labels every packet, else nil.
	perPacket balance.PacketHost
	holder    balance.Holder   // the scheme if it holds queue pairs back, else nil
	losses    balance.LossHost // the scheme if it hears of losses, else nil

	batch    []hostagent.Flow // posted in the open batching window
	open     bool             // the window's end is scheduled
	tick     fabric.Time      // when the scheme's tick is scheduled for; 0: it is not
	qps      map[endpoint.QP]collective.ID
	probes   map[endpoint.QP]bool
	sending  map[collective.ID]int64 // queue pairs not acknowledged to the end
	arriving map[collective.ID]int64 // bytes that are still to come

	away   bool // the agent is down
	missed bool // a batching window ended meanwhile

	asked     map[endpoint.QP]*asked // probes that the controller asked for
	nextProbe endpoint.QP

	// Firsts that are on the timeline already.
	timedOut, quenched, resent bool
}

var (
	_ endpoint.Handler  = (*host)(nil)
	_ endpoint.Balancer = (*host)(nil)
	_ sim.Endpoint      = (*host)(nil)
	_ sim.Pausable      = (*host)(nil)
)

func (w *world) newHost(id fabric.NodeID) (*host, error) {
	h := &host{
		asked: map[endpoint.QP]*asked{},
		w:     w, id: id, qps: map[endpoint.QP]collective.ID{}, probes: map[endpoint.QP]bool{},
		sending: map[collective.ID]int64{}, arriving: map[collective.ID]int64{},
	}
	s := w.run.Scenario
	var err error
	h.scheme, err = balance.New(w.run.Scheme.Name, w.run.Scheme.Params, balance.Config{
		Config: hostagent.Config{
			Fabric: w.f, Host: id, Seed: w.run.Seed,
			FailedPathMemory: s.Agent.FailedPathMemory, StartJitter: s.Agent.StartJitter,
		},
		MTU: int(s.Host.Payload),
	})
	if err != nil {
		return nil, err
	}
	h.perPacket, _ = h.scheme.(balance.PacketHost)
	h.holder, _ = h.scheme.(balance.Holder)
	h.losses, _ = h.scheme.(balance.LossHost)
	c := endpoint.Config{
		Fabric: w.f, Host: id, IPv6: s.Host.IPv6, FlowLabel: s.Host.Carrier == scenario.IPv6FlowLabel,
		MTU: int(s.Host.Payload), RTO: s.Host.RTO, AckEvery: s.Host.AckEvery, AckWhenAsked: s.Host.AckWhenAsked,
		NoNudge:  !s.Host.NudgeOnFlip,
		AckLabel: h.scheme.AckLabel,
		Control:  s.Host.CongestionControl.Control(),
		Receiver: s.Host.Receiver.For(w.run.Scheme.Name), ReorderWindow: s.Host.ReorderWindow,
		Reordered: balance.Reorders(w.run.Scheme.Name),
	}
	if h.perPacket != nil {
		c.Balancer = h
	}
	if h.losses != nil && (s.Switch.ECN.KMax > 0 || s.FlowControl() != (sim.PFC{})) {
		c.Watcher = h // without marks a loss by congestion looks like any other
	}
	if h.nic, err = endpoint.New(c, h); err != nil {
		return nil, err
	}
	w.net.SetHost(id, h)
	return h, nil
}

// postTo takes a send of the collective into a host's batching window.
func (w *world) postTo(now fabric.Time, h *host, s collective.Send) {
	to := w.host(s.Dst)
	h.batch = append(h.batch, hostagent.Flow{ID: uint64(s.ID), Dst: to.id, Bytes: s.Bytes})
	if w.net.Cores() == 1 || w.net.Region(h.id) == w.net.Region(to.id) {
		to.arriving[s.ID] = s.Bytes
	} else { // it knows in time: the first packet will take longer
		w.net.Serially(h.id, func(fabric.Time) { to.arriving[s.ID] = s.Bytes })
	}
	if !h.open {
		h.open = true
		w.net.AtNode(h.id, now+w.run.Scenario.Agent.BatchWindow, h.closeWindow)
	}
}

// closeWindow balances what was posted in the window.
func (h *host) closeWindow(now fabric.Time) {
	if h.away {
		h.missed = true // the agent will find the batch when it is back
		return
	}
	h.open = false
	err := h.scheme.Post(now, h.batch)
	h.batch = h.batch[:0]
	if err != nil {
		h.w.fail(fmt.Errorf("%s: %w", h.w.f.Name(h.id), err))
		return
	}
	h.act(now)
}

// act carries out what the scheme asks for.
func (h *host) act(now fabric.Time) {
	if h.away {
		return
	}
	ready := h.scheme.Ready()
	for _, p := range ready.Open {
		id := collective.ID(p.Flow)
		err := h.nic.Open(now, endpoint.Message{
			QP: endpoint.QP(p.QP), ID: p.Flow, Dst: p.Dst, Bytes: p.Bytes, Label: p.Label, Start: p.Start,
			Balanced: h.perPacket != nil,
		})
		if err != nil {
			h.w.fail(fmt.Errorf("%s: %w", h.w.f.Name(h.id), err))
			return
		}
		if p.Bytes == 0 {
			h.probes[endpoint.QP(p.QP)] = true
			continue
		}
		h.qps[endpoint.QP(p.QP)] = id
		h.sending[id]++
	}
	for _, f := range ready.Flip {
		err := error(nil)
		if f.Dead && h.w.run.Scenario.Host.ResendOnFlip {
			err = h.nic.Resend(endpoint.QP(f.QP))
		}
		if err == nil {
			err = h.nic.Relabel(endpoint.QP(f.QP), f.To)
		}
		if err != nil {
			h.w.fail(fmt.Errorf("%s: %w", h.w.f.Name(h.id), err))
			return
		}
		h.w.net.Serially(h.id, func(now fabric.Time) { h.w.noteFlip(now, h.id, f) })
	}
	if h.holder != nil {
		for _, hold := range h.holder.Holds() {
			_ = h.nic.Hold(endpoint.QP(hold.QP), hold.Until) // it may have finished meanwhile
		}
	}
	if d := h.w.control.doubts; d != nil {
		for _, failed := range ready.Failed {
			h.w.net.Serially(h.id, func(now fabric.Time) { d.report(now, h.id, failed) })
		}
	}
	if len(ready.Open)+len(ready.Flip) > 0 {
		h.w.net.Wake(h.id)
	}
	if at, ok := h.scheme.Deadline(); ok && (h.tick == 0 || at < h.tick) {
		h.tick = at
		h.w.net.AtNode(h.id, at, func(now fabric.Time) {
			if h.tick == at {
				h.tick = 0
				if h.away {
					return // the agent's clock runs again when it is back
				}
				h.scheme.Tick(now)
				h.act(now)
			}
		})
	}
}

// update is the controller's word.
func (h *host) update(now fabric.Time, u *statepb.Update) {
	if h.away {
		return
	}
	h.scheme.Update(now, u)
	h.act(now)
}

// Next implements [sim.Endpoint].
func (h *host) Next(now fabric.Time, buf []byte) (sim.Frame, fabric.Time, bool) {
	f, ok := h.nic.Next(now, buf)
	if ok {
		h.noteResending()
		return sim.Frame{
			Header: f.Len, Payload: f.Tail - rocev2.ICRCSize, Trailer: rocev2.ICRCSize, Control: f.Control,
		}, 0, true
	}
	wake, ok := h.nic.NextWake()
	if !ok {
		wake = sim.Never
	}
	return sim.Frame{}, wake, false
}

// Pause implements [sim.Pausable].
func (h *host) Pause(_ fabric.Time, paused bool) { h.nic.Pause(paused) }

// noteResending puts a host's first retransmission after a failure on the
// timeline.
func (h *host) noteResending() {
	if h.resent || h.w.firstCut < 0 || h.nic.Stats().Retransmissions == 0 {
		return
	}
	h.resent = true
	h.note(report.KindRetransmit, "first retransmission of this host")
}

// Receive implements [sim.Endpoint].
func (h *host) Receive(now fabric.Time, header []byte, tail int) {
	h.nic.Receive(now, header, tail)
	if h.perPacket != nil {
		h.act(now) // an echo can ask for probes
	}
}

// Label implements [endpoint.Balancer].
func (h *host) Label(now fabric.Time, qp endpoint.QP) fabric.Label {
	return h.perPacket.Label(now, hostagent.QP(qp))
}

// Echo implements [endpoint.Balancer].
func (h *host) Echo(now fabric.Time, qp endpoint.QP, e endpoint.Echo) {
	h.perPacket.Echo(now, hostagent.QP(qp), e)
}

// Acked implements [endpoint.Handler].
func (h *host) Acked(now fabric.Time, qp endpoint.QP, bytes int64) {
	h.scheme.Acked(now, hostagent.QP(qp), bytes)
}

// Done implements [endpoint.Handler].
func (h *host) Done(now fabric.Time, qp endpoint.QP) {
	if qp >= firstProbe {
		delete(h.asked, qp)
		return
	}
	h.scheme.Done(now, hostagent.QP(qp))
	if h.probes[qp] {
		delete(h.probes, qp)
		return
	}
	id, ok := h.qps[qp]
	if !ok {
		h.w.fail(fmt.Errorf("%s: queue pair %d completed twice", h.w.f.Name(h.id), qp))
		return
	}
	delete(h.qps, qp)
	if h.sending[id]--; h.sending[id] > 0 {
		return
	}
	delete(h.sending, id)
	if err := h.w.job.sent(now, id); err != nil {
		h.w.fail(err)
	}
	h.w.host(id.Src()).checkFinished() // this host, or one it sends for
}

// Timeout implements [endpoint.Handler].
func (h *host) Timeout(now fabric.Time, qp endpoint.QP) {
	if a := h.asked[qp]; a != nil {
		a.lost++ // it will be sent again, and that one does not count
		delete(h.asked, qp)
		return
	}
	if qp >= firstProbe {
		return
	}
	if !h.timedOut {
		h.timedOut = true
		h.note(report.KindTimeout, "first retransmission time-out of this host")
	}
	if h.away {
		return // nobody is there to choose another path
	}
	h.scheme.Timeout(now, hostagent.QP(qp))
	h.act(now)
}

// Delivered implements [endpoint.Handler]. A message has arrived when all its pieces
// have.
func (h *host) Delivered(now fabric.Time, _ fabric.NodeID, message uint64, bytes int64) {
	id := collective.ID(message)
	left, ok := h.arriving[id]
	if left -= bytes; !ok || left < 0 {
		h.w.fail(fmt.Errorf("%s: %d bytes too many of message %v", h.w.f.Name(h.id), -left, id))
		return
	}
	if h.arriving[id] = left; left > 0 {
		return
	}
	delete(h.arriving, id)
	if err := h.w.job.received(now, id); err != nil {
		h.w.fail(err)
	}
	h.checkFinished()
}

// Lost implements [endpoint.PathWatcher].
func (h *host) Lost(now fabric.Time, qp endpoint.QP, packets int) {
	if h.away || qp >= firstProbe {
		return
	}
	h.losses.Lost(now, hostagent.QP(qp), packets)
	h.act(now)
}

// Congested implements [endpoint.PathWatcher].
func (h *host) Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool) {
	if !h.away {
		h.losses.Congested(now, peer, l, inbound)
	}
}

// Quench implements [endpoint.Handler].
func (h *host) Quench(now fabric.Time, payload []byte, src netip.Addr) {
	q, err := hostagent.ParseQuench(payload, src)
	if err != nil {
		h.w.fail(fmt.Errorf("%s: %w", h.w.f.Name(h.id), err))
		return
	}
	if !h.quenched {
		h.quenched = true
		h.note(report.KindQuench, "first source quench of this host")
	}
	if h.away {
		return
	}
	h.scheme.Quench(now, q)
	h.act(now)
}

// checkFinished notes when the rank, and when the collective, is done.
func (h *host) checkFinished() {
	if !h.w.job.done(h.rank) {
		return
	}
	h.w.net.Serially(h.id, func(now fabric.Time) {
		h.w.note(now, report.KindDone, h.w.f.Name(h.id), "rank finished")
		h.w.checkFinished(now)
	})
}

// note puts an event of the host's on the timeline.
func (h *host) note(kind report.Kind, text string) {
	h.w.net.Serially(h.id, func(now fabric.Time) { h.w.note(now, kind, h.w.f.Name(h.id), text) })
}
