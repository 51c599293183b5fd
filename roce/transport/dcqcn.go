package transport

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/params"
)

// Constants of DCQCN as its authors set them (Zhu et al., Congestion Control for Large-Scale RDMA Deployments,
// SIGCOMM 2015, sections 3.3 and 5.2). They were found at 40 Gb/s; the rates are not scaled to other speeds.
const (
	dcqcnCNPInterval   = 50 * fabric.Microsecond // DCQCN's N: minimum time between two CNPs of a queue pair
	dcqcnGainShift     = 8                       // DCQCN's gain g of alpha: 2^-8
	dcqcnAlphaTimer    = 55 * fabric.Microsecond // DCQCN's K: time without CNP after which alpha decreases
	dcqcnIncreaseTimer = 55 * fabric.Microsecond // DCQCN's T: time between two rate increases
	dcqcnByteCounter   = 10_000_000              // DCQCN's byte counter B: bytes after which the rate increases
	dcqcnFastRecovery  = 5                       // DCQCN's F: number of increase steps in fast recovery
	dcqcnAdditiveRate  = 40 * fabric.Mbps        // additive increase R_AI of DCQCN
	// R_HAI is R_AI times this: QCN's ratio (IEEE 802.1Qau), since the paper
	// gives no number.
	dcqcnHyperFactor = 10
)

// dcqcn is DCQCN. A responder sends CNPs. The timers of the reaction point are evaluated when the QP sends or
// receives a CNP, because the rate is not needed in between.
type dcqcn struct {
	*Endpoint
	qps      perQP[dcqcnState]
	additive fabric.Rate
	interval fabric.Time // between two CNPs of a QP
}

// DCQCN names the rate control of DCQCN (SIGCOMM 2015), which reacts to congestion notification packets (CNPs).
const DCQCN Control = "dcqcn"

func dcqcnSpec() Spec {
	return Spec{
		Kind: RateControl, Name: string(DCQCN), Summary: "reduces the rate when the receiver sends congestion notification packets",
		Params: []Param{
			{"additive_rate", "a step of additive increase; 40Mb/s when absent"},
			{"cnp_interval", "a queue pair is sent no two notification packets within it; 50us when absent"},
		},
		Needs: Needs{Marks: true},
		control: func(a *params.Reader) controlMaker {
			additive := a.Rate("additive_rate", dcqcnAdditiveRate, dcqcnAdditiveRate)
			interval := a.Time("cnp_interval", dcqcnCNPInterval, dcqcnCNPInterval)
			return func(e *Endpoint) rateControl {
				c := &dcqcn{Endpoint: e, additive: additive, interval: interval}
				return rateControl{pacer: c, departs: c, marks: c}
			}
		},
	}
}

// dcqcnState is the reaction point's state of a QP besides its rate.
type dcqcnState struct {
	alpha      uint32      // of alphaOne
	slowed     bool        // by a CNP, and not yet at line rate again
	target     fabric.Rate // R_T
	alphaAt    fabric.Time // alpha decays
	increaseAt fabric.Time
	bytesLeft  int64 // until the byte counter's next increase
	byTime     int32 // increases since the last CNP
	byBytes    int32
}

func (c *dcqcn) open(q *qp) { *c.qps.open(q) = dcqcnState{alpha: alphaOne} }

func (c *dcqcn) sent(now fabric.Time, q *qp, _ int32, bytes int64) {
	d := c.qps.at(q)
	if !d.slowed {
		return
	}
	c.elapse(now, q)
	if d.bytesLeft -= bytes; d.bytesLeft <= 0 && d.slowed {
		d.bytesLeft += dcqcnByteCounter
		d.byBytes++
		c.increase(q)
	}
}

func (c *dcqcn) acked(fabric.Time, *qp, *packet, int32, int32, bool) {}

func (c *dcqcn) wentBack(*qp) {}

func (c *dcqcn) cnpReceived(now fabric.Time, q *qp, _ *packet) {
	c.elapse(now, q)
	d := c.qps.at(q)
	target, alpha := q.rate.now, d.alpha
	c.setRate(q, c.reducedRate(q, alpha))
	*d = dcqcnState{
		alpha:  alpha + (alphaOne-alpha)>>dcqcnGainShift,
		slowed: true, target: target, alphaAt: now + dcqcnAlphaTimer,
		increaseAt: now + dcqcnIncreaseTimer, bytesLeft: dcqcnByteCounter,
	}
	c.stats.RateCuts++
}

// received sends a CNP for a mark, unless the QP was sent one shortly before.
func (c *dcqcn) received(now fabric.Time, x *context, p *packet) {
	if !p.ce || now < x.cnpAt {
		return
	}
	x.cnpAt = now + c.interval
	c.stats.CNPsSent++
	c.queueControl(controlPacket{dst: p.src, qpn: p.qpn, label: c.ackLabel(now, p), becn: true, kind: congestionNotification})
}

// elapse processes the timers until now.
func (c *dcqcn) elapse(now fabric.Time, q *qp) {
	d := c.qps.at(q)
	for d.slowed && d.increaseAt <= now {
		d.increaseAt += dcqcnIncreaseTimer
		d.byTime++
		c.increase(q)
	}
	if d.alphaAt == 0 { // no CNP yet
		return
	}
	for d.alphaAt <= now && d.alpha > 0 {
		d.alphaAt += dcqcnAlphaTimer
		d.alpha -= max(1, d.alpha>>dcqcnGainShift)
	}
}

// increase is one step up: fast recovery towards the rate before the cut, after F steps by either count additive
// increase of that rate, after F steps by both hyper increase.
func (c *dcqcn) increase(q *qp) {
	d := c.qps.at(q)
	switch {
	case max(d.byTime, d.byBytes) < dcqcnFastRecovery:
	case min(d.byTime, d.byBytes) > dcqcnFastRecovery:
		steps := fabric.Rate(min(d.byTime, d.byBytes) - dcqcnFastRecovery)
		d.target += min(steps*dcqcnHyperFactor*c.additive, c.cfg.LineRate)
	default:
		d.target += c.additive
	}
	d.target = min(d.target, c.cfg.LineRate)
	to := q.rate.now + (d.target-q.rate.now)/2
	if c.cfg.LineRate-to < c.cfg.LineRate>>10 { // close enough
		to, d.slowed = c.cfg.LineRate, false
	}
	c.setRate(q, to)
}
