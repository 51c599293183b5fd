package transport

import "github.com/ethereal-fabric/ethereal/fabric"

// Loss detection by time, for QPs whose packets take several paths: a missing packet may be late, so later arrivals
// do not show its loss. After RACK-TLP (RFC 8985), a packet is lost when a later sent one is answered, and its own
// answer has not come within the time that is allowed for the last packets of a QP with one path ([silences]):
// twice the round trip so far plus four times its variation. If nothing sent later is answered, a zero-length WRITE
// is sent behind the last packets; if that is not answered either, the waiting packets count as lost, at doubling
// intervals.
//
// The receivers keep packets and acknowledge each; the sender retransmits only lost ones.

// lateDetectors are the QPs that wait for answers in this way.
type lateDetectors struct {
	waiting    timerHeap   // by late.at, or earlier
	fabric.RTT             // of packets sent once
	latest     fabric.Time // of these, the latest answered one's round trip
	byPath     bool        // see falcon.go
}

// lateDetector has a QP's packets in flight.
type lateDetector struct {
	at         fabric.Time // when to check again; never: nothing is in flight
	newest     fabric.Time // sending time of the latest answered packet
	emptyWaits int8        // number of waits without an answer to anything sent later
	listed     bool        // in lates.waiting, by queued or earlier
	queued     fabric.Time
	inFlight   []departedPacket // in order of sending
	paths      []newestAnswer   // by path, if lates.byPath
}

// departedPacket is a packet in flight.
type departedPacket struct {
	packet        int32        // -1: answered
	retransmitted bool         // it is a retransmission
	label         fabric.Label // if lates.byPath
	at            fabric.Time
}

// maxSilence bounds the doublings of the time allowed.
const maxSilence = 4

// isLate reports whether losses of the QP are detected by time.
func (e *Endpoint) isLate(q *qp) bool {
	return e.cfg.LateLoss && (q.balanced || e.cfg.Reordered) && q.bytes > 0 && !q.untimed
}

func (l *lateDetector) open() {
	l.at, l.newest, l.emptyWaits, l.inFlight, l.paths = never, fabric.LongAgo, 0, l.inFlight[:0], l.paths[:0]
}

// latePatience returns the time allowed for a packet's answer.
func (e *Endpoint) latePatience() fabric.Time {
	if e.lateDetectors.SRTT == 0 {
		return 4 * e.cfg.Trip
	}
	return 2*max(e.cfg.Trip, e.lateDetectors.SRTT) + 4*e.lateDetectors.RTTVar
}

// lateSent records that a packet was sent.
func (e *Endpoint) lateSent(now fabric.Time, q *qp, packet int32, again bool) {
	l := &q.state.late
	d := departedPacket{packet: packet, retransmitted: again, at: now}
	if e.lateDetectors.byPath {
		if s := q.state.sentPackets.find(packet); s != nil {
			d.label = s.label
		}
	}
	l.inFlight = append(l.inFlight, d)
	if l.at == never {
		e.lateAt(q, now+e.soonestLoss())
	}
}

// soonestLoss returns the time after which a packet can count as lost.
func (e *Endpoint) soonestLoss() fabric.Time {
	if e.lateDetectors.byPath {
		return min(e.rackTime(), e.latePatience())
	}
	return e.latePatience()
}

func (e *Endpoint) lateAt(q *qp, at fabric.Time) {
	l := &q.state.late
	if l.at = at; !l.listed || at < l.queued {
		l.listed, l.queued = true, at
		e.lateDetectors.waiting.push(at, q)
	}
}

// lateAnswered records the answer to a packet, before the packet counts as acknowledged.
func (e *Endpoint) lateAnswered(now fabric.Time, q *qp, packet int32) {
	l := &q.state.late
	for i := range l.inFlight {
		d := &l.inFlight[i]
		if d.packet != packet {
			continue
		}
		trip := now - d.at
		if d.retransmitted && trip < e.cfg.Trip {
			return // the answer is to an earlier copy of the packet
		}
		if l.newest = max(l.newest, d.at); l.emptyWaits > 0 {
			l.emptyWaits = 0
			e.lateAt(q, now)
		}
		d.packet = -1
		if e.lateDetectors.byPath {
			l.answeredOn(d.label, d.at)
		}
		if d.retransmitted {
			return
		}
		e.lateDetectors.Sample(trip)
		e.lateDetectors.latest = trip
		return
	}
}

// forget removes a packet, or all if it is -1, from those in flight: it will be retransmitted.
func (l *lateDetector) forget(packet int32) {
	if packet < 0 {
		l.inFlight = l.inFlight[:0]
	}
	for i := range l.inFlight {
		if l.inFlight[i].packet == packet {
			l.inFlight[i].packet = -1
		}
	}
}

// settle drops answered packets from the front of those in flight.
func (l *lateDetector) settle(q *qp) {
	n := 0
	for n < len(l.inFlight) && (l.inFlight[n].packet < q.sndUna || q.state.selective.acked.has(l.inFlight[n].packet)) {
		n++
	}
	if n > 0 {
		l.inFlight = l.inFlight[:copy(l.inFlight, l.inFlight[n:])]
	}
}

// findLate declares packets lost whose answers are overdue, by time.
func (e *Endpoint) findLate(now fabric.Time) {
	for {
		at, ok := e.nextLate()
		if !ok || at > now {
			return
		}
		q := e.lateDetectors.waiting.pop()
		q.state.late.listed, q.state.late.at = false, never
		e.lookForLate(now, q)
	}
}

// lookForLate detects a QP's lost packets.
func (e *Endpoint) lookForLate(now fabric.Time, q *qp) {
	l := &q.state.late
	if l.settle(q); len(l.inFlight) == 0 {
		return // the next packets will be waited for
	}
	patience, soonest, first := e.latePatience(), e.soonestLoss(), l.inFlight[0].at
	if due := first + soonest; now < due {
		e.lateAt(q, due)
		return
	}
	silent := l.newest <= first
	if silent && now < first+patience {
		e.lateAt(q, first+patience)
		return
	}
	if silent {
		_, more := e.transport.pick(q)
		if more && q.sndNxt < q.totalPackets() { // retransmissions wait for their turn: an answer to later packets will show
			e.lateAt(q, now+patience)
			return
		}
		l.emptyWaits = min(l.emptyWaits+1, maxSilence)
		if l.emptyWaits == 1 {
			if q.sndNxt == q.totalPackets() { // otherwise the window is full
				e.stats.TailProbes++
				e.wakeQP(q)
			}
			e.lateAt(q, now+patience)
			return
		}
	}
	lost, next := int32(0), never
	for i := range l.inFlight {
		d := &l.inFlight[i]
		if d.at+soonest > now {
			next = min(next, d.at+soonest)
			break
		}
		switch {
		case d.packet < q.sndUna || q.state.selective.acked.has(d.packet):
			continue
		case d.at+patience > now && !l.passed(d): // only if soonest is less
			next = min(next, d.at+patience)
			continue
		case !silent && d.at >= l.newest:
			continue
		}
		e.sendLateAgain(now, q, d.packet)
		d.packet = -1
		lost++
	}
	if lost > 0 {
		q.once = q.sent
		e.control.losses.lost(now, q, lost)
		e.activate(q)
	}
	if silent {
		e.lateAt(q, now+patience<<l.emptyWaits)
	} else if l.settle(q); len(l.inFlight) > 0 {
		e.lateAt(q, max(now, min(next, l.inFlight[0].at+patience)))
	}
}

// sendLateAgain retransmits a lost packet.
func (e *Endpoint) sendLateAgain(now fabric.Time, q *qp, packet int32) {
	s := &q.state.selective
	e.reportLost(now, q, packet)
	s.trimmed = append(s.trimmed, packet)
	s.reportedCut.add(packet)
	s.inFlight = max(0, s.inFlight-1)
}

// nextLate returns the time of the next check.
func (e *Endpoint) nextLate() (fabric.Time, bool) {
	for len(e.lateDetectors.waiting) > 0 {
		t := e.lateDetectors.waiting[0]
		switch {
		case !t.qp.live || t.qp.state.late.at == never:
			t.qp.state.late.listed = false
			e.lateDetectors.waiting.pop()
		case t.qp.state.late.at > t.at:
			e.lateDetectors.waiting.postpone(t.qp.state.late.at)
		default:
			return t.at, true
		}
	}
	return 0, false
}
