package transport

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/params"
)

// delayMeter is the common part of rate controls that use queueing delays: the round trip is measured of each packet
// that is answered separately. The answer to a retransmitted packet is that to its last copy, if it comes no earlier
// than it can.
type delayMeter struct {
	*Endpoint
	trip   fabric.Time // of a full packet over the longest path of an otherwise idle network
	target fabric.Time // of queueing
}

// targetDelay is a parameter of all of them. They need [Needs].SendTimes.
var targetDelay = Param{"target_delay", "queueing that is no congestion; three quarters of a round trip through an idle fabric when absent"}

func readTargetDelay(a *params.Reader) fabric.Time {
	return a.Time(targetDelay.Name, 0, 6*fabric.Microsecond)
}

func newDelayMeter(e *Endpoint, target fabric.Time) delayMeter {
	d := delayMeter{e, e.idleTrip(), target}
	if d.target == 0 {
		d.target = d.trip * 3 / 4
	}
	return d
}

// measure returns the round trip of the answered packet, and whether it was retransmitted. ok is false if the round
// trip is unknown.
func (c delayMeter) measure(now fabric.Time, q *qp, p *packet, at int32) (trip fabric.Time, again, ok bool) {
	sent, ok := q.state.sentPackets.take(c.transport.lastAcked(q, p, at))
	trip = now - sent.at
	return trip, sent.again, ok && (!sent.again || trip >= c.trip)
}

// idleTrip returns the round trip of a full packet over the longest path of an otherwise idle network.
func (e *Endpoint) idleTrip() fabric.Time {
	if e.cfg.Trip > 0 {
		return e.cfg.Trip
	}
	return IdleTrip(e.cfg.Fabric, e.cfg.MTU+e.cfg.Outer)
}

// bandwidthDelay returns the number of bytes that the line sends in a round trip.
func (e *Endpoint) bandwidthDelay(trip fabric.Time) int64 {
	const some = 1e6
	return int64(trip) * some / int64(e.cfg.LineRate.TimeFor(some))
}
