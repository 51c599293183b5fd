package endpoint

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
)

// alphaOne is an alpha of 1: integers, so that every machine computes the same.
const alphaOne = 1 << 20

// rate is a QP's congestion control. After DCTCP, alpha follows the share of
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

// less returns the rate less alpha/2 of it.
func (r *rate) less(e *Endpoint) fabric.Rate {
	cut := int64(r.now) >> 10 * int64(r.alpha) >> 11 // up to 8 Tb/s fit
	return max(r.now-fabric.Rate(cut), e.cfg.MinRate)
}

func (r *rate) set(e *Endpoint, to fabric.Rate) {
	if r.now != to {
		r.now = to
		r.gap = to.TimeFor(int64(e.full))
	}
}

// acked takes the word that packets were acknowledged, the latest sent of them
// being the one before `at`. late says that they were on the way when the QP went
// back: they belong to the round trip before, end none, and cut once at most.
func (r *rate) acked(e *Endpoint, q *qp, packets, at int32, marked, late bool) {
	if e.cfg.Control != DCTCP {
		return
	}
	r.acks += packets
	if marked {
		r.markers += packets
	}
	if late {
		if marked && at > r.cutEnd {
			r.cutEnd = q.sent
			r.set(e, r.less(e))
			e.stats.RateCuts++
		}
		return
	}
	to := r.now
	if at > r.roundEnd {
		if r.roundEnd > 0 { // else it is the first ACK, which ends no round trip
			share := int64(r.markers) * alphaOne / int64(r.acks)
			r.alpha = uint32(int64(r.alpha) + (share-int64(r.alpha))>>e.cfg.GainShift)
			if r.markers == 0 {
				to = min(to+e.cfg.AdditiveRate, e.cfg.LineRate)
			}
			r.acks, r.markers = 0, 0
		}
		r.roundEnd = q.nextOut
	}
	if marked && at > r.cutEnd {
		to = r.less(e)
		r.cutEnd = q.nextOut
		e.stats.RateCuts++
	}
	r.set(e, to)
}

// wentBack says that the packets from next on are to be sent again. Their marks
// tell of another round trip than the one whose packets were sent before: a QP
// that had sent its whole message would otherwise never slow down again.
func (r *rate) wentBack(next int32) {
	r.roundEnd = min(r.roundEnd, next)
	r.cutEnd = min(r.cutEnd, next)
}

// gap returns how long after a packet of that many bytes the next may follow.
func (e *Endpoint) gap(q *qp, bytes int) fabric.Time {
	if bytes >= e.full && bytes <= e.full+rocev2.RETHSize {
		return q.rate.gap
	}
	return q.rate.now.TimeFor(int64(bytes))
}
