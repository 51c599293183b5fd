package hostprocess

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Acked processes newly acknowledged payload bytes of a queue pair, for [soft.Handler].
func (r *Rank) Acked(now fabric.Time, qp transport.QP, bytes int64) {
	if r.device != nil {
		r.device.Acked(now, qp)
	}
	r.core.Acked(now, qp, bytes)
}

// Done processes the acknowledgement of a queue pair's last bytes, for [soft.Handler].
func (r *Rank) Done(now fabric.Time, qp transport.QP) {
	if ev, ok := r.flipped[qp]; ok { // the packets in flight had arrived
		delete(r.flipped, qp)
		r.notify(ev)
	}
	r.core.Done(now, qp)
	if r.device != nil {
		r.device.Done(now, qp)
	}
}

// sentAll records that a message is completely acknowledged.
func (r *Rank) sentAll(now fabric.Time, o *outboundMessage) {
	delete(r.sending, o.id)
	r.sent++
	r.notify(hostproto.Event{Kind: hostproto.Sent, At: r.toMonotonic(now), ID: o.id, Peer: int(o.dst), Bytes: int64(len(o.data))})
	if o.job && r.job != nil {
		if err := r.job.Sent(collective.ID(o.id)); err != nil {
			r.reportViolation(now, err)
		}
		r.checkDone(now)
	}
}

// Timeout processes the expiry of a queue pair's retransmission timer, for [soft.Handler].
func (r *Rank) Timeout(now fabric.Time, qp transport.QP) {
	r.notify(hostproto.Event{Kind: hostproto.Timeout, At: r.toMonotonic(now), QP: uint32(qp)})
	r.core.Timeout(now, qp)
}

// Failed processes the receiver's refusal of a queue pair's message, for [soft.Handler].
func (r *Rank) Failed(now fabric.Time, qp transport.QP, s frame.Syndrome) {
	id, ok := r.core.Refuse(now, qp)
	if id&deviceFlowBit != 0 && r.device != nil {
		r.core.Forget(id)
		r.device.Refused(now, qp, s)
		return
	}
	if o := r.sending[id]; ok && o != nil {
		r.reportViolation(now, fmt.Errorf("%s refused message %#x: syndrome %#x", r.cfg.Fabric.Name(o.dst), o.id, uint8(s)))
	}
}

// Written processes a complete RDMA WRITE from another host, for [soft.Handler].
func (r *Rank) Written(now fabric.Time, src fabric.NodeID, key uint32, address uint64, n int64) {
	g := r.regions[key]
	if g == nil {
		return // of a forgotten message
	}
	s := g.at(int64(address), n)
	if s == nil {
		r.reportViolation(now, fmt.Errorf("a WRITE of %d bytes at %d of key %#x from %s fits no message", n, address, key, r.cfg.Fabric.Name(src)))
		return
	}
	if n > s.left {
		r.reportViolation(now, fmt.Errorf("%d bytes too many of message %#x", n-s.left, s.id))
		return
	}
	if s.left -= n; s.left == 0 {
		r.arrived(now, src, s.id, g.buf[s.start:s.start+s.bytes])
		if g.once {
			r.engine.Deregister(key)
			delete(r.regions, key)
		}
	}
}

// arrived processes a complete message.
func (r *Rank) arrived(now fabric.Time, src fabric.NodeID, id uint64, msg []byte) {
	r.received++
	r.notify(hostproto.Event{
		Kind: hostproto.Received, At: r.toMonotonic(now), ID: id, Peer: int(src), Bytes: int64(len(msg)), CRC: checksum(msg),
	})
	if r.job == nil || collective.ID(id).Dst() != int(r.cfg.Host) || !r.ofJob(collective.ID(id)) {
		return
	}
	if err := r.job.Received(collective.ID(id), func(s collective.Send) { r.postJob(now, s) }); err != nil {
		r.reportViolation(now, err)
	}
	r.checkDone(now)
}

// ofJob reports whether an ID is the job's; other messages may have been posted too.
func (r *Rank) ofJob(id collective.ID) bool { return id.Job() == r.job.Spec().Job }

func (r *Rank) checkDone(now fabric.Time) {
	if r.job.Done(int(r.cfg.Host)) {
		r.notify(hostproto.Event{Kind: hostproto.Done, At: r.toMonotonic(now)})
	}
}

// Quench processes a switch's source quench or notice, for [soft.Handler].
func (r *Rank) Quench(now fabric.Time, q frame.Quench) {
	ev := hostproto.Event{Kind: hostproto.Quench, At: r.toMonotonic(now), Reason: "ignored"}
	if id, ok := r.cfg.Fabric.LinkAt(q.Switch, q.Port); ok {
		ev.Link = r.cfg.Fabric.LinkName(id)
	}
	if !r.set.NoQuench {
		verdict := r.core.Quench(now, q)
		ev.Reason = verdict.String()
		if verdict == hostagent.Believed || verdict == hostagent.Known {
			r.notify(ev)
		}
		return
	}
	r.notify(ev)
}

// Update processes a controller's notification.
func (r *Rank) Update(now fabric.Time, u *statepb.Update) {
	if u.GetHeartbeat() { // from a controller that may confirm quenches
		if !r.set.NoUpdates {
			r.core.Update(now, u)
		}
		return
	}
	r.last = daemon.Merge(r.last, u)
	if r.set.NoUpdates {
		if r.set.NoReports {
			return
		}
		// Suspicions from all agents' reports are not the controller's own report of links.
		u = &statepb.Update{Instance: u.GetInstance(), Epoch: u.GetEpoch(), Snapshot: u.GetSnapshot(), Suspects: u.GetSuspects()}
	}
	r.notify(hostproto.Event{Kind: hostproto.Push, At: r.toMonotonic(now), Instance: u.GetInstance(), Epoch: u.GetEpoch(), Snapshot: u.GetSnapshot()})
	r.core.Update(now, u)
}
