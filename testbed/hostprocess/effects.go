package hostprocess

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/soft"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// coreEffects is the rank as its core's endpoint and shell: it supplies queue pairs with bytes.
type coreEffects Rank

var (
	_ host.Endpoint = (*coreEffects)(nil)
	_ host.Shell    = (*coreEffects)(nil)
)

// Open opens a queue pair for a piece of a message, or for a probe, for [host.Endpoint].
func (x *coreEffects) Open(now fabric.Time, p transport.Message) error {
	m := soft.Message{QP: p.QP, ID: p.ID, Dst: p.Dst, Label: p.Label, Start: p.Start, Balanced: p.Balanced, Once: p.Once}
	if p.Bytes == 0 {
		return x.engine.Write(now, m)
	}
	if p.ID&deviceFlowBit != 0 && x.device != nil {
		of, ok := x.device.Open(p.QP, p.ID&^deviceFlowBit, int64(p.Address), p.Bytes)
		if !ok {
			return fmt.Errorf("%w: flow %#x", host.ErrEnded, p.ID)
		}
		m.From, m.Key, m.Address, m.Share, m.Bytes = of.From, of.Key, of.Address, of.Share, p.Bytes
		return x.engine.Write(now, m)
	}
	o := x.sending[p.ID]
	if o == nil {
		return fmt.Errorf("a piece of message %#x, which is not under way", p.ID)
	}
	offset := int64(p.Address)
	m.Data = o.data[offset : offset+p.Bytes]
	m.Key, m.Address = o.key, uint64(o.base+offset)
	return x.engine.Write(now, m)
}

// Resend makes a queue pair retransmit its packets in flight, for [host.Endpoint].
func (x *coreEffects) Resend(qp transport.QP) error { return x.engine.Resend(qp) }

// Restart makes a queue pair continue as a new one would, for [host.Endpoint].
func (x *coreEffects) Restart(qp transport.QP) error { return x.engine.Restart(qp) }

// Relabel moves a queue pair to another path, for [host.Endpoint].
func (x *coreEffects) Relabel(qp transport.QP, l fabric.Label) error { return x.engine.Relabel(qp, l) }

// Hold makes a queue pair send nothing before a time, for [host.Endpoint].
func (x *coreEffects) Hold(qp transport.QP, until fabric.Time) error { return x.engine.Hold(qp, until) }

// Ask sends a path probe, for [host.Endpoint].
func (x *coreEffects) Ask(dst fabric.NodeID, l fabric.Label, question uint32) error {
	return x.engine.Ask(dst, l, question)
}

// Close ends a queue pair, for [host.Endpoint].
func (x *coreEffects) Close(qp transport.QP) error {
	x.engine.Close(qp)
	return nil
}

// Alarm does nothing, because [Rank.Wake] asks the core for its deadline.
func (x *coreEffects) Alarm(fabric.Time) {}

// Wake does nothing, because the endpoint is asked for frames after every call.
func (x *coreEffects) Wake(fabric.Time) {}

// Flipped reports that a queue pair was moved to another path, for [host.Shell]. A flip is reported when the first
// packet has left on the new path.
func (x *coreEffects) Flipped(now fabric.Time, f hostagent.Flip) {
	if x.cfg.Flipped != nil {
		x.cfg.Flipped(f)
	}
	if old, ok := x.flipped[transport.QP(f.QP)]; ok {
		x.notify(old) // no packet was sent on the new path
	}
	x.flipped[transport.QP(f.QP)] = hostproto.Event{
		Kind: hostproto.Flip, At: (*Rank)(x).toMonotonic(now), QP: uint32(f.QP), From: uint16(f.From), To: uint16(f.To), Reason: f.Reason.String(),
	}
}

// Sent reports that all of a message is acknowledged, for [host.Shell].
func (x *coreEffects) Sent(now fabric.Time, message uint64) {
	if o := x.sending[message]; o != nil {
		(*Rank)(x).sentAll(now, o)
	}
}

// PathsFailed reports paths that timed out though no link on them was known to be dead, for [host.Shell].
func (x *coreEffects) PathsFailed(now fabric.Time, failed []hostagent.Failed) {
	if x.cfg.Report != nil && !x.set.NoReports {
		x.cfg.Report(failed, (*Rank)(x).toMonotonic(now))
	}
}

// Probed reports the result of a controller's path probe, for [host.Shell].
func (x *coreEffects) Probed(_ fabric.Time, r host.ProbeResult) {
	if a, ok := x.answers[r.ID]; ok {
		delete(x.answers, r.ID)
		a(r)
	}
}

// Fault reports a violated contract, such as a queue pair that cannot be opened, for [host.Shell].
func (x *coreEffects) Fault(now fabric.Time, err error) { (*Rank)(x).reportViolation(now, err) }
