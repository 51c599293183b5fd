package transport

import (
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/params"
)

// A rateControl is a congestion control, divided into parts. It sets a QP's rate by [Endpoint.setRate], and the
// largest number of packets in flight, q.cwnd. It has no timer: it updates a QP's state when it is called. Every
// control has a pacer; absent parts are nil.
//
// An endpoint has one, for all its queue pairs. Its state of a QP is a [perQP]. None of its calls may allocate once
// the QP is open.
type rateControl struct {
	pacer   pacer
	departs departureObserver
	losses  lossObserver
	marks   markObserver
	credit  creditControl
	ack     ackField // of specs with [Needs].AckField
}

// A pacer sets a QP's rate and window from the sender's observations.
type pacer interface {
	// open resets the state of a QP, whose rate is the line's.
	open(q *qp)
	// acked reports that some more packets were acknowledged, of which the one before `at` was sent last. p is the
	// answer, with the network's and the responder's information: marks, or measurements behind its AETH. late
	// means that the packets were in flight when the QP went back: they belong to the previous round trip.
	acked(now fabric.Time, q *qp, p *packet, packets, at int32, late bool)
	// wentBack is called when the packets from q.sndNxt on are to be retransmitted.
	wentBack(q *qp)
	// cnpReceived processes a congestion notification packet.
	cnpReceived(now fabric.Time, q *qp, p *packet)
}

// departureObserver is notified of each packet sent.
type departureObserver interface {
	// sent reports that the QP sends a packet of that many bytes on the wire now.
	sent(now fabric.Time, q *qp, packet int32, bytes int64)
}

// lossObserver is notified of packets to be retransmitted one by one. (For going back the pacer has wentBack.)
type lossObserver interface {
	// cut reports that a packet arrived without its payload.
	cut(now fabric.Time, q *qp, packet int32)
	// lost reports that some packets count as lost.
	lost(now fabric.Time, q *qp, packets int32)
}

// markObserver is the responder's part that learns of congestion.
type markObserver interface {
	// received reports a data packet before it is answered; p.ce: it was marked. It may push an answer itself, as
	// DCQCN does a CNP.
	received(now fabric.Time, c *context, p *packet)
}

// creditControl is the responder's part, which has a clock and grants senders credit.
type creditControl interface {
	// arrived reports a data packet, also a trimmed one, after its content has been recorded.
	arrived(now fabric.Time, c *context, p *packet)
	// grant queues the control packets that are due; due returns the time of the next.
	grantCredit(now fabric.Time)
	due() fabric.Time
}

// ackField is the responder's part that writes the field behind an ACK's AETH.
type ackField interface {
	// writeAck fills the field, initially zeros, of the answer to a packet.
	writeAck(p *packet, field []byte)
}

// NoControl names the absence of a rate control: all QPs send at line rate.
const NoControl Control = "none"

func lineRateSpec() Spec {
	return Spec{
		Kind: RateControl, Name: string(NoControl), Summary: "always sends at line rate",
		control: func(*params.Reader) controlMaker {
			return func(*Endpoint) rateControl { return rateControl{pacer: lineRate{}} }
		},
	}
}

// lineRate is the absence of a control.
type lineRate struct{}

func (lineRate) open(*qp)                                            {}
func (lineRate) acked(fabric.Time, *qp, *packet, int32, int32, bool) {}
func (lineRate) wentBack(*qp)                                        {}
func (lineRate) cnpReceived(fabric.Time, *qp, *packet)               {}
func (lineRate) cut(fabric.Time, *qp, int32)                         {}
func (lineRate) lost(fabric.Time, *qp, int32)                        {}

// perQP is a rate control's state per queue pair. It stays with the QP's index for later QPs.
type perQP[T any] struct{ of []*T }

// open returns the reset state of a QP.
func (s *perQP[T]) open(q *qp) *T {
	for int(q.pos) >= len(s.of) {
		s.of = append(s.of, nil)
	}
	t := s.of[q.pos]
	if t == nil {
		t = new(T)
		s.of[q.pos] = t
	}
	var fresh T
	*t = fresh
	return t
}

// at returns the state of an open QP.
func (s *perQP[T]) at(q *qp) *T { return s.of[q.pos] }

// rateState is the rate of a QP.
type rateState struct {
	now fabric.Rate
	gap fabric.Time // of a full packet at this rate
}

func (e *Endpoint) setRate(q *qp, to fabric.Rate) {
	if q.rate.now != to {
		q.rate = rateState{to, to.TimeFor(int64(e.fullPacketBytes))}
	}
}

// setWindow applies a window of bytes to a queue pair. Below one packet it sends one, and then pauses for its share of
// a round trip.
func (e *Endpoint) setWindow(q *qp, window int64, trip fabric.Time) {
	packet, rate := int64(e.fullPacketBytes), e.cfg.LineRate
	q.cwnd = int32(min(max(1, window/packet), math.MaxInt32))
	if window < packet {
		rate = min(rate, max(e.cfg.MinRate, fabric.Rate(8*window*int64(fabric.Microsecond)/max(1, int64(trip))*1e6)))
	}
	e.setRate(q, rate)
}

// paceGap returns the time after a packet of that many bytes until the next may follow.
func (e *Endpoint) paceGap(q *qp, bytes int) fabric.Time {
	if bytes >= e.fullPacketBytes && bytes <= e.fullPacketBytes+frame.RETHSize {
		return q.rate.gap
	}
	return q.rate.now.TimeFor(int64(bytes))
}

// shortenPause ends a pause between two packets when the present rate would. The pause of a window that was a small
// part of a packet may be many round trips long.
func (e *Endpoint) shortenPause(now fabric.Time, q *qp) {
	at := max(now+q.rate.gap, q.heldTo)
	if q.sendAt <= at {
		return
	}
	q.sendAt = at
	if q.where == inPaced {
		e.paced.bringForward(q, at)
	}
}

// alphaOne is an alpha of 1: integers, so that every machine computes the same.
const alphaOne = 1 << 20

// reducedRate returns a QP's rate reduced by alpha/2.
func (e *Endpoint) reducedRate(q *qp, alpha uint32) fabric.Rate {
	cut := int64(q.rate.now) >> 10 * int64(alpha) >> 11 // up to 8 Tb/s fit
	return max(q.rate.now-fabric.Rate(cut), e.cfg.MinRate)
}
