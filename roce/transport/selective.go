package transport

import (
	"math"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// selectiveState is a QP's knowledge of its packets if the receivers accept them in any order. All packets below the
// QP's sndUna are acknowledged.
//
// A packet is lost if one that was sent at least `threshold` later has been acknowledged, or if the timer has
// expired since it was sent. Then it is retransmitted, once for each of the two reasons, unless it is acknowledged.
// A packet that a switch has trimmed is retransmitted when the receiver reports it, once per report. restartsTimer
// says when an answer restarts the timer.
type selectiveState struct {
	acked              bitWindow
	nextRetransmission int32 // next packet to check for retransmission
	lostBelow          int32 // packets below are lost, or acknowledged
	sentBeforeTimer    int32 // packets below had been sent when the timer was started
	threshold          int32
	trimmed            []int32   // trimmed packets, in the order of the reports
	reportedCut        bitWindow // of these, since the timer was started: only the timer retransmits them
	inFlight           int32     // packets in flight, neither acknowledged nor lost; each retransmission counts
}

// unlimited is a reorder window or threshold without effect.
const unlimited = math.MaxInt32 / 2

// selectiveRepeat is the transport of receivers that accept packets in any order, within a window or without limit.
type selectiveRepeat struct{ *Endpoint }

// The receivers that keep packets and acknowledge each.
const (
	// SelectiveRepeat names a transport whose receivers keep packets that arrive out of order, up to
	// [Config].ReorderWindow, and whose senders retransmit only what is lost.
	SelectiveRepeat Receiver = "selective-repeat"
	Ideal           Receiver = "ideal" // Ideal is SelectiveRepeat without a limit of the reorder window.
)

func selectiveRepeatSpec() Spec {
	return Spec{
		Kind: Transport, Name: string(SelectiveRepeat), Summary: "keeps the packet if the reorder window has room; the sender retransmits only missing packets",
		Needs: Needs{ReorderWindow: true}, transport: newSelectiveRepeat,
	}
}

func idealSpec() Spec {
	return Spec{
		Kind: Transport, Name: string(Ideal), Summary: "always keeps the packet; the sender retransmits only missing packets",
		transport: newSelectiveRepeat,
	}
}

func newSelectiveRepeat(e *Endpoint) reliability { return selectiveRepeat{e} }

func (t selectiveRepeat) open(q *qp) {
	q.cwnd = unlimited
	s := &q.extraState().selective
	s.acked.reset()
	s.nextRetransmission, s.lostBelow, s.sentBeforeTimer, s.threshold = 0, 0, 0, t.threshold(q)
	s.trimmed, s.inFlight = s.trimmed[:0], 0
	s.reportedCut.reset()
	q.state.late.open()
}

// threshold returns how much later a packet must have been sent so that its acknowledgement shows the loss of an
// earlier one.
func (t selectiveRepeat) threshold(q *qp) int32 {
	switch {
	case !q.balanced && !t.cfg.Reordered:
		return 1
	case t.cfg.LateLoss:
		return unlimited
	case t.maxPacketSpan == unlimited:
		return unlimited
	}
	return t.maxPacketSpan / 2
}

func (t selectiveRepeat) pick(q *qp) (packet int32, ok bool) {
	s := &q.state.selective
	if s.inFlight >= q.cwnd && q.sndNxt >= q.tail.sendLimit || q.balanced && t.windowed != nil && !t.windowed.Room(q.id, s.inFlight) {
		return 0, false
	}
	for len(s.trimmed) > 0 {
		if i := s.trimmed[0]; i >= q.sndUna && !s.acked.has(i) {
			return i, true
		}
		s.trimmed = slices.Delete(s.trimmed, 0, 1)
	}
	for s.nextRetransmission < s.lostBelow {
		if s.nextRetransmission = s.acked.next(max(s.nextRetransmission, q.sndUna)); s.nextRetransmission >= s.lostBelow {
			break
		}
		if !s.reportedCut.has(s.nextRetransmission) {
			return s.nextRetransmission, true
		}
		s.nextRetransmission++
	}
	return q.sndNxt, q.sndNxt < min(q.totalPackets(), q.sndUna+t.maxPacketSpan)
}

func (t selectiveRepeat) sent(now fabric.Time, q *qp, i int32, asks bool) (more bool) {
	s := &q.state.selective
	s.inFlight++
	if t.isLate(q) {
		t.lateSent(now, q, i, i != q.sndNxt)
	}
	if i == q.sndNxt {
		q.sndNxt++
	} else {
		if len(s.trimmed) > 0 && s.trimmed[0] == i {
			s.trimmed = slices.Delete(s.trimmed, 0, 1)
		} else {
			s.nextRetransmission = i + 1
		}
		if q.state.timing.packet == i+1 {
			q.state.timing.packet = 0
		}
	}
	if q.expireAt == never {
		t.restart(now, q)
	}
	t.awaitAnswer(now, q, i, asks)
	_, more = t.pick(q)
	return more
}

// restart restarts the timer, for the packets sent until now.
func (t selectiveRepeat) restart(now fabric.Time, q *qp) {
	t.Endpoint.restart(now, q)
	q.state.selective.sentBeforeTimer = q.sent
}

// lastAcked returns the packet that the answer names.
func (t selectiveRepeat) lastAcked(q *qp, p *packet, _ int32) int32 {
	return q.sndUna + psnDiff(frame.AETH(p.rest).MSN(), q.firstPSN+uint32(q.sndUna))
}

// outstanding counts at least one packet while some are neither acknowledged nor to be sent again: acknowledgements of
// packets taken for lost make inFlight too low.
func (t selectiveRepeat) outstanding(q *qp) int32 {
	s := &q.state.selective
	if q.sndUna < q.sent && s.nextRetransmission >= s.lostBelow && len(s.trimmed) == 0 {
		return max(1, s.inFlight)
	}
	return s.inFlight
}

func (t selectiveRepeat) expired(now fabric.Time, q *qp) {
	s := &q.state.selective
	s.nextRetransmission, s.lostBelow = q.sndUna, max(s.lostBelow, s.sentBeforeTimer)
	t.control.losses.lost(now, q, s.inFlight)
	t.reportLosses(now, q, s.sentBeforeTimer)
	t.noteRetransmission(q)
	t.timedOut(now, q)
}

func (t selectiveRepeat) lost(q *qp) {
	s := &q.state.selective
	s.nextRetransmission, s.lostBelow = q.sndUna, q.sent
	t.noteRetransmission(q)
}

func (t selectiveRepeat) repeat(q *qp, packet int32) {
	s := &q.state.selective
	if s.acked.has(packet) || len(s.trimmed) > 0 {
		return
	}
	s.trimmed = append(s.trimmed, packet)
	s.inFlight = max(0, s.inFlight-1)
	q.once = q.sent
}

// noteRetransmission records that packets are retransmitted. Their answers give no round trip, since they may answer
// either copy, and the last packet is still to come.
func (t selectiveRepeat) noteRetransmission(q *qp) {
	q.state.timing.packet, q.once = 0, q.sent
	q.tail.becomeIdle()
	s := &q.state.selective
	s.inFlight = 0
	s.reportedCut.reset()
	q.state.late.forget(-1)
}

// answered processes an ACK of one packet, in MSN, and of all before another.
func (t selectiveRepeat) answered(now fabric.Time, q *qp, p *packet, syndrome frame.Syndrome) {
	cut := syndrome == frame.NAKSequenceError
	if !cut && !syndrome.IsACK() { // its sender is not a receiver of this kind
		t.stats.Malformed++
		return
	}
	s := &q.state.selective
	upTo := q.sndUna + psnDiff(p.psn, q.firstPSN+uint32(q.sndUna)) + 1
	own := q.sndUna + psnDiff(frame.AETH(p.rest).MSN(), q.firstPSN+uint32(q.sndUna))
	if upTo > q.sent || own >= q.sent {
		t.stats.Malformed++
		return
	}
	if cut {
		t.sentCut(now, q, p, own)
		return
	}
	if q.balanced {
		t.cfg.Balancer.Echo(now, q.id, Echo{
			Label: p.label, Marked: p.becn, RTT: q.state.timing.acked(now, own, own+1), Trip: t.tripOfPacket(now, q, own),
		})
	}
	newly, bytes := int32(0), int64(0)
	take := func(i int32) {
		s.acked.add(i)
		newly++
		bytes += q.payload(i, i+1, int64(t.cfg.MTU))
	}
	if own >= q.sndUna && !s.acked.has(own) {
		if t.isLate(q) {
			t.lateAnswered(now, q, own)
		}
		take(own)
	}
	for i := s.acked.next(q.sndUna); i < upTo; i = s.acked.next(i + 1) {
		take(i)
	}
	if newly == 0 {
		t.stats.StaleAcks++
		return
	}
	if p.becn {
		t.stats.Marked++
	}
	before := q.sndUna
	q.sndUna = s.acked.next(before)
	s.acked.forget(q.sndUna)
	s.reportedCut.forget(q.sndUna)
	if s.inFlight = max(0, s.inFlight-newly); q.sndUna == q.sent {
		s.inFlight = 0
	}
	since := q.tail.since
	t.answerCame(now, q)
	t.control.pacer.acked(now, q, p, newly, max(upTo, own+1), false)
	if q.tail.lastIsProbe && own >= q.dataPackets && own == q.sndNxt-1 && t.threshold(q) == 1 {
		s.nextRetransmission, s.lostBelow = q.sndUna, q.sndUna // retransmissions, too, were sent before the answered probe
	}
	if lost := t.markLostUpTo(now, q, own-s.threshold+1); lost > 0 {
		q.once = q.sent
		s.inFlight = max(0, s.inFlight-int32(lost))
		t.control.losses.lost(now, q, int32(lost))
		if id := q.id; t.cfg.Watcher != nil {
			if t.cfg.Watcher.Lost(now, id, Loss{Packets: lost, Since: since}); !q.live || q.id != id {
				return // it was closed
			}
		}
	}
	t.activate(q)
	switch {
	case q.sndUna == q.sent && (q.cwnd > 0 || q.sent == q.totalPackets()):
		q.expireAt = never
	case q.sndUna > before || t.restartsTimer(q):
		t.restart(now, q)
	}
	t.reportAcked(now, q, bytes)
}

// restartsTimer reports whether an answer restarts the timer though the first unacknowledged packet stays the same.
// With one path, any answer does. With several paths, answers by working paths must not hide a dead one: they restart
// the timer only while the first unacknowledged packet is known to be trimmed.
func (t selectiveRepeat) restartsTimer(q *qp) bool {
	return !q.balanced && !t.cfg.Reordered || q.state.selective.reportedCut.has(q.sndUna)
}

// sentCut handles the report that a switch trimmed a packet: it is retransmitted.
func (t selectiveRepeat) sentCut(now fabric.Time, q *qp, p *packet, packet int32) {
	s := &q.state.selective
	if packet < q.sndUna || s.acked.has(packet) {
		t.stats.StaleAcks++
		return
	}
	if q.bytes > 0 { // a probe has no data
		t.stats.NaksTaken++
	}
	if q.balanced {
		t.cfg.Balancer.Echo(now, q.id, Echo{Label: p.label, Marked: true})
	}
	s.trimmed = append(s.trimmed, packet)
	s.reportedCut.add(packet)
	q.state.late.forget(packet)
	s.inFlight = max(0, s.inFlight-1)
	t.control.losses.cut(now, q, packet)
	if t.restartsTimer(q) {
		t.restart(now, q)
	}
	t.activate(q)
	if t.cfg.Watcher != nil && !q.balanced {
		t.answerCame(now, q)
		t.handler.Acked(now, q.id, 0)
	}
}

// markLostUpTo marks the packets below to as lost, unless they are acknowledged, and returns the number of newly lost
// ones.
func (t selectiveRepeat) markLostUpTo(now fabric.Time, q *qp, to int32) (n int) {
	s := &q.state.selective
	for i := s.acked.next(max(s.lostBelow, q.sndUna)); i < to; i = s.acked.next(i + 1) {
		if !s.reportedCut.has(i) {
			n++
			t.reportLost(now, q, i)
		}
	}
	s.lostBelow = max(s.lostBelow, to)
	return n
}

// reportLosses reports all packets below to that are not acknowledged as lost.
func (t selectiveRepeat) reportLosses(now fabric.Time, q *qp, to int32) {
	if t.cfg.Losses == nil {
		return
	}
	for i := q.state.selective.acked.next(q.sndUna); i < to; i = q.state.selective.acked.next(i + 1) {
		t.reportLost(now, q, i)
	}
}
