package transport

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/params"
)

// nscc is the network-signalled congestion control of Ultra Ethernet's senders (UE specification 1.0, section
// 3.6.13): a window of bytes in flight, moved by each answer's information about its packet: whether it was marked
// and how long it queued. A mark alone only makes the packet's path unused, which is the balancer's part. A delay
// alone raises the window slowly; neither raises it quickly; both together cut it. If switches trimmed many
// packets, or the delay is extreme, the window becomes the number of bytes that have arrived within the last round
// trip and the target (quick adapt).
//
// Where the specification's text leaves details open, it follows htsim (uec.cpp, commit 40ccb05), whose names its
// constants have. Numbers are integers, so that every machine computes the same: bytes, and picoseconds.
type nscc struct {
	delayMeter
	qps   perQP[nsccState]
	scale int64 // bytes that the line sends in a trip
}

const (
	nsccReference  = 150_000 // bytes: 100 Gb/s for 12 us, for which the specification's constants hold
	nsccTrip       = 12 * fabric.Microsecond
	nsccFastDelay  = fabric.Microsecond // queueing below it counts as none
	nsccDelayGain  = 80                 // the mean delay moves by 1/80
	nsccAdaptGate  = 3                  // quick adapt if less than 1/2^3 of the largest window arrived
	nsccAdaptDelay = 4                  // delay from which quick adapt acts, in target delays
	nsccAdjust     = 8                  // answered full packets after which the window is updated
)

// nsccState is NSCC's state of a queue pair.
type nsccState struct {
	window, most int64 // bytes
	base         fabric.Time
	delay        fabric.Time // mean queueing

	gain            int64 // accumulated increase, bytes times the window
	answered        int64 // since then, bytes
	adjusted, cutAt fabric.Time
	quiet           int64 // consecutive bytes answered without queueing
	fast            bool  // these were a whole window

	achieved         int64       // bytes answered in this period
	periodEnd        fabric.Time // 0: none yet
	cut              bool        // a packet was trimmed since the last quick adapt
	ignored, ignores int64       // bytes of answers to earlier packets, which are ignored
}

// NSCC names Ultra Ethernet's sender-based congestion control, which uses ECN marks and round-trip times.
const NSCC Control = "nscc"

func nsccSpec() Spec {
	return Spec{
		Kind: RateControl, Name: string(NSCC), Summary: "Ultra Ethernet's NSCC: changes its window by marks and delay",
		Params: []Param{targetDelay}, Needs: Needs{SendTimes: true, Marks: true},
		control: func(a *params.Reader) controlMaker {
			target := readTargetDelay(a)
			return func(e *Endpoint) rateControl {
				c := &nscc{delayMeter: newDelayMeter(e, target)}
				c.scale = c.bandwidthDelay(c.trip)
				return rateControl{pacer: c, losses: c}
			}
		},
	}
}

// open begins with the largest window: one and a half times the bytes that the line sends in a round trip.
func (c *nscc) open(q *qp) {
	n := c.qps.open(q)
	n.base = c.trip
	n.most = c.bandwidthDelay(c.trip) * 3 / 2
	n.window = n.most
	c.bound(q, n)
}

// bound keeps the window within its bounds, and applies it to the queue pair.
func (c *nscc) bound(q *qp, n *nsccState) {
	packet := int64(c.fullPacketBytes)
	n.window = min(max(n.window, packet), max(n.most, packet))
	q.cwnd = int32(n.window / packet)
}

func (c *nscc) acked(now fabric.Time, q *qp, p *packet, packets, at int32, _ bool) {
	n := c.qps.at(q)
	bytes := int64(packets) * int64(c.fullPacketBytes)
	n.achieved += bytes
	n.answered += bytes
	n.ignored += bytes
	delay := n.delay
	if trip, _, ok := c.measure(now, q, p, at); ok {
		delay = c.queueingDelay(n, trip, p.becn)
	}
	if !c.quickAdapt(now, q, n, false, p.becn, delay) {
		c.adjust(now, n, p.becn, delay, bytes)
	}
	c.bound(q, n)
	if n.answered > nsccAdjust*int64(c.fullPacketBytes) || now-n.adjusted > c.trip {
		n.window += n.gain / n.window
		if now-n.adjusted >= c.trip {
			n.window += c.scaleToTarget(int64(c.cfg.MTU) * 3 / 20)
			n.adjusted = now
		}
		n.gain, n.answered = 0, 0
		c.bound(q, n)
	}
}

// queueingDelay processes a packet's round trip, and returns its queueing time.
func (c *nscc) queueingDelay(n *nsccState, trip fabric.Time, marked bool) fabric.Time {
	if trip < n.base {
		n.base = trip
		n.most = c.bandwidthDelay(trip) * 3 / 2
	}
	delay := trip - n.base
	sample := delay
	if !marked && delay > c.target { // congestion is over
		sample = n.base / 4
	}
	n.delay += (sample - n.delay) / nsccDelayGain
	return delay
}

// scaleToTarget scales a constant of the specification's reference network to this one.
func (c *nscc) scaleToTarget(bytes int64) int64 { return bytes * c.scale / nsccReference }

// adjust moves the window for an answer.
func (c *nscc) adjust(now fabric.Time, n *nsccState, marked bool, delay fabric.Time, bytes int64) {
	mtu := int64(c.cfg.MTU)
	switch {
	case marked && delay >= c.target:
		n.quiet, n.fast = 0, false
		if n.delay > c.target && now-n.cutAt > n.base {
			n.cutAt = now
			n.window -= min(n.window/2, n.window*4*int64(n.delay-c.target)/(5*int64(n.delay)))
		}
	case marked: // the balancer leaves the packet's path
	case delay >= c.target:
		n.gain += c.scaleToTarget(5*mtu) * bytes
	case !c.grow(n, delay, bytes):
		n.gain += c.scaleToTarget(4*mtu) * bytes / int64(nsccTrip/fabric.Nanosecond) * int64((c.target-delay)/fabric.Nanosecond)
	}
}

// grow increases the window at once when a whole window has met no queue.
func (c *nscc) grow(n *nsccState, delay fabric.Time, bytes int64) bool {
	if delay >= nsccFastDelay {
		n.quiet, n.fast = 0, false
		return false
	}
	n.quiet += bytes
	n.fast = n.fast || n.quiet > n.window
	if n.fast {
		n.window += c.scaleToTarget(bytes) / 4
	}
	return n.fast
}

// quickAdapt is quick adapt. It reports whether the answer has no other effect.
func (c *nscc) quickAdapt(now fabric.Time, q *qp, n *nsccState, cut, marked bool, delay fabric.Time) bool {
	done := false
	switch {
	case n.ignored < n.ignores && marked:
		done = true
	case now > n.periodEnd:
		if n.periodEnd != 0 && (n.cut || cut || delay > nsccAdaptDelay*c.target) && n.achieved < n.most>>nsccAdaptGate {
			n.window = n.achieved
			n.ignores, n.ignored = int64(c.transport.outstanding(q))*int64(c.fullPacketBytes), 0
			n.cut, done = false, true
		}
		n.achieved = 0
		n.periodEnd = now + n.base + c.target
	}
	if done {
		n.gain, n.answered = 0, 0
	}
	return done
}

// cut implements [lossObserver]: a packet was trimmed at a queue as long as a round trip.
func (c *nscc) cut(now fabric.Time, q *qp, packet int32) {
	n := c.qps.at(q)
	q.state.sentPackets.take(packet)
	n.ignored += int64(c.fullPacketBytes)
	n.delay += (c.trip - n.delay) / nsccDelayGain
	n.cut = true
	if !c.quickAdapt(now, q, n, true, true, 0) {
		n.window -= int64(c.fullPacketBytes)
	}
	c.bound(q, n)
}

// lost implements [lossObserver].
func (c *nscc) lost(_ fabric.Time, q *qp, packets int32) {
	n := c.qps.at(q)
	n.window -= int64(packets) * int64(c.fullPacketBytes)
	c.bound(q, n)
}

func (c *nscc) wentBack(q *qp)                      { c.lost(0, q, 1) }
func (*nscc) cnpReceived(fabric.Time, *qp, *packet) {}
