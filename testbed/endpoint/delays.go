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

// measured says that round trips are wanted.
func (delays) measured() {}

func newDelays(e *Endpoint) delays {
	d := delays{e, e.idleTrip(), e.cfg.TargetDelay}
	if d.target == 0 {
		d.target = d.trip * 3 / 4
	}
	return d
}

// measure returns the round trip of the packet that an answer is for. ok is false if it
// is not known.
func (c delays) measure(now fabric.Time, q *qp, p *packet, at int32) (trip fabric.Time, ok bool) {
	sent, ok := q.state.sends.take(c.answeredBy(q, p, at))
	return now - sent.at, ok && sent.at != never
}

// answeredBy returns the packet that an answer is for: the last of those it acknowledges, or the one it names.
func (e *Endpoint) answeredBy(q *qp, p *packet, at int32) int32 {
	if e.cfg.Receiver == GoBackN {
		return at - 1
	}
	return q.unacked + psnDiff(rocev2.AETH(p.rest).MSN(), q.firstPSN+uint32(q.unacked))
}

// outstanding returns how many packets are on the way.
func (c delays) outstanding(q *qp) int32 {
	if c.cfg.Receiver == GoBackN {
		return q.nextOut - q.unacked
	}
	return q.state.selective.onTheWay
}

// idleTrip returns the round trip of a full packet over the longest path, when nothing else
// is on the way.
func (e *Endpoint) idleTrip() fabric.Time {
	if e.cfg.Trip > 0 {
		return e.cfg.Trip
	}
	return IdleTrip(e.cfg.Fabric, e.cfg.MTU+e.cfg.Outer)
}

// product returns the bytes that the line sends in a round trip.
func (e *Endpoint) product(trip fabric.Time) int64 {
	const some = 1e6
	return int64(trip) * some / int64(e.cfg.LineRate.TimeFor(some))
}
