package transport

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// goBackN is the transport of RC: a responder accepts packets in sequence only and answers the first one ahead with
// a NAK; the requester goes back to the missing packet.
type goBackN struct{ *Endpoint }

// GoBackN names the transport of RNICs since their beginning: a receiver drops packets that arrive out of order and
// sends a NAK; the sender retransmits everything from the missing packet on.
const GoBackN Receiver = "go-back-n"

func goBackNSpec() Spec {
	return Spec{
		Kind: Transport, Name: string(GoBackN), Summary: "drops the packet and asks once for the missing one; the sender retransmits everything from there",
		Needs: Needs{InOrder: true}, transport: func(e *Endpoint) reliability { return goBackN{e} },
	}
}

func (t goBackN) open(q *qp) { q.cwnd = unlimited }

// pick allows one packet more than the window for a probe, and if no packet in flight asks for an ACK, as after a cut
// of the window; that one asks.
func (t goBackN) pick(q *qp) (packet int32, ok bool) {
	most := max(q.sndUna+q.cwnd, q.tail.sendLimit)
	if t.ackInterval > 1 && t.cfg.Watcher != nil && q.tail.ackAskedBy <= q.sndUna {
		most = max(most, q.sndNxt+1)
	}
	return q.sndNxt, q.sndNxt < min(q.totalPackets(), most) && !q.failed
}

func (t goBackN) sent(now fabric.Time, q *qp, i int32, asks bool) (more bool) {
	q.sndNxt++
	t.awaitAnswer(now, q, i, asks)
	switch {
	case !t.answerDue(q):
	case q.expireAt == never:
		q.timerFrom = now
		t.restart(now, q)
	case i < q.dataPackets && now-q.timerFrom < t.cfg.RTO: // probes do not hide a loss from the timer
		t.restart(now, q)
	}
	_, more = t.pick(q)
	return more
}

// answerDue reports whether a packet in flight asks for an ACK: until one does, a QP that waits for its turn for longer
// than the time-out has lost nothing. The timer runs for every packet without a watcher, after going back, and if the
// QP may not send: a window that is cut may have no packet in it that asks.
func (t goBackN) answerDue(q *qp) bool {
	_, more := t.pick(q)
	return !more || t.cfg.Watcher == nil || q.tail.ackAskedBy > q.sndUna || q.sndUna < q.once
}

func (t goBackN) expired(now fabric.Time, q *qp) {
	t.reportLost(now, q, q.sndUna)
	t.lost(q)
	t.timedOut(now, q)
}

// lost makes the first unacknowledged packet the next to send. The message's packets will show a gap themselves, so
// nudges are not retransmitted.
func (t goBackN) lost(q *qp) {
	q.sndNxt, q.once = q.sndUna, q.sent
	q.tail.becomeIdle()
	t.control.pacer.wentBack(q)
	q.nudges = 0
	if q.state != nil {
		q.state.timing.packet = 0 // its ACK could belong to either copy
	}
}

func (t goBackN) answered(now fabric.Time, q *qp, p *packet, s frame.Syndrome) {
	nak := s == frame.NAKSequenceError
	if !nak && !s.IsACK() {
		t.refused(now, q, p, s)
		return
	}
	upTo := q.sndUna + psnDiff(p.psn, q.firstPSN+uint32(q.sndUna))
	if !nak {
		upTo++
	}
	if upTo > q.sent {
		t.stats.Malformed++
		return
	}
	if q.balanced && !nak {
		t.cfg.Balancer.Echo(now, q.id, Echo{Label: p.label, Marked: p.becn, RTT: q.state.timing.acked(now, q.sndUna, upTo)})
	}
	if upTo < q.sndUna || !nak && upTo == q.sndUna {
		t.stats.StaleAcks++
		return
	}
	newly := upTo - q.sndUna
	bytes := q.payload(q.sndUna, upTo, int64(t.cfg.MTU))
	lost := Loss{}
	if t.cfg.Watcher != nil {
		lost = t.lostBy(q, upTo, nak)
	}
	q.sndUna = upTo
	late := upTo > q.sndNxt
	q.sndNxt = max(q.sndNxt, upTo)
	t.answerCame(now, q)
	if p.becn = p.becn && !nak; p.becn { // a NAK's mark is repeated in the next ACK
		t.stats.Marked++
	}
	if newly > 0 {
		t.control.pacer.acked(now, q, p, newly, upTo, late)
	}
	if nak {
		t.stats.NaksTaken++
		t.lost(q)
	}
	t.activate(q)
	if q.sndUna < q.sndNxt && t.answerDue(q) {
		q.timerFrom = now
		t.restart(now, q)
	} else {
		q.expireAt = never
	}
	if lost.Packets+lost.Acks > 0 {
		id := q.id
		if t.cfg.Watcher.Lost(now, id, lost); !q.live || q.id != id {
			return // it was closed
		}
	}
	t.reportAcked(now, q, bytes)
}

// refused processes a NAK of a responder without place for a packet. The QP sends no more: it stays until its owner
// closes it, and no longer times out.
func (t goBackN) refused(now fabric.Time, q *qp, p *packet, s frame.Syndrome) {
	upTo := q.sndUna + psnDiff(p.psn, q.firstPSN+uint32(q.sndUna))
	if upTo < q.sndUna || upTo >= q.sent {
		t.stats.StaleAcks++
		return
	}
	bytes := q.payload(q.sndUna, upTo, int64(t.cfg.MTU))
	q.sndUna = upTo
	t.lost(q)
	q.failed = true
	t.giveUp(q)
	q.expireAt = never
	t.stats.BytesAcked += uint64(bytes)
	if bytes > 0 {
		t.handler.Acked(now, q.id, bytes)
	}
	if f, ok := t.handler.(FailureHandler); ok && q.failed {
		f.Failed(now, q.id, s)
	}
}

func (t goBackN) repeat(*qp, int32) {} // its receivers have no window

// lastAcked returns the last packet that is acknowledged.
func (t goBackN) lastAcked(_ *qp, _ *packet, at int32) int32 { return at - 1 }

func (t goBackN) outstanding(q *qp) int32 { return q.sndNxt - q.sndUna }

func (t goBackN) begin(*context) {}

func (t goBackN) receive(now fabric.Time, c *context, p *packet) {
	switch ahead := psnDiff(p.psn, c.rcvNxt); {
	case ahead < 0: // the sender went back too far, or an ACK was lost
		t.stats.Duplicates++
		if p.ackReq {
			// The sender knows all this: a mark counts for a new ACK only.
			ce := c.ce
			t.reply(now, c, p, frame.ACK)
			c.ce = ce
		}
		return
	case ahead > 0, p.cut:
		if ahead > 0 {
			t.stats.OutOfOrder++
		}
		if !c.nakSent {
			c.nakSent = true
			t.stats.NaksSent++
			t.reply(now, c, p, frame.NAKSequenceError)
		}
		return
	}
	var was context
	if t.cfg.Place != nil {
		was = *c
	}
	if !c.take(p) {
		t.stats.Malformed++
		return
	}
	payload := p.tail - p.pad - frame.ICRCSize
	if t.cfg.Place != nil && payload > 0 {
		if as := t.place(now, c, p, payload); as != Placed {
			*c = was
			c.nakSent = true // later packets need no NAK
			t.stats.Refused++
			t.reply(now, c, p, as.syndrome())
			return
		}
	}
	c.nakSent = false
	c.rcvNxt = (c.rcvNxt + 1) & psnMask
	c.received += int64(payload)
	t.stats.BytesDelivered += uint64(payload)
	complete := !c.writing
	if complete {
		c.msn = (c.msn + 1) & psnMask
	}
	if p.ackReq {
		t.reply(now, c, p, frame.ACK)
	}
	if complete && c.length > 0 {
		t.stats.Delivered++
		t.handler.Delivered(now, p.src, c.message, c.length)
	}
}

// take checks a packet in sequence against the state of its message, and begins or ends the message. The packet's
// payload is not yet in c.got.
func (c *context) take(p *packet) bool {
	payload := int64(p.tail - p.pad - frame.ICRCSize)
	if payload < 0 {
		return false
	}
	first, last := p.opcode.Starts(), p.opcode.Ends()
	if first == c.writing {
		return false
	}
	length, got := c.length, c.received
	if first {
		if len(p.rest) < frame.RETHSize {
			return false
		}
		length, got = int64(frame.RETH(p.rest).Length()), 0
	}
	if sum := got + payload; last && sum != length || !last && sum >= length {
		return false
	}
	if first {
		c.message, c.length, c.received = frame.RETH(p.rest).VirtualAddress(), length, 0
		c.rkey = frame.RETH(p.rest).RKey()
	}
	c.writing = !last
	return true
}

// reply queues an ACK for all packets before the expected one, or a NAK for it.
func (t goBackN) reply(now fabric.Time, c *context, p *packet, syndrome frame.Syndrome) {
	psn, becn := c.rcvNxt, c.ce
	if syndrome == frame.ACK {
		psn, c.ce = psn-1, false
	}
	t.queueControl(controlPacket{
		dst: p.src, qpn: p.qpn, psn: psn, msn: c.msn, label: t.ackLabel(now, p), syndrome: syndrome, becn: becn,
	})
}

// lostBy returns the losses that an ACK shows, for a QP that keeps its packets in order. upTo is the first packet
// that it does not acknowledge. If each packet requests an ACK, their ACKs arrive in order, so an ACK for several
// packets means that the earlier ACKs were lost. This does not hold for retransmitted packets.
func (e *Endpoint) lostBy(q *qp, upTo int32, nak bool) (l Loss) {
	l.Since = q.tail.since
	if nak {
		l.Packets = 1
	}
	if e.ackInterval == 1 && q.sndUna >= q.once && upTo > q.sndUna {
		l.Acks = int(upTo-q.sndUna) - 1 + l.Packets
	}
	return l
}
