package transport

import (
	"github.com/ethereal-fabric/ethereal/fabric"
)

// A QP's answer is overdue when a round trip of the idle fabric has passed since its last answer, or, if nothing was
// on the way then, since it sent a packet that asks for one. That happens wherever data wait, so it is evidence of
// nothing. The watcher is notified, which asks the path; see [Endpoint.Ask].
//
// If the QP has sent everything, a loss at the end of its message shows the receiver no gap. After the time of
// RFC 8985's tail loss probe, but an eighth of the retransmission timer at most, the QP sends a zero-length
// WRITE behind what it has sent: the driver of an RNIC can post one as well. The receiver answers it, or asks for what
// is missing. A QP whose window is shut sends its next packet instead, beyond the window, as RFC 9002's probes are.
// Such probes are repeated, at doubling intervals, since a path that was dead when one was sent can be alive now. They
// do not restart the retransmission timer.

// overdueQueue are the QPs that wait for an answer.
type overdueQueue struct {
	waiting    timerHeap // QPs whose tail waits; see tail
	fabric.RTT           // of packets that asked for an ACK, sent once
}

// tailProbe is a QP's wait for an answer. It is in one of these states:
//
//	idle      No answer is awaited, or the probe to wait for has not left yet. due is never.
//	waiting   An answer is awaited. due is when to act if none comes. The QP is listed: at due, or at an earlier
//	wait's time,
//	          which can be later than due after an answer that ended doubled waits. Then it acts that late.
//
// probes is 0 until the QP probes: then all else that it has sent was sent before, and probes and tries double the
// waits. An answer ends probing; so do a retransmission and a new path, after which the QP waits anew from its next
// packet on.
type tailProbe struct {
	due         fabric.Time
	from        fabric.Time // waiting: time of the last answer, or of the first packet after it that asks for one; at most due
	probes      int8        // sent behind what was in flight, since the last answer; 0 to maxTailProbes
	doublings   int8        // doublings of the wait since the last answer; 0 to maxTries
	lastIsProbe bool        // the packet sent last is a probe
	sendLimit   int32       // packets below may be sent though the window is shut; the last of them is a probe
	listed      bool        // in overdues.waiting; true while waiting

	ackAskedBy int32       // 1 + the latest packet that asks for an answer; at most qp.sent
	since      fabric.Time // the first packet that is not answered was sent then, or later
	trip       rttSample
}

// rttSample is the measurement of one round trip at a time: packet and time of sending; packet -1: none is in progress.
type rttSample struct {
	packet int32
	sent   fabric.Time
}

func (t *tailProbe) idle() bool { return t.due == never }

// open makes the tail that of a new QP.
func (t *tailProbe) open() {
	t.becomeIdle()
	t.ackAskedBy, t.trip.packet = 0, -1
}

// becomeIdle ends the wait and the probing.
func (t *tailProbe) becomeIdle() {
	t.due, t.from, t.probes, t.doublings, t.lastIsProbe, t.sendLimit = never, never, 0, 0, false, 0
}

// becomeWaiting makes a QP wait until a time. Without [Config].Trip no QP waits.
func (e *Endpoint) becomeWaiting(q *qp, until fabric.Time) {
	if e.cfg.Trip == 0 {
		return
	}
	q.tail.due = until
	if !q.tail.listed {
		q.tail.listed = true
		e.overdueQueue.waiting.push(until, q)
	}
}

const (
	maxTries      = 6 // maximum number of probes; the wait doubles after each
	maxTailProbes = 8 // without an answer in between, if paths are watched; otherwise 1
)

// tripTo returns the round trip of a full packet to a QP's destination through the idle fabric.
func (e *Endpoint) tripTo(q *qp) fabric.Time { return e.peers[q.peer].trip }

// tripOf computes tripTo for a host.
func (e *Endpoint) tripOf(dst fabric.NodeID) fabric.Time {
	if e.cfg.Trip > e.longestTrip {
		return e.cfg.Trip // wires are not the slowest part
	}
	return e.cfg.Fabric.RoundTrip(e.cfg.Host, dst, int64(e.cfg.MTU+e.cfg.Outer+packetOverhead), packetOverhead)
}

// awaitAnswer makes a QP wait for the answer to a packet that it has sent, unless it waits already.
func (e *Endpoint) awaitAnswer(now fabric.Time, q *qp, packet int32, asks bool) {
	t := &q.tail
	t.lastIsProbe = packet >= q.dataPackets
	if e.cfg.Watcher == nil {
		e.awaitLast(now, q)
		return
	}
	if !asks {
		return
	}
	t.ackAskedBy = max(t.ackAskedBy, packet+1)
	switch {
	case t.idle():
		if packet == q.sndUna {
			t.since = now
		}
		if t.trip = (rttSample{packet, now}); e.isWatched(q) {
			t.from = now
			e.becomeWaiting(q, now+e.probeTimeout(q))
		}
	case t.trip.packet < 0:
		t.trip = rttSample{packet, now}
	}
}

// probeTimeout returns the time after which a QP's acknowledgement is overdue.
func (e *Endpoint) probeTimeout(q *qp) fabric.Time {
	return max(e.tripTo(q)*3/2, min(e.overdueQueue.SRTT+4*e.overdueQueue.RTTVar, e.cfg.RTO/8))
}

// isWatched reports whether the watcher is notified of the QP's overdue answers.
func (e *Endpoint) isWatched(q *qp) bool {
	return e.cfg.Trip > 0 && !q.balanced && q.bytes > 0 && !e.isLate(q)
}

// answerCame processes an answer to a QP. q.sndUna is up to date.
func (e *Endpoint) answerCame(now fabric.Time, q *qp) {
	if e.cfg.Watcher == nil {
		e.lastAnswered(now, q)
		return
	}
	t := &q.tail
	t.probes, t.doublings, t.sendLimit = 0, 0, 0
	if t.trip.packet >= 0 && q.sndUna > t.trip.packet {
		if t.trip.packet >= q.once {
			e.overdueQueue.Sample(now - t.trip.sent)
		}
		t.since, t.trip.packet = t.trip.sent, -1
	}
	if t.due = never; t.ackAskedBy > q.sndUna && e.transport.outstanding(q) > 0 && e.isWatched(q) {
		t.from = now
		e.becomeWaiting(q, now+e.probeTimeout(q))
	}
}

// noticeOverdue does what is due about overdue answers.
func (e *Endpoint) noticeOverdue(now fabric.Time) {
	for {
		at, ok := e.nextOverdue()
		if !ok || at > now {
			return
		}
		q := e.overdueQueue.waiting.pop()
		q.tail.listed, q.tail.due = false, never
		if e.cfg.Watcher == nil {
			e.probeTail(q, 1)
			continue
		}
		id, from := q.id, q.tail.from
		e.cfg.Watcher.Overdue(now, id, Overdue{Since: from, Probes: int(q.tail.probes)})
		if !q.live || q.id != id || !q.tail.idle() || q.tail.from != from {
			continue
		}
		trip := e.tripTo(q)
		probeAt := from + max(2*trip, min(e.overdueQueue.SRTT+4*e.overdueQueue.RTTVar, e.cfg.RTO/8))<<q.tail.probes
		next := now + max(e.probeTimeout(q), trip<<q.tail.doublings)
		switch _, more := e.transport.pick(q); {
		case now < probeAt:
			next = min(next, probeAt)
		case !more:
			e.probeTail(q, maxTailProbes)
		case q.tail.ackAskedBy > q.tail.sendLimit && q.tail.probes < maxTailProbes: // what was sent since is as good as a probe
			q.tail.probes++
			q.tail.sendLimit = q.tail.ackAskedBy
		}
		q.tail.doublings = min(q.tail.doublings+1, maxTries)
		e.becomeWaiting(q, next)
	}
}

// probeTail makes a QP send a probe behind the packets that it has sent.
func (e *Endpoint) probeTail(q *qp, most int8) {
	if q.tail.probes >= most {
		return
	}
	q.tail.probes++
	e.stats.TailProbes++
	e.wakeQP(q)
}

// awaitLast makes a QP whose paths nobody watches wait for the answer to its last packet, if that is sent.
func (e *Endpoint) awaitLast(now fabric.Time, q *qp) {
	if _, more := e.transport.pick(q); more || q.sndNxt < q.totalPackets() || q.balanced || q.bytes == 0 || e.isLate(q) {
		return
	}
	if q.tail.probes == 0 {
		q.tail.since = now
	}
	e.becomeWaiting(q, now+e.lastPatience()<<q.tail.probes)
}

func (e *Endpoint) lastPatience() fabric.Time {
	return 2*max(e.cfg.Trip, e.overdueQueue.SRTT) + 4*e.overdueQueue.RTTVar
}

// lastAnswered processes an answer to a QP whose paths nobody watches.
func (e *Endpoint) lastAnswered(now fabric.Time, q *qp) {
	switch {
	case q.tail.idle():
	case q.sndUna < q.dataPackets:
		e.becomeWaiting(q, now+e.lastPatience())
	case q.once == 0 && q.tail.probes == 0: // otherwise it can be the answer to either copy
		if e.overdueQueue.SRTT == 0 {
			e.overdueQueue.SRTT, e.overdueQueue.Samples = now-q.tail.since, 1 // without a variation
		}
		e.overdueQueue.Sample(now - q.tail.since)
	}
}

// nextOverdue returns when the next answer is overdue.
func (e *Endpoint) nextOverdue() (fabric.Time, bool) {
	for len(e.overdueQueue.waiting) > 0 {
		t := e.overdueQueue.waiting[0]
		switch {
		case !t.qp.live || t.qp.tail.idle():
			t.qp.tail.listed = false
			e.overdueQueue.waiting.pop()
		case t.qp.tail.due > t.at:
			e.overdueQueue.waiting.postpone(t.qp.tail.due)
		default:
			return t.at, true
		}
	}
	return 0, false
}

// packetOverhead is the number of bytes of a packet's headers, with IPv6 and what the wire adds.
const packetOverhead = 102

// IdleTrip returns the round-trip time of a full packet (mtu bytes of payload) over the longest path of an idle fabric.
func IdleTrip(f *fabric.Fabric, mtu int) fabric.Time {
	return f.LongestRoundTrip(int64(mtu)+packetOverhead, packetOverhead)
}
