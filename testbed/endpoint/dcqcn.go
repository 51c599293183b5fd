package endpoint

import "github.com/ethereal-fabric/ethereal/fabric"

// Constants of DCQCN as its authors set them (Zhu et al., Congestion Control for
// Large-Scale RDMA Deployments, SIGCOMM 2015, sections 3.3 and 5.2). They were
// found at 40 Gb/s; the rates are left as they are at other speeds.
const (
	DefaultCNPInterval = 50 * fabric.Microsecond // N: between two CNPs of a QP

	dcqcnGainShift     = 8                       // g = 1/256
	dcqcnAlphaTimer    = 55 * fabric.Microsecond // K
	dcqcnIncreaseTimer = 55 * fabric.Microsecond // T
	dcqcnByteCounter   = 10_000_000              // B
	dcqcnFastRecovery  = 5                       // F
	dcqcnAdditiveRate  = 40 * fabric.Mbps        // R_AI
	// R_HAI is R_AI times this: QCN's ratio (IEEE 802.1Qau), since the paper
	// gives no number.
	dcqcnHyperFactor = 10
)

// dcqcn is what the reaction point of DCQCN keeps of a QP besides rate and
// alpha. Its timers are looked at when the QP sends or takes a CNP, not before:
// nobody needs the rate in between.
type dcqcn struct {
	slowed     bool        // by a CNP, and not back at line rate
	target     fabric.Rate // R_T
	alphaAt    fabric.Time // alpha decays
	increaseAt fabric.Time
	bytesLeft  int64 // until the byte counter's next increase
	byTime     int32 // increases since the last CNP
	byBytes    int32
}

// cnp takes a congestion notification packet.
func (d *dcqcn) cnp(e *Endpoint, r *rate, now fabric.Time) {
	d.elapse(e, r, now)
	d.target = r.now
	r.set(e, r.less(e))
	r.alpha += (alphaOne - r.alpha) >> dcqcnGainShift
	*d = dcqcn{
		slowed: true, target: d.target, alphaAt: now + dcqcnAlphaTimer,
		increaseAt: now + dcqcnIncreaseTimer, bytesLeft: dcqcnByteCounter,
	}
	e.stats.RateCuts++
}

// sent takes the word that the QP sends a packet of that many bytes.
func (d *dcqcn) sent(e *Endpoint, r *rate, now fabric.Time, bytes int64) {
	if !d.slowed {
		return
	}
	d.elapse(e, r, now)
	if d.bytesLeft -= bytes; d.bytesLeft <= 0 && d.slowed {
		d.bytesLeft += dcqcnByteCounter
		d.byBytes++
		d.increase(e, r)
	}
}

// elapse does what the timers ask for until now.
func (d *dcqcn) elapse(e *Endpoint, r *rate, now fabric.Time) {
	for d.slowed && d.increaseAt <= now {
		d.increaseAt += dcqcnIncreaseTimer
		d.byTime++
		d.increase(e, r)
	}
	if d.alphaAt == 0 { // no CNP yet
		return
	}
	for d.alphaAt <= now && r.alpha > 0 {
		d.alphaAt += dcqcnAlphaTimer
		r.alpha -= max(1, r.alpha>>dcqcnGainShift)
	}
}

// increase is one step up: fast recovery towards the rate before the cut, after
// F steps by either count additive increase of that rate, after F steps by both
// hyper increase.
func (d *dcqcn) increase(e *Endpoint, r *rate) {
	switch {
	case max(d.byTime, d.byBytes) < dcqcnFastRecovery:
	case min(d.byTime, d.byBytes) > dcqcnFastRecovery:
		steps := fabric.Rate(min(d.byTime, d.byBytes) - dcqcnFastRecovery)
		d.target += min(steps*dcqcnHyperFactor*e.cfg.AdditiveRate, e.cfg.LineRate)
	default:
		d.target += e.cfg.AdditiveRate
	}
	d.target = min(d.target, e.cfg.LineRate)
	to := r.now + (d.target-r.now)/2
	if e.cfg.LineRate-to < e.cfg.LineRate>>10 { // as good as there
		to, d.slowed = e.cfg.LineRate, false
	}
	r.set(e, to)
}
