package endpoint

import "github.com/ethereal-fabric/ethereal/fabric"

// Loss detection by time, for QPs whose packets take several paths: a packet that is missing may be late, so later ones
// that have arrived do not show. After RACK-TLP (RFC 8985) a packet is lost when one that was sent later is answered and
// its own answer has been waited for as long as the last packets of a QP with one path are ([silences]): twice the round trip
// so far and four times its variation. Where nothing that was sent later is answered, a zero-length WRITE is sent behind
// the last packets; if that is not answered either, what waits is taken for lost, at doubling intervals.
//
// The receivers keep packets and acknowledge each; the sender sends again what is lost and nothing else.

// lates are the QPs that wait for answers so.
type lates struct {
	waiting timers      // by late.at, or earlier
	trip    fabric.Time // smoothed round trip of packets sent once; 0: none was measured
	vary    fabric.Time // its mean deviation
}

// late is what a QP has on the way.
type late struct {
	at     fabric.Time // when to look again; never: nothing is on the way
	newest fabric.Time // when the latest packet was sent that is answered
	probed int8        // how often nothing was answered that was sent later
	listed bool        // in lates.waiting, by queued or earlier
	queued fabric.Time
	out    []departed // in order of sending
}

// departed is a packet on the way.
type departed struct {
	packet int32 // -1: it has been answered for
	again  bool  // it was sent before
	at     fabric.Time
}

// maxSilence bounds how often the patience with a QP doubles.
const maxSilence = 4

// isLate reports whether losses of the QP are found by time.
func (e *Endpoint) isLate(q *qp) bool {
	return e.cfg.LateLoss && (q.balanced || e.cfg.Reordered) && q.bytes > 0 && !q.untimed
}

func (l *late) open() { l.at, l.newest, l.probed, l.out = never, fabric.LongAgo, 0, l.out[:0] }

// latePatience returns how long a packet's answer is waited for.
func (e *Endpoint) latePatience() fabric.Time {
	if e.lates.trip == 0 {
		return 4 * e.cfg.Trip
	}
	return 2*max(e.cfg.Trip, e.lates.trip) + 4*e.lates.vary
}

// lateSent notes that a packet was sent.
func (e *Endpoint) lateSent(now fabric.Time, q *qp, packet int32, again bool) {
	l := &q.state.late
	l.out = append(l.out, departed{packet, again, now})
	if l.at == never {
		e.lateAt(q, now+e.latePatience())
	}
}

func (e *Endpoint) lateAt(q *qp, at fabric.Time) {
	l := &q.state.late
	if l.at = at; !l.listed || at < l.queued {
		l.listed, l.queued = true, at
		e.lates.waiting.push(at, q)
	}
}

// lateAnswered notes that the answer to a packet has come, before the packet counts as acknowledged.
func (e *Endpoint) lateAnswered(now fabric.Time, q *qp, packet int32) {
	l := &q.state.late
	for i := range l.out {
		d := &l.out[i]
		if d.packet != packet {
			continue
		}
		trip := now - d.at
		if d.again && trip < e.cfg.Trip {
			return // it is the answer to the packet as it was sent before
		}
		if l.newest = max(l.newest, d.at); l.probed > 0 {
			l.probed = 0
			e.lateAt(q, now)
		}
		d.packet = -1
		if d.again {
			return
		}
		t := &e.lates
		if t.trip == 0 {
			t.trip, t.vary = trip, trip/2
			return
		}
		t.vary += (max(trip-t.trip, t.trip-trip) - t.vary) / 4 // RFC 6298's constants
		t.trip += (trip - t.trip) / 8
		return
	}
}

// forget takes a packet, or all if it is -1, from those on the way: it will be sent again.
func (l *late) forget(packet int32) {
	if packet < 0 {
		l.out = l.out[:0]
	}
	for i := range l.out {
		if l.out[i].packet == packet {
			l.out[i].packet = -1
		}
	}
}

// settle drops what is answered from the front of what is on the way.
func (l *late) settle(q *qp) {
	n := 0
	for n < len(l.out) && (l.out[n].packet < q.unacked || q.state.selective.acked.has(l.out[n].packet)) {
		n++
	}
	if n > 0 {
		l.out = l.out[:copy(l.out, l.out[n:])]
	}
}

// findLate does what is due.
func (e *Endpoint) findLate(now fabric.Time) {
	for {
		at, ok := e.nextLate()
		if !ok || at > now {
			return
		}
		q := e.lates.waiting.pop()
		q.state.late.listed, q.state.late.at = false, never
		e.lookForLate(now, q)
	}
}

// lookForLate takes for lost what is late, of a QP.
func (e *Endpoint) lookForLate(now fabric.Time, q *qp) {
	l := &q.state.late
	if l.settle(q); len(l.out) == 0 {
		return // what it sends next is waited for
	}
	patience, first := e.latePatience(), l.out[0].at
	if due := first + patience; now < due {
		e.lateAt(q, due)
		return
	}
	silent := l.newest <= first
	if silent {
		_, more := e.transport.pick(q)
		if more && q.nextOut < q.total() { // it waits for its turn: an answer to what follows will tell
			e.lateAt(q, now+patience)
			return
		}
		l.probed = min(l.probed+1, maxSilence)
		if l.probed == 1 && q.nextOut == q.total() {
			q.nudges++
			e.stats.Nudges++
			e.stats.TailProbes++
			e.activate(q)
			e.lateAt(q, now+patience)
			return
		}
	}
	lost := int32(0)
	for i := range l.out {
		d := &l.out[i]
		if d.at+patience > now {
			break
		}
		if d.packet < q.unacked || q.state.selective.acked.has(d.packet) || !silent && d.at >= l.newest {
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
		e.lateAt(q, now+patience<<l.probed)
	} else if l.settle(q); len(l.out) > 0 {
		e.lateAt(q, max(now, l.out[0].at+patience))
	}
}

// sendLateAgain has a lost packet sent again.
func (e *Endpoint) sendLateAgain(now fabric.Time, q *qp, packet int32) {
	s := &q.state.selective
	e.reportLost(now, q, packet)
	s.cut = append(s.cut, packet)
	s.reportedCut.add(packet)
	s.onTheWay = max(0, s.onTheWay-1)
}

// nextLate returns when to look next.
func (e *Endpoint) nextLate() (fabric.Time, bool) {
	for len(e.lates.waiting) > 0 {
		t := e.lates.waiting[0]
		switch {
		case !t.qp.live || t.qp.state.late.at == never:
			t.qp.state.late.listed = false
			e.lates.waiting.pop()
		case t.qp.state.late.at > t.at:
			e.lates.waiting.postpone(t.qp.state.late.at)
		default:
			return t.at, true
		}
	}
	return 0, false
}
