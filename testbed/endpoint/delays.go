package endpoint

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
)

// delays is what rate controls have in common that go by how long packets queue: each
// packet's round trip is measured that was sent once, and is answered by itself.
type delays struct {
	*Endpoint
	trip   fabric.Time // of a full packet over the longest path, when nothing else is on the way
	target fabric.Time // of queueing
}

func newDelays(e *Endpoint) delays {
	d := delays{e, e.cfg.Trip, e.cfg.TargetDelay}
	if d.trip == 0 {
		d.trip = IdleTrip(e.cfg.Fabric, e.cfg.MTU+e.cfg.Outer)
	}
	if d.target == 0 {
		d.target = d.trip * 3 / 4
	}
	return d
}

// product returns the bytes that the line sends in a round trip.
func (c delays) product(trip fabric.Time) int64 {
	const some = 1e6
	return int64(trip) * some / int64(c.cfg.LineRate.TimeFor(some))
}

// sent implements [meter].
func (c delays) sent(now fabric.Time, q *qp, packet int32, _ int64) {
	q.state.sentAt.put(packet, now, q.unacked)
}

// measure returns the round trip of the packet that an answer is for. ok is false if it
// is not known.
func (c delays) measure(now fabric.Time, q *qp, p *packet, at int32) (trip fabric.Time, ok bool) {
	own := at - 1
	if c.cfg.Receiver != GoBackN {
		own = q.unacked + psnDiff(rocev2.AETH(p.rest).MSN(), q.firstPSN+uint32(q.unacked))
	}
	sent, ok := q.state.sentAt.take(own)
	return now - sent, ok
}

// outstanding returns how many packets are on the way.
func (c delays) outstanding(q *qp) int32 {
	if c.cfg.Receiver == GoBackN {
		return q.nextOut - q.unacked
	}
	return q.state.selective.onTheWay
}

// sendTimes is when packets were sent, for those that are on the way: a ring that grows.
type sendTimes []sendTime

type sendTime struct {
	packet int32       // + 1; 0: none
	at     fabric.Time // never: it was sent twice, and either can be the one that is answered
}

// maxSendTimes bounds the ring: packets beyond are not timed.
const maxSendTimes = 1 << 14

func (s *sendTimes) reset() { clear(*s) }

func (s sendTimes) slot(packet int32) *sendTime { return &s[int(packet)&(len(s)-1)] }

// put notes that a packet was sent. Packets below unacked are of no interest any more.
func (s *sendTimes) put(packet int32, now fabric.Time, unacked int32) {
	for {
		if len(*s) > 0 {
			t := s.slot(packet)
			switch {
			case t.packet == packet+1:
				t.at = never
				return
			case t.packet <= unacked || len(*s) == maxSendTimes:
				*t = sendTime{packet + 1, now}
				return
			}
		}
		old := *s
		*s = make(sendTimes, max(8, 2*len(old)))
		for _, t := range old {
			if t.packet > unacked {
				*s.slot(t.packet - 1) = t
			}
		}
	}
}

// take returns when a packet was sent, and forgets it. ok is false if that is not known.
func (s *sendTimes) take(packet int32) (at fabric.Time, ok bool) {
	if len(*s) == 0 {
		return 0, false
	}
	t := s.slot(packet)
	if t.packet != packet+1 {
		return 0, false
	}
	t.packet = 0
	return t.at, t.at != never
}
