package nic

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
)

// alphaOne is an alpha of 1: integers, so that every machine computes the same.
const alphaOne = 1 << 20

// rate is a QP's congestion control, after DCTCP: alpha follows the share of
// marked packets per round trip; a round trip with marks cuts the rate by
// alpha/2, once; one without adds a constant. A round trip ends when the packet
// that was next to be sent at its beginning is acknowledged.
type rate struct {
	now   fabric.Rate
	gap   fabric.Time // of a full packet at this rate
	alpha uint32      // of alphaOne

	roundEnd      int32 // packet that ends the round trip
	cutEnd        int32 // packet up to which a cut has been made
	acks, markers int32 // packets acknowledged in the round trip, and of those marked
}

// newRate begins at line rate with alpha 1, so that the first mark halves it.
func newRate(e *Endpoint) rate {
	return rate{now: e.cfg.LineRate, gap: e.fullGap, alpha: alphaOne}
}

// acked takes the word that packets were acknowledged, up to below q.unacked.
func (r *rate) acked(e *Endpoint, q *qp, packets int32, marked bool) {
	if e.cfg.Control == NoControl {
		return
	}
	r.acks += packets
	if marked {
		r.markers += packets
	}
	before := r.now
	if q.unacked > r.roundEnd {
		if r.roundEnd > 0 { // else it is the first ACK, which ends no round trip
			share := int64(r.markers) * alphaOne / int64(r.acks)
			r.alpha = uint32(int64(r.alpha) + (share-int64(r.alpha))>>e.cfg.GainShift)
			if r.markers == 0 {
				r.now = min(r.now+e.cfg.AdditiveRate, e.cfg.LineRate)
			}
			r.acks, r.markers = 0, 0
		}
		r.roundEnd = q.sent
	}
	if marked && q.unacked > r.cutEnd {
		cut := int64(r.now) >> 10 * int64(r.alpha) >> 11 // rate * alpha/2; up to 8 Tb/s fit
		r.now = max(r.now-fabric.Rate(cut), e.cfg.MinRate)
		r.cutEnd = q.sent
		e.stats.RateCuts++
	}
	if r.now != before {
		r.gap = r.now.TimeFor(int64(e.full))
	}
}

// gap returns how long after a packet of that many bytes the next may follow.
func (e *Endpoint) gap(q *qp, bytes int) fabric.Time {
	if bytes >= e.full && bytes <= e.full+rocev2.RETHSize {
		return q.rate.gap
	}
	return q.rate.now.TimeFor(int64(bytes))
}
