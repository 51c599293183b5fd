package transport

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/params"
)

// srd is the rate control of Amazon's Scalable Reliable Datagram (Shalev et al., IEEE Micro 40(6), 2020). The paper
// gives the signals, not the constants: a sender bounds its rate and its bytes in flight by the rate at which ACKs
// come, as BBR does, and backs off when the round trips of most paths grow. One slow path is no congestion: the
// balancer leaves it.
//
// Our reading: a round ends with the answer to a packet that was sent after the round had begun. If most packets of a
// round took longer than an idle round trip and the allowance for queueing, or were lost, the sender keeps in flight
// what ACKs at the present rate fill in that time. Otherwise its window grows by a packet, or by 1/16. It begins with
// what the line sends in an idle round trip.
type srd struct {
	delayMeter
	qps perQP[srdState]
}

// SRD names the rate control of Amazon's Scalable Reliable Datagram (IEEE Micro 2020).
const SRD Control = "srd"

func srdSpec() Spec {
	return Spec{
		Kind: RateControl, Name: string(SRD), Summary: "changes its window by the rate of ACKs when most round trips are long",
		Params: []Param{targetDelay}, Needs: Needs{SendTimes: true},
		control: func(a *params.Reader) controlMaker {
			target := readTargetDelay(a)
			return func(e *Endpoint) rateControl {
				c := &srd{delayMeter: newDelayMeter(e, target)}
				return rateControl{pacer: c, losses: c}
			}
		},
	}
}

const (
	srdGrowth    = 16 // the window grows by 1/16 a round at most
	srdMaxWindow = 4  // idle round trips of packets: the largest window
)

// srdState is SRD's state of a queue pair.
type srdState struct {
	window int64       // bytes
	base   fabric.Time // an idle round trip: of the longest path, or the least so far
	trip   fabric.Time // of the latest packet with a delay

	round int32       // the round ends with the answer to this packet or a later one
	began fabric.Time // when the round did
	bytes int64       // answered in the round
	all   int32       // packets with a delay, or lost, in the round
	slow  int32       // of these, those above the allowance, or lost
}

func (c *srd) open(q *qp) {
	*c.qps.open(q) = srdState{window: c.bandwidthDelay(c.trip), base: c.trip, trip: c.trip, began: never}
	c.setWindow(q, c.qps.at(q).window, c.trip)
}

func (c *srd) acked(now fabric.Time, q *qp, p *packet, packets, at int32, _ bool) {
	s := c.qps.at(q)
	s.bytes += int64(packets) * int64(c.fullPacketBytes)
	trip, again, ok := c.measure(now, q, p, at)
	if !ok || again { // again: the first copy may merely be late
		return
	}
	s.base, s.trip = min(s.base, trip), trip
	if s.all++; trip > s.base+c.target {
		s.slow++
	}
	if c.transport.lastAcked(q, p, at) < s.round {
		return
	}
	if s.began != never {
		c.endRound(now, s)
	}
	s.round, s.began, s.bytes, s.all, s.slow = q.sent, now, 0, 0, 0
	c.setWindow(q, s.window, s.trip)
}

// endRound changes the window for what the round has shown.
func (c *srd) endRound(now fabric.Time, s *srdState) {
	packet := int64(c.fullPacketBytes)
	switch took := now - s.began; {
	case 2*s.slow <= s.all:
		s.window += max(packet, s.window/srdGrowth)
	case took > 0:
		filled := int64(float64(s.bytes) * float64(s.base+c.target) / float64(took))
		s.window = min(s.window, max(filled, s.window/2))
		c.stats.RateCuts++
	}
	s.window = min(max(s.window, packet/swiftMinWindow), max(srdMaxWindow*c.bandwidthDelay(c.trip), packet))
}

// cut implements [lossObserver]: a trimmed packet has met a full queue.
func (c *srd) cut(_ fabric.Time, q *qp, packet int32) {
	q.state.sentPackets.take(packet)
	c.lost(0, q, 1)
}

// lost implements [lossObserver].
func (c *srd) lost(_ fabric.Time, q *qp, packets int32) {
	s := c.qps.at(q)
	s.all += packets
	s.slow += packets
}

// wentBack halves the window.
func (c *srd) wentBack(q *qp) {
	s := c.qps.at(q)
	s.window = max(s.window/2, int64(c.fullPacketBytes)/swiftMinWindow)
	c.setWindow(q, s.window, s.trip)
}

func (*srd) cnpReceived(fabric.Time, *qp, *packet) {}
