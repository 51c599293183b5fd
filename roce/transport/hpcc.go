package transport

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/params"
)

// hpcc is HPCC (Li et al., SIGCOMM 2019, algorithm 1): a window set by the load and the queue of the path's busiest
// link, which switches write into packets ([telemetry]) and answers return. The window is the reference window
// divided by the ratio of that to 95 % of a round trip's bytes, plus a small increase each time. The reference is
// renewed once per round trip; after five round trips below 95 % the window is set anew. Packets are paced at the
// window per idle round trip.
//
// Constants are the paper's. A packet's telemetry is compared with that of the previous one, which must have taken
// the same path, by the path's ID: if a queue pair's packets take many paths, most answers give no information.
type hpcc struct {
	*Endpoint
	qps  perQP[hpccState]
	trip fabric.Time // T of the paper: of a full packet over the longest path of an otherwise idle network
}

const (
	hpccOne    = 1 << 20             // fixed-point value of a utilisation of 1
	hpccTarget = hpccOne * 95 / 100  // HPCC's target utilisation eta, 95 %
	hpccStages = 5                   // HPCC's maxStage: additive increases before a multiplicative one
	hpccShare  = 20 * hpccCompanions // the increase is (1-eta) of a window over this number of flows
	// hpccCompanions is the number of flows that share a link without a standing queue: the paper's 80 B on 100
	// Gb/s.
	hpccCompanions = 100
)

// hpccState is HPCC's state of a queue pair.
type hpccState struct {
	window, reference int64 // bytes
	utilisation       int64 // of hpccOne
	stage             int32
	renewed           int32 // packets from this one on are sent under the reference
	telemetry         telemetry
	measuredAt        fabric.Time // time of that measurement
}

// HPCC names the rate control of HPCC (SIGCOMM 2019), which uses the telemetry that switches write into packets.
const HPCC Control = "hpcc"

func hpccSpec() Spec {
	return Spec{
		Kind: RateControl, Name: string(HPCC), Summary: "changes its window by telemetry that switches write into packets (virtual world only)",
		Needs: Needs{DataField: telemetrySize, AckField: telemetrySize, Stamp: stampTelemetry},
		control: func(*params.Reader) controlMaker {
			return func(e *Endpoint) rateControl {
				c := &hpcc{Endpoint: e, trip: e.idleTrip()}
				return rateControl{pacer: c, ack: intReflection{}}
			}
		},
	}
}

func (c *hpcc) open(q *qp) {
	whole, s := c.bandwidthDelay(c.trip), c.qps.open(q)
	s.window, s.reference = whole, whole
	c.bound(q, s)
}

// bound keeps the window within its bounds, and applies it to the queue pair.
func (c *hpcc) bound(q *qp, s *hpccState) {
	packet, whole := int64(c.fullPacketBytes), c.bandwidthDelay(c.trip)
	s.window = min(max(s.window, whole/1000), max(whole, packet))
	q.cwnd = int32(max(1, (s.window+packet-1)/packet))
	c.setRate(q, min(c.cfg.LineRate, max(c.cfg.MinRate, fabric.Rate(int64(c.cfg.LineRate)/1000*s.window/whole*1000))))
}

func (c *hpcc) acked(now fabric.Time, q *qp, p *packet, _, at int32, _ bool) {
	if len(p.rest) < frame.AETHSize+telemetrySize {
		return
	}
	s, report := c.qps.at(q), telemetry(p.rest[frame.AETHSize:])
	if !c.measure(now, s, &report) {
		return
	}
	renew := c.transport.lastAcked(q, p, at) >= s.renewed
	grown := max(1, c.bandwidthDelay(c.trip)/hpccShare)
	if s.utilisation >= hpccTarget || s.stage >= hpccStages {
		if s.window = s.reference*hpccTarget/max(s.utilisation, 1) + grown; renew {
			s.stage = 0
			c.stats.RateCuts++
		}
	} else if s.window = s.reference + grown; renew {
		s.stage++
	}
	c.bound(q, s)
	if renew {
		s.reference, s.renewed = s.window, q.sent
	}
}

// measure updates the utilisation of the path's busiest link. ok is false without a comparable earlier measurement:
// the first of a path, of a link whose rate has changed, or after a silence in which the link's counters may have
// wrapped around.
func (c *hpcc) measure(now fabric.Time, s *hpccState, report *telemetry) (ok bool) {
	hops, id, ok := report.path()
	if !ok {
		return false
	}
	before, was, had := s.telemetry.path()
	last, silence := s.telemetry, now-s.measuredAt
	fresh := !had || before != hops || was != id
	for i := 0; i < hops && !fresh; i++ {
		at, then := report.hop(i), last.hop(i)
		fresh = at.rate != then.rate || at.wraps(silence)
	}
	if fresh {
		s.telemetry, s.measuredAt = *report, now
		return false
	}
	trip := int64(c.trip / fabric.Nanosecond)
	most, over := int64(-1), int64(0)
	for i := range hops {
		at, then := report.hop(i), last.hop(i)
		ns, sent, ok := at.since(then)
		if !ok {
			return false // it is older than the last one, which is kept
		}
		u := min(at.queue, then.queue)*hpccOne/max(1, bytesIn(at.rate, trip)) + sent*hpccOne/max(1, bytesIn(at.rate, ns))
		if u > most {
			most, over = u, min(ns, trip)
		}
	}
	s.telemetry, s.measuredAt = *report, now
	s.utilisation += (most - s.utilisation) * over / trip
	return true
}

func (*hpcc) wentBack(*qp)                          {}
func (*hpcc) cnpReceived(fabric.Time, *qp, *packet) {}
