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
	delayMeter
	qps perQP[SwiftPath]
}

// Swift names the rate control of Swift (SIGCOMM 2020), which uses delay alone.
const Swift Control = "swift"

func swiftSpec() Spec {
	return Spec{
		Kind: RateControl, Name: string(Swift), Summary: "changes its window by delay",
		Params: []Param{targetDelay}, Needs: Needs{SendTimes: true},
		control: func(a *params.Reader) controlMaker {
			target := readTargetDelay(a)
			return func(e *Endpoint) rateControl {
				c := &swift{delayMeter: newDelayMeter(e, target)}
				return rateControl{pacer: c, losses: c}
			}
		},
	}
}

const (
	swiftIncrease  = 1   // additive increase, in packets per round trip
	swiftMaxWindow = 4   // idle round trips of packets: the largest window
	swiftRange     = 5   // largest flow scaling, in targets
	swiftMinWindow = 100 // the smallest window is 1/100 of a packet
	swiftGiveUp    = 5   // number of time-outs in a row after which the window becomes the smallest
	swiftMillionth = 1e6
	swiftFull      = 100_000   // 1/sqrt(100), in millionths: no flow scaling from 100 packets on
	swiftSpan      = 3_062_278 // 1/sqrt(0.1) less that: all of it at 0.1 packets
)

// SwiftPath is the state of Swift's window for one path.
type SwiftPath struct {
	Packet int64       // bytes of a full packet
	Idle   int64       // bytes sent at line rate during a round trip of the idle network
	Target fabric.Time // queueing delay that is tolerated with a large window
	Window int64       // bytes; if less than a packet, a packet is sent and then a pause follows
	Base   fabric.Time // round-trip time of the idle network: of the longest path, or the least measured so far
	Trip   fabric.Time // round-trip time of the latest packet that had one
	CutAt  fabric.Time // when the window was last decreased for a long round trip or a loss
	GaveUp int         // time-outs since the last ACK
}

// NewSwift returns the state of a new path. packet is the size of a full packet, idle the bytes sent at line rate
// during trip, an idle round trip, and target the tolerated queueing delay. The first window is idle/share bytes.
func NewSwift(packet, idle, share int64, trip, target fabric.Time) SwiftPath {
	return SwiftPath{
		Packet: packet, Idle: idle, Target: target, Window: idle / share, Base: trip, Trip: trip, CutAt: -fabric.Second,
	}
}

func (s *SwiftPath) bound() {
	s.Window = min(max(s.Window, s.Packet/swiftMinWindow), max(swiftMaxWindow*s.Idle, s.Packet))
}

// Allowed returns the round-trip time up to which there is no congestion: that of the idle network, and a queueing
// delay that grows as the window shrinks.
func (s *SwiftPath) Allowed() fabric.Time {
	root := int64(math.Sqrt(float64(s.Window << 20 / s.Packet))) // of the packets, times 1024: exact on every machine
	share := min(max(swiftMillionth*1024/max(1, root)-swiftFull, 0), swiftSpan)
	return s.Base + s.Target + fabric.Time(int64(swiftRange*s.Target/fabric.Nanosecond)*share/swiftSpan)*fabric.Nanosecond
}

// Answered adjusts the window to the round-trip time of a packet whose ACK acknowledges that many packets. cut reports
// that the window decreased.
func (s *SwiftPath) Answered(now, trip fabric.Time, packets int32) (cut bool) {
	s.Base, s.Trip = min(s.Base, trip), trip
	allowed := s.Allowed()
	switch grown := swiftIncrease * s.Packet * int64(packets); {
	case trip < allowed && s.Window >= s.Packet:
		s.Window += grown * s.Packet / s.Window
	case trip < allowed:
		s.Window += grown
	default:
		cut = s.cutBy(now, s.Window*4*int64(trip-allowed)/(5*int64(trip)))
	}
	s.bound()
	return cut
}

// cutBy cuts the window, if it was not within a round trip, by half at most.
func (s *SwiftPath) cutBy(now fabric.Time, bytes int64) bool {
	if now-s.CutAt < s.Trip {
		return false
	}
	s.CutAt = now
	s.Window -= min(bytes, s.Window/2)
	return true
}

// Lost halves the window because packets were lost, unless it has decreased within the last round trip.
func (s *SwiftPath) Lost(now fabric.Time) (cut bool) {
	cut = s.cutBy(now, math.MaxInt64)
	s.bound()
	return cut
}

func (c *swift) open(q *qp) {
	*c.qps.open(q) = NewSwift(int64(c.fullPacketBytes), c.bandwidthDelay(c.trip), 1, c.trip, c.target)
	c.applyWindow(q)
}

// applyWindow applies the window to the queue pair. A round trip through long queues does not lengthen the pause as
// well: the window was cut for it, and the queue pair learns only after the pause that the queues are gone.
func (c *swift) applyWindow(q *qp) {
	s := c.qps.at(q)
	s.bound()
	c.setWindow(q, s.Window, min(s.Trip, s.Allowed()))
}

func (c *swift) acked(now fabric.Time, q *qp, p *packet, packets, at int32, _ bool) {
	s := c.qps.at(q)
	s.GaveUp = 0
	// Right after a loss the window stays as it is: buffers may be shorter than the target. But without any answer that
	// counts, a queue pair that retransmits the last packets of a message would pause between all of them.
	trip, again, ok := c.measure(now, q, p, at)
	if !ok || again && s.Window >= s.Packet {
		return
	}
	c.answered(now, q, trip, packets)
}

// answered applies a round trip to the queue pair.
func (c *swift) answered(now fabric.Time, q *qp, trip fabric.Time, packets int32) {
	c.countCut(c.qps.at(q).Answered(now, trip, packets))
	c.applyWindow(q)
	c.shortenPause(now, q)
}

func (c *swift) countCut(cut bool) {
	if cut {
		c.stats.RateCuts++
	}
}

// cut implements [lossObserver].
func (c *swift) cut(now fabric.Time, q *qp, packet int32) {
	q.state.sentPackets.take(packet)
	c.lost(now, q, 1)
}

// lost implements [lossObserver].
func (c *swift) lost(now fabric.Time, q *qp, _ int32) {
	c.countCut(c.qps.at(q).Lost(now))
	c.applyWindow(q)
}

// wentBack cuts the window once more. A queue pair whose timer has expired several times in a row, so that it does not
// run now, sends next to nothing.
func (c *swift) wentBack(q *qp) {
	s := c.qps.at(q)
	s.Window /= 2
	if q.expireAt == never {
		if s.GaveUp++; s.GaveUp >= swiftGiveUp {
			s.Window = 0
		}
	}
	c.applyWindow(q)
}

func (*swift) cnpReceived(fabric.Time, *qp, *packet) {}
