package endpoint

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
)

// A rateControl is a congestion control: how fast a QP sends, which it sets with
// [Endpoint.setRate], and how much it may have on the way, q.window, in packets. It has
// no timer of its own: it brings a QP's state up to date when it is called.
//
// An endpoint has one, for all its queue pairs. Its state of a QP is in [qp] or
// [state]. None of its calls may allocate once the QP is open.
type rateControl interface {
	// open makes the state of a QP new, whose rate is the line's.
	open(q *qp)
	// acked takes the word that some more packets were acknowledged, the latest sent of
	// them being the one before `at`, by an answer p, which has what the network and the
	// responder said: marks, or measurements behind its AETH. late says that they were on
	// the way when the QP went back: they belong to the round trip before.
	acked(now fabric.Time, q *qp, p *packet, packets, at int32, late bool)
	// wentBack says that the packets from q.nextOut on are to be sent again.
	wentBack(q *qp)
	// notified takes a congestion notification packet.
	notified(now fabric.Time, q *qp, p *packet)
}

// A meter is a rateControl that wants to hear of each packet sent.
type meter interface {
	// sent takes the word that the QP sends a packet of that many bytes on the wire now.
	sent(now fabric.Time, q *qp, packet int32, bytes int64)
}

// An echo is a rateControl with a part at the responder.
type echo interface {
	// received takes the word that a data packet has come, p.ce if it was marked. It
	// may push an answer of its own, as DCQCN does a CNP; a credit would be one.
	received(now fabric.Time, c *context, p *packet)
}

// A granter is a rateControl with a clock at the receiver, which tells senders how much they
// may send.
type granter interface {
	// arrived takes the word that a data packet has come, cut ones too, and what it said
	// has been noted.
	arrived(now fabric.Time, c *context, p *packet)
	// grant queues the control packets that are due; due says when the next will be.
	grant(now fabric.Time)
	due() fabric.Time
}

// losses is a rateControl that wants to hear of what is to be sent again one by one. (Of
// going back it hears in wentBack.)
type losses interface {
	// cut takes the word that a packet came without its payload.
	cut(now fabric.Time, q *qp, packet int32)
	// lost takes the word that some packets are taken for lost.
	lost(now fabric.Time, q *qp, packets int32)
}

// Control is what a QP does when it hears of congestion.
type Control uint8

// The congestion controls.
const (
	DCTCP     Control = iota // [ref] cut by alpha/2 in a marked round trip, additive increase
	NoControl                // line rate, always
	DCQCN                    // CNPs; see dcqcn.go for its constants
	NSCC                     // Ultra Ethernet's, of the sender; see nscc.go
	Swift                    // by delay; see swift.go
	RCCC                     // Ultra Ethernet's, of the receiver; see rccc.go
	HPCC                     // by what switches tell; see hpcc.go
)

var controlNames = [...]string{"dctcp", "none", "dcqcn", "nscc", "swift", "rccc", "hpcc"}

// rateControl returns a new endpoint's.
func (c Control) rateControl(e *Endpoint) rateControl {
	switch c {
	case DCTCP:
		return dctcp{e}
	case DCQCN:
		return dcqcn{e}
	case NSCC:
		return newNSCC(e)
	case Swift:
		return newSwift(e)
	case RCCC:
		return newRCCC(e)
	case HPCC:
		return newHPCC(e)
	}
	return lineRate{}
}

func (c Control) String() string {
	if int(c) < len(controlNames) {
		return controlNames[c]
	}
	return "unknown"
}

// ControlNames returns the congestion controls' names, in the order of their
// values.
func ControlNames() []string { return controlNames[:] }

// lineRate is no control.
type lineRate struct{}

func (lineRate) open(*qp)                                            {}
func (lineRate) acked(fabric.Time, *qp, *packet, int32, int32, bool) {}
func (lineRate) wentBack(*qp)                                        {}
func (lineRate) notified(fabric.Time, *qp, *packet)                  {}
func (lineRate) cut(fabric.Time, *qp, int32)                         {}
func (lineRate) lost(fabric.Time, *qp, int32)                        {}

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
