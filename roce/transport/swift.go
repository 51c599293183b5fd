package transport

import (
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/params"
)

// swift is Swift (Kumar et al., SIGCOMM 2020): a window, in packets and parts of one. It grows by a packet per
// round trip while packets take less than a target. If they take more, it is cut in proportion to the excess, once
// per round trip and at most by half. The target is an idle round trip, plus an allowance for queueing, plus an
// amount that grows as the window shrinks (flow scaling), so that many flows converge to equal shares. Below one
// packet the queue pair sends one at a time, paced.
//
// Constants are the paper's, and where it leaves them open htsim's (swift.cpp). A window begins with the bytes that
// the line sends in a round trip, as in an RNIC; the paper's begin small. Delays are of the fabric alone: hosts
// take no time.
type swift struct {
	delays
	qps perQP[swiftState]
}

// Swift uses delay alone.
const Swift Control = "swift"

func swiftSpec() Spec {
	return Spec{
		Kind: RateControl, Name: string(Swift), Summary: "changes its window by delay",
		Params: []Param{targetDelay}, Needs: Needs{SendTimes: true},
		control: func(a *params.Reader) controlMaker {
			target := readTargetDelay(a)
			return func(e *Endpoint) rateControl {
				c := &swift{delays: newDelays(e, target)}
				return rateControl{pacer: c, losses: c}
			}
		},
	}
}

const (
	swiftIncrease  = 1   // packets per round trip
	swiftMost      = 4   // idle round trips of packets: the largest window
	swiftRange     = 5   // largest flow scaling, in targets
	swiftLeast     = 100 // the smallest window is 1/100 of a packet
	swiftGiveUp    = 5   // time-outs in a row
	swiftMillionth = 1e6
	swiftFull      = 100_000   // 1/sqrt(100), in millionths: no flow scaling from 100 packets on
	swiftSpan      = 3_062_278 // 1/sqrt(0.1) less that: all of it at 0.1 packets
)

// swiftState is Swift's state of a queue pair.
type swiftState struct {
	window int64       // bytes
	base   fabric.Time // an idle round trip: of the longest path, or the least so far
	trip   fabric.Time // of the latest packet with a delay
	cutAt  fabric.Time // time of the last cut
	failed int         // time-outs since an answer came
}

func (c *swift) open(q *qp) {
	*c.qps.open(q) = swiftState{window: c.product(c.trip), base: c.trip, trip: c.trip, cutAt: -fabric.Second}
	c.bound(q)
}

// bound keeps the window within its bounds, and applies it to the queue pair.
func (c *swift) bound(q *qp) {
	s, packet := c.qps.at(q), int64(c.full)
	s.window = min(max(s.window, packet/swiftLeast), max(swiftMost*c.product(c.trip), packet))
	q.window = max(1, int32(s.window/packet))
	rate := c.cfg.LineRate
	if s.window < packet { // one packet, and then a pause for its share of a round trip
		rate = min(rate, max(c.cfg.MinRate, fabric.Rate(8*s.window*int64(fabric.Microsecond)/max(1, int64(s.trip))*1e6)))
	}
	c.setRate(q, rate)
}

// allowed returns the queueing time allowed for a packet.
func (c *swift) allowed(window int64) fabric.Time {
	root := int64(math.Sqrt(float64(window << 20 / int64(c.full)))) // of the packets, times 1024: exact on every machine
	share := min(max(swiftMillionth*1024/max(1, root)-swiftFull, 0), swiftSpan)
	return c.target + fabric.Time(int64(swiftRange*c.target/fabric.Nanosecond)*share/swiftSpan)*fabric.Nanosecond
}

func (c *swift) acked(now fabric.Time, q *qp, p *packet, packets, at int32, _ bool) {
	s := c.qps.at(q)
	s.failed = 0
	trip, ok := c.measure(now, q, p, at)
	if !ok {
		return
	}
	s.base, s.trip = min(s.base, trip), trip
	allowed, packet := s.base+c.allowed(s.window), int64(c.full)
	switch grown := swiftIncrease * packet * int64(packets); {
	case trip < allowed && s.window >= packet:
		s.window += grown * packet / s.window
	case trip < allowed:
		s.window += grown
	default:
		c.cutBy(now, s, s.window*4*int64(trip-allowed)/(5*int64(trip)))
	}
	c.bound(q)
}

// cutBy cuts the window, if it was not within a round trip, by half at most.
func (c *swift) cutBy(now fabric.Time, s *swiftState, bytes int64) {
	if now-s.cutAt < s.trip {
		return
	}
	s.cutAt = now
	s.window -= min(bytes, s.window/2)
	c.stats.RateCuts++
}

// cut implements [losses].
func (c *swift) cut(now fabric.Time, q *qp, packet int32) {
	q.state.sends.take(packet)
	c.cutBy(now, c.qps.at(q), math.MaxInt64)
	c.bound(q)
}

// lost implements [losses].
func (c *swift) lost(now fabric.Time, q *qp, _ int32) {
	c.cutBy(now, c.qps.at(q), math.MaxInt64)
	c.bound(q)
}

// wentBack cuts the window once more. One of which nothing arrives any more sends next to
// nothing.
func (c *swift) wentBack(q *qp) {
	s := c.qps.at(q)
	s.window /= 2
	if s.failed++; s.failed >= swiftGiveUp {
		s.window = 0
	}
	c.bound(q)
}

func (*swift) notified(fabric.Time, *qp, *packet) {}
