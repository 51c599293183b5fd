package endpoint

import "github.com/ethereal-fabric/ethereal/fabric"

// A QP whose last packets are lost shows its receiver no gap. When their answer is
// late, by this endpoint's round trips so far, the QP sends a zero-length WRITE behind
// them, once: the driver of an RNIC can post one as well. The receiver answers it, or
// asks for what is missing. (After TCP's tail loss probe, RFC 8985.) When that is not
// answered either the watcher is notified: now, and at doubling intervals.
//
// tails are the QPs that have sent all they have and wait for an answer.
type tails struct {
	waiting timers      // by tail.at, or earlier
	trip    fabric.Time // smoothed round trip of last packets; 0: none was measured
	vary    fabric.Time // its mean deviation

	answered fabric.Time // when the latest last packet was sent that any peer has answered
}

// tail is a QP's wait for the answer to its last packet.
type tail struct {
	at     fabric.Time // it is late from then on; never: not waited for
	sent   fabric.Time // the last packet of the message
	probes int8        // sent behind it
	alone  int8        // how often they were not answered, nor were others to the peer
	listed bool        // in tails.waiting
}

// How often the answer to a last packet is asked for. Worlds that have no packets do the same.
const (
	MaxTailProbes = 1
	MaxAlone      = 4 // and packets are retransmitted that often only because nothing to the peer is answered
)

func (q *qp) noTail() { q.tail.at, q.tail.probes = never, 0 }

// roundTrip returns that of last packets so far. 0: it is not known.
func (e *Endpoint) roundTrip() fabric.Time { return max(e.cfg.Trip, e.tails.trip) }

// patience returns how long the answer to a last packet is waited for.
func (e *Endpoint) patience() fabric.Time { return 2*e.roundTrip() + 4*e.tails.vary }

// holds says whether so many packets are on a path at most: what the line sends in a
// round trip. To send them again takes no longer than to ask.
func (e *Endpoint) holds(packets int32) bool {
	return fabric.Time(packets)*e.fullGap <= e.roundTrip()
}

// tailSent takes the word that a QP has sent all that it has.
func (e *Endpoint) tailSent(now fabric.Time, q *qp) {
	if e.cfg.Trip == 0 || q.balanced || q.bytes == 0 || e.isLate(q) {
		return // of a probe its owner wants to know whether it is answered
	}
	if q.tail.probes == 0 {
		q.tail.sent = now
	}
	e.tailWaits(q, now+e.patience()<<(q.tail.probes+q.tail.alone))
}

func (e *Endpoint) tailWaits(q *qp, until fabric.Time) {
	q.tail.at = until
	if !q.tail.listed {
		q.tail.listed = true
		e.tails.waiting.push(until, q)
	}
}

// tailAnswered takes the word that all packets up to one are answered for.
func (e *Endpoint) tailAnswered(now fabric.Time, q *qp, upTo int32) {
	if q.tail.at == never {
		return
	}
	if upTo < q.data { // there is progress
		e.tailWaits(q, now+e.patience())
		return
	}
	if q.once > 0 {
		return // it can be the answer to either copy
	}
	t, p, trip := &e.tails, &e.peers[q.peer], now-q.tail.sent
	p.answered, t.answered = max(p.answered, q.tail.sent), max(t.answered, q.tail.sent)
	if q.tail.probes > 0 {
		return
	}
	if t.trip == 0 {
		t.trip = trip
	}
	t.vary += (max(trip-t.trip, t.trip-trip) - t.vary) / 4 // RFC 6298's constants
	t.trip += (trip - t.trip) / 8
}

// probeTails does what is due about late answers.
func (e *Endpoint) probeTails(now fabric.Time) {
	for {
		at, ok := e.nextTail()
		if !ok || at > now {
			return
		}
		q := e.tails.waiting.pop()
		q.tail.listed, q.tail.at = false, never
		if q.tail.probes < MaxTailProbes {
			q.tail.probes++
			q.nudges++
			e.stats.Nudges++
			e.stats.TailProbes++
			e.activate(q)
			continue
		}
		if e.cfg.Watcher == nil {
			continue
		}
		a := e.peers[q.peer].answered
		others := a > 0 && a > q.tail.sent-e.patience()
		if !others {
			again := q.tail.alone < MaxAlone
			q.tail.alone = min(q.tail.alone+1, MaxAlone)
			if !again || e.tails.answered <= q.tail.sent || !e.holds(q.sent-q.unacked) {
				// Nobody answers, or it is much to send again for a guess.
				e.tailWaits(q, now+e.patience()<<(1+q.tail.alone))
				continue
			}
		}
		e.cfg.Watcher.Unanswered(now, q.id, others)
	}
}

// nextTail returns when the next answer is late.
func (e *Endpoint) nextTail() (fabric.Time, bool) {
	for len(e.tails.waiting) > 0 {
		t := e.tails.waiting[0]
		switch {
		case !t.qp.live || t.qp.tail.at == never:
			t.qp.tail.listed = false
			e.tails.waiting.pop()
		case t.qp.tail.at > t.at:
			e.tails.waiting.postpone(t.qp.tail.at)
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
