package transport

import (
	"cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/params"
)

// dctcp is DCTCP with a rate in place of a window: alpha follows the share of marked packets per round trip. A
// round trip with marks cuts the rate by alpha/2, once; one without adds a constant. A round trip ends when the
// packet that was next to be sent at its beginning is acknowledged.
type dctcp struct {
	*Endpoint
	additive  fabric.Rate
	gainShift int
}

// DCTCP names the default rate control: DCTCP (SIGCOMM 2010), which reacts to the fraction of marked ACKs.
const DCTCP Control = "dctcp"

const (
	dctcpAdditiveRate = fabric.Gbps // [ref] per round trip, at 400 Gb/s
	dctcpGainShift    = 4           // [ref] g = 1/16
)

func dctcpSpec() Spec {
	return Spec{
		Kind: RateControl, Name: string(DCTCP), Summary: "reduces the rate in proportion to the share of marked packets",
		Params: []Param{
			{"additive_rate", "what a round trip without a mark adds; 1Gb/s when absent, a hundredth of the link's rate if that is less"},
			{"gain_shift", "the share of marks is averaged with 1/2^gain_shift; 4 when absent"},
		},
		Needs: Needs{Marks: true},
		control: func(a *params.Reader) controlMaker {
			additive, shift := a.Rate("additive_rate", 0, dctcpAdditiveRate), a.Integer("gain_shift", dctcpGainShift, 1, 16)
			return func(e *Endpoint) rateControl {
				// On a slow line the authors' step would undo every cut at once.
				return rateControl{pacer: &dctcp{e, cmp.Or(additive, min(dctcpAdditiveRate, e.cfg.LineRate/slowest)), shift}}
			}
		},
	}
}

// dctcpState is DCTCP's state of a QP.
type dctcpState struct {
	alpha         uint32 // of alphaOne
	end           int32  // packet that ends the round trip
	cutEnd        int32  // packet up to which a cut has been made
	acks, markers int32  // packets acknowledged in the round trip, and marked ones of them
	flight        int32  // acks at which as many are acknowledged as were in flight when it began
	once          int32  // the QP's, of the latest acknowledgement
}

// alphaAfterMove is a QP's alpha after it left a slow path. It leaves at line rate, far above its share of the other
// path, so that the first cuts change nothing, and with an alpha of 1 the next ones go on halving the rate until few
// marks are left: to a hundredth of its share.
const alphaAfterMove = alphaOne / 4

// open begins with alpha 1, so that the first mark halves the rate; see alphaAfterMove.
func (c *dctcp) open(q *qp) {
	if q.rounds = (dctcpState{alpha: alphaOne}); q.moved {
		q.rounds.alpha = alphaAfterMove
	}
}

// acked counts acknowledged and marked packets; late packets end no round trip, and cut at most once.
func (c *dctcp) acked(_ fabric.Time, q *qp, p *packet, packets, at int32, late bool) {
	r := &q.rounds
	r.acks += packets
	if p.becn {
		r.markers += packets
	}
	if late {
		if p.becn && at > r.cutEnd {
			r.cutEnd = q.sent
			c.setRate(q, c.reducedRate(q, r.alpha))
			c.stats.RateCuts++
		}
		return
	}
	to := q.rate.now
	// Packets sent again come before the end of the round trip, so it ends when as many are acknowledged as were in
	// flight. Their marks cut nothing: the rate was cut when they were sent first.
	again := !c.inOrder && r.end > 0 && at <= q.once && (r.acks > r.flight || r.once != q.once)
	if r.once = q.once; at > r.end || again {
		if r.end > 0 { // otherwise it is the first ACK, which ends no round trip
			share := int64(r.markers) * alphaOne / int64(r.acks)
			r.alpha = uint32(int64(r.alpha) + (share-int64(r.alpha))>>c.gainShift)
			if r.markers == 0 {
				to = min(to+c.additive, c.cfg.LineRate)
			}
			r.acks, r.markers = 0, 0
		}
		r.end, r.flight = q.sndNxt, r.acks+c.transport.outstanding(q)
	}
	if p.becn && at > r.cutEnd {
		to = c.reducedRate(q, r.alpha)
		r.cutEnd = q.sndNxt
		c.stats.RateCuts++
	}
	c.setRate(q, to)
}

// wentBack forgets the present round trip: marks of retransmitted packets belong to another one. Otherwise a QP
// that had sent its whole message would never slow down again.
func (c *dctcp) wentBack(q *qp) {
	q.rounds.end = min(q.rounds.end, q.sndNxt)
	q.rounds.cutEnd = min(q.rounds.cutEnd, q.sndNxt)
}

func (c *dctcp) cnpReceived(fabric.Time, *qp, *packet) {}
