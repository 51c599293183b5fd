package endpoint

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

// A QP is silent when nothing that it has on the way is answered for longer than its path can need. If other QPs are
// answered, that is evidence against the path: the watcher is notified, and may move the QP. If the watcher leaves it
// where it is, or nobody else is answered either, it may be congestion, or a loss at the end of a message, which shows
// the receiver no gap. The QP then sends a zero-length WRITE behind what it has sent, once: the driver of an RNIC can
// post one as well. The receiver answers it, or asks for what is missing. (After TCP's tail loss probe, RFC 8985.)
// After that the watcher is asked at doubling intervals.

// silences are the QPs that wait for an answer, and what is known of answers.
type silences struct {
	waiting  timers        // by tail.at, or earlier
	answered [2]answer     // the latest, of two QPs
	ways     []int32       // packets on the way, by the uplink that they take first; the last: by none
	gaps     []fabric.Time // how long a full packet of each host below an uplink takes by it

	trip, vary fabric.Time // smoothed round trip of last packets, and its mean deviation, where nobody watches paths
}

// answer is an answer: to what a QP sent at that time, or later.
type answer struct {
	sent fabric.Time
	qp   QP
}

// tail is a QP's wait for an answer.
type tail struct {
	at      fabric.Time // it is silent from then on; never: not waited for
	since   fabric.Time // the first packet that is not answered was sent then, or later
	later   int32       // a packet sent after that one; -1: none is noted
	laterAt fabric.Time // when it was
	probed  fabric.Time // when the probe was sent
	probes  int8        // sent behind the last packet
	tries   int8        // how often it was silent since anything was answered
	moves   int8        // how often it was moved for that
	untimed bool        // it was moved with all sent: what it sends behind its message gives it no more time
	listed  bool        // in silences.waiting
	moved   bool        // since the watcher was asked
	way     int32       // of silences.ways
	count   int32       // what it has there
}

// How often the answer to a last packet is asked for. Worlds that have no packets do the same.
const (
	MaxTailProbes = 1
	MaxTries      = 4 // the patience doubles that often
	// maxMoves is how often a QP is moved without an answer in between. A receiver asks once for what is missing: if that is
	// lost, no path gets an answer, and the timer alone helps.
	maxMoves = 4
)

func (q *qp) noTail() { q.tail.at, q.tail.probes, q.tail.probed = never, 0, fabric.LongAgo }

func (e *Endpoint) openSilences() {
	s := &e.silences
	s.answered = [2]answer{{sent: fabric.LongAgo}, {sent: fabric.LongAgo}}
	f := e.cfg.Fabric
	ways := f.Planes() * f.ToRUplinks()
	s.ways, s.gaps = make([]int32, ways+1), make([]fabric.Time, ways+1)
	spec := f.Spec()
	for u := range ways {
		s.gaps[u] = spec.ToRUplink.Rate.TimeFor(int64(e.full)) * fabric.Time(spec.HostsPerToR)
	}
	s.gaps[ways] = e.fullGap
}

// wayOf returns which of silences.ways packets to a host take that carry a label.
func (e *Endpoint) wayOf(dst fabric.NodeID, l fabric.Label) int32 {
	f := e.cfg.Fabric
	if u, _, ok := f.SplitLabel(l); ok && f.ToROf(dst) != f.ToROf(e.cfg.Host) {
		return int32(u)
	}
	return int32(len(e.silences.ways) - 1)
}

// changeWay takes note that a QP's packets carry another label from now on. It waits anew, from its next packet on.
func (e *Endpoint) changeWay(q *qp, l fabric.Label) {
	if e.cfg.Watcher == nil {
		return
	}
	q.noTail()
	q.tail.moved = true
	u, _, ok := e.cfg.Fabric.SplitLabel(l)
	if !ok || int(q.tail.way) == len(e.silences.ways)-1 {
		return
	}
	e.silences.ways[q.tail.way] -= q.tail.count
	q.tail.way = int32(u)
	e.silences.ways[q.tail.way] += q.tail.count
}

// recount takes note of what a QP has on the way.
func (e *Endpoint) recount(q *qp) {
	n := int32(0)
	if q.live {
		n = e.transport.outstanding(q)
	}
	e.silences.ways[q.tail.way] += n - q.tail.count
	q.tail.count = n
}

// patience returns how long the path of a QP can need for an answer: the round trip of an idle fabric, twice, and the
// time that its uplink takes for what this host has on the way by it, if the others of the rack have as much.
func (e *Endpoint) patience(q *qp) fabric.Time {
	return 2*e.cfg.Trip + fabric.Time(e.silences.ways[q.tail.way])*e.silences.gaps[q.tail.way]
}

// holds says whether so many packets are on a path at most: what the line sends in a
// round trip. To send them again takes no longer than to ask.
func (e *Endpoint) holds(packets int32) bool {
	return fabric.Time(packets)*e.fullGap <= e.cfg.Trip
}

// awaitAnswer has a QP wait that has sent a packet, unless it waits already.
func (e *Endpoint) awaitAnswer(now fabric.Time, q *qp, packet int32) {
	if e.cfg.Watcher == nil {
		e.awaitLast(now, q)
		return
	}
	e.recount(q)
	t := &q.tail
	if t.later < 0 {
		t.later, t.laterAt = packet, now
	}
	anew := t.at == never && e.cfg.Trip > 0
	if t.count == 1 || anew {
		t.since, t.later = now, -1
	}
	if anew && !q.balanced && q.bytes > 0 && !e.isLate(q) { // whether a probe is answered is its owner's affair
		e.waitFor(q, now+e.patience(q)<<t.tries)
	}
}

func (e *Endpoint) waitFor(q *qp, until fabric.Time) {
	if e.cfg.Trip == 0 {
		return
	}
	q.tail.at = until
	if !q.tail.listed {
		q.tail.listed = true
		e.silences.waiting.push(until, q)
	}
}

// answerCame takes note that something of a QP is answered. q.unacked is up to date.
func (e *Endpoint) answerCame(now fabric.Time, q *qp) {
	if e.cfg.Watcher == nil {
		e.lastAnswered(now, q)
		return
	}
	e.recount(q)
	e.remember(answer{q.tail.since, q.id})
	q.tail.probes, q.tail.tries, q.tail.moves, q.tail.probed = 0, 0, 0, fabric.LongAgo
	if q.tail.count == 0 || q.balanced || q.bytes == 0 || e.isLate(q) {
		q.tail.at = never
		return
	}
	if q.tail.later >= 0 && q.unacked >= q.tail.later {
		q.tail.since, q.tail.later = q.tail.laterAt, -1
	}
	e.waitFor(q, now+e.patience(q))
}

// remember keeps an answer.
func (e *Endpoint) remember(h answer) {
	a := &e.silences.answered
	switch {
	case h.qp == a[0].qp:
		a[0].sent = max(a[0].sent, h.sent)
	case h.sent >= a[0].sent:
		a[0], a[1] = h, a[0]
	case h.sent > a[1].sent:
		a[1] = h
	}
}

// othersAnswered reports whether other QPs were answered what they sent since about when the QP did that waits.
func (e *Endpoint) othersAnswered(q *qp) bool {
	h := e.silences.answered[0]
	if h.qp == q.id {
		h = e.silences.answered[1]
	}
	return h.sent > q.tail.since-e.cfg.Trip
}

// noticeSilence does what is due about late answers.
func (e *Endpoint) noticeSilence(now fabric.Time) {
	for {
		at, ok := e.nextSilence()
		if !ok || at > now {
			return
		}
		q := e.silences.waiting.pop()
		q.tail.listed, q.tail.at = false, never
		if e.cfg.Watcher == nil {
			e.probeLast(q)
			continue
		}
		if q.tail.moves < maxMoves && e.othersAnswered(q) {
			id := q.id
			q.tail.moved = false
			e.cfg.Watcher.Unanswered(now, id, hostagent.Silence{
				Since: max(q.tail.since, q.tail.probed), Wait: e.patience(q) << q.tail.tries, Times: int(q.tail.tries),
			})
			if !q.live || q.id != id {
				continue
			}
			if q.tail.moved {
				q.tail.moves++
				continue
			}
		}
		if _, more := e.transport.pick(q); !more && q.nextOut == q.total() && q.tail.probes < MaxTailProbes {
			q.tail.probed = now
			e.probeLast(q)
		}
		q.tail.tries = min(q.tail.tries+1, MaxTries)
		e.waitFor(q, now+e.patience(q)<<q.tail.tries)
	}
}

// probeLast has a QP send a zero-length WRITE behind its last packets, once.
func (e *Endpoint) probeLast(q *qp) {
	if q.tail.probes >= MaxTailProbes {
		return
	}
	q.tail.probes++
	q.nudges++
	e.stats.Nudges++
	e.stats.TailProbes++
	e.activate(q)
}

// awaitLast has a QP whose paths nobody watches wait for the answer to its last packet, if that is sent. The patience is
// two round trips of last packets so far, and four times their variation.
func (e *Endpoint) awaitLast(now fabric.Time, q *qp) {
	if _, more := e.transport.pick(q); more || q.nextOut < q.total() || q.balanced || q.bytes == 0 || e.isLate(q) {
		return
	}
	if q.tail.probes == 0 {
		q.tail.since = now
	}
	e.waitFor(q, now+e.lastPatience()<<q.tail.probes)
}

func (e *Endpoint) lastPatience() fabric.Time {
	return 2*max(e.cfg.Trip, e.silences.trip) + 4*e.silences.vary
}

// lastAnswered takes note of an answer to a QP whose paths nobody watches.
func (e *Endpoint) lastAnswered(now fabric.Time, q *qp) {
	if q.tail.at == never {
		return
	}
	if q.unacked < q.data {
		e.waitFor(q, now+e.lastPatience())
		return
	}
	if q.once > 0 || q.tail.probes > 0 {
		return // it can be the answer to either copy
	}
	t, trip := &e.silences, now-q.tail.since
	if t.trip == 0 {
		t.trip = trip
	}
	t.vary += (max(trip-t.trip, t.trip-trip) - t.vary) / 4 // RFC 6298's constants
	t.trip += (trip - t.trip) / 8
}

// nextSilence returns when the next answer is late.
func (e *Endpoint) nextSilence() (fabric.Time, bool) {
	for len(e.silences.waiting) > 0 {
		t := e.silences.waiting[0]
		switch {
		case !t.qp.live || t.qp.tail.at == never:
			t.qp.tail.listed = false
			e.silences.waiting.pop()
		case t.qp.tail.at > t.at:
			e.silences.waiting.postpone(t.qp.tail.at)
		default:
			return t.at, true
		}
	}
	return 0, false
}

// IdleTrip returns the round trip of a full packet over a fabric's longest path, when
// nothing else is on the way.
func IdleTrip(f *fabric.Fabric, mtu int) (trip fabric.Time) {
	const headers = 102 // of IPv6, framing included
	s := f.Spec()
	links := []fabric.LinkSpec{s.HostLink, s.ToRUplink}
	if f.ThreeTier() {
		links = append(links, s.AggUplink)
	}
	for _, l := range links { // up and down, there and back
		trip += 4*l.Delay + 2*l.Rate.TimeFor(int64(mtu)+headers) + 2*l.Rate.TimeFor(headers)
	}
	return trip
}
