package endpoint

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/params"
)

// A rateControl is a congestion control by its parts: how fast a QP sends, which it sets with [Endpoint.setRate], and how
// much it may have on the way, q.window, in packets. It has no timer of its own: it brings a QP's state up to date when it
// is called. Every control has a pacer; the parts that it has not are nil.
//
// An endpoint has one, for all its queue pairs. What it keeps of a QP is a [perQP]. None of its calls may allocate once
// the QP is open.
type rateControl struct {
	pacer   pacer
	departs departures
	losses  losses
	marks   marks
	credit  credit
	ack     ackField // of specs with [Needs].AckField
}

// A pacer sets a QP's rate and window by what its sender learns.
type pacer interface {
	// open makes the state of a QP new, whose rate is the line's.
	open(q *qp)
	// acked reports that some more packets were acknowledged, the latest sent of
	// them being the one before `at`, by an answer p, which has what the network and the
	// responder said: marks, or measurements behind its AETH. late says that they were on
	// the way when the QP went back: they belong to the round trip before.
	acked(now fabric.Time, q *qp, p *packet, packets, at int32, late bool)
	// wentBack is called when the packets from q.nextOut on are to be retransmitted.
	wentBack(q *qp)
	// notified takes a congestion notification packet.
	notified(now fabric.Time, q *qp, p *packet)
}

// departures learns of each packet sent.
type departures interface {
	// sent reports that the QP sends a packet of that many bytes on the wire now.
	sent(now fabric.Time, q *qp, packet int32, bytes int64)
}

// losses receives packets to be retransmitted one by one. (For going back the pacer has wentBack.)
type losses interface {
	// cut reports that a packet came without its payload.
	cut(now fabric.Time, q *qp, packet int32)
	// lost reports that some packets are taken for lost.
	lost(now fabric.Time, q *qp, packets int32)
}

// marks is the part at the responder that learns of congestion.
type marks interface {
	// received reports that a data packet has come, p.ce if it was marked, before it is answered. It
	// may push an answer itself, as DCQCN does a CNP.
	received(now fabric.Time, c *context, p *packet)
}

// credit is the responder's part, which has a clock and grants senders how much they may send.
type credit interface {
	// arrived reports that a data packet has come, cut ones too, and what it said
	// has been noted.
	arrived(now fabric.Time, c *context, p *packet)
	// grant queues the control packets that are due; due says when the next will be.
	grant(now fabric.Time)
	due() fabric.Time
}

// ackField is the part at the responder that writes what ACKs carry behind their AETH.
type ackField interface {
	// writeAck fills the field, zeros so far, of the answer to a packet.
	writeAck(p *packet, field []byte)
}

// NoControl sends at line rate, always.
const NoControl Control = "none"

func lineRateSpec() Spec {
	return Spec{
		Kind: RateControl, Name: string(NoControl), Summary: "always sends at line rate",
		control: func(*params.Reader) controlMaker {
			return func(*Endpoint) rateControl { return rateControl{pacer: lineRate{}} }
		},
	}
}

// lineRate is no control.
type lineRate struct{}

func (lineRate) open(*qp)                                            {}
func (lineRate) acked(fabric.Time, *qp, *packet, int32, int32, bool) {}
func (lineRate) wentBack(*qp)                                        {}
func (lineRate) notified(fabric.Time, *qp, *packet)                  {}
func (lineRate) cut(fabric.Time, *qp, int32)                         {}
func (lineRate) lost(fabric.Time, *qp, int32)                        {}

// perQP is what a rate control keeps of each queue pair. It stays with the place of one for QPs to come.
type perQP[T any] struct{ of []*T }

// open returns the state of a QP, made new.
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

// rate is how fast a QP sends.
type rate struct {
	now fabric.Rate
	gap fabric.Time // of a full packet at this rate
}

func (e *Endpoint) setRate(q *qp, to fabric.Rate) {
	if q.rate.now != to {
		q.rate = rate{to, to.TimeFor(int64(e.full))}
	}
}

// gap returns how long after a packet of that many bytes the next may follow.
func (e *Endpoint) gap(q *qp, bytes int) fabric.Time {
	if bytes >= e.full && bytes <= e.full+rocev2.RETHSize {
		return q.rate.gap
	}
	return q.rate.now.TimeFor(int64(bytes))
}

// alphaOne is an alpha of 1: integers, so that every machine computes the same.
const alphaOne = 1 << 20

// less returns a QP's rate less alpha/2 of it.
func (e *Endpoint) less(q *qp, alpha uint32) fabric.Rate {
	cut := int64(q.rate.now) >> 10 * int64(alpha) >> 11 // up to 8 Tb/s fit
	return max(q.rate.now-fabric.Rate(cut), e.cfg.MinRate)
}
