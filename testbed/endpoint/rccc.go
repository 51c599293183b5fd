package endpoint

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/params"
)

// rccc is the receiver-credit congestion control of Ultra Ethernet (UE specification 1.0,
// section 3.6.14; EQDS, NSDI 2022, is its ancestor). A sender begins with credit for one and
// a half of what the line sends in a round trip. All else it is granted by the receiver, who
// grants, to those who miss something in turn, as much as its own link takes in, four packets
// at a time. A packet that a switch has cut has spent its credit, and is granted anew; what
// is taken for lost has its credit back.
//
// The wire has a congestion notification packet for a grant, whose PSN is how many packets
// were granted to the queue pair in all. What a receiver misses it knows by the length in the
// message's first packet; before that came, it grants as much as it began with. htsim (uec.cpp) has senders say what
// they have to send; when a time-out finds one without credit it sends a packet all the same,
// there as a request.
type rccc struct {
	*Endpoint
	granted perQP[int32] // packets
	asking  []*context
	next    fabric.Time // of the next grant, at the earliest
}

const (
	rcccGrant = 4  // packets
	rcccShare = 99 // percent of the line that is granted
)

// granting is what a receiver keeps of a queue pair.
type granting struct {
	granted, arrived int32 // packets
	asking           bool
	src              fabric.NodeID
	label            fabric.Label // of its latest packet
}

// RCCC is Ultra Ethernet's control of receivers.
const RCCC Control = "rccc"

func rcccSpec() Spec {
	return Spec{
		Kind: RateControl, Name: string(RCCC), Summary: "Ultra Ethernet's RCCC: sends only as much as the receiver grants",
		Needs: Needs{AnyOrder: true, OneLink: true},
		control: func(*params.Reader) controlMaker {
			return func(e *Endpoint) rateControl {
				c := &rccc{Endpoint: e}
				return rateControl{pacer: c, losses: c, credit: c}
			}
		},
	}
}

// first returns the packets of credit that need no grant.
func (c *rccc) first() int32 { return max(1, int32(c.product(c.idleTrip())*3/2/int64(c.full))) }

// open begins with the credit that needs no grant. The window of a queue pair is what is on
// the way and the credit that is left: it is the same after a packet is sent.
func (c *rccc) open(q *qp) {
	q.window = c.first()
	*c.granted.open(q) = q.window
}

// acked takes away what was spent.
func (c *rccc) acked(_ fabric.Time, q *qp, _ *packet, packets, _ int32, _ bool) {
	q.window = max(0, q.window-packets)
}

// cut implements [losses].
func (c *rccc) cut(_ fabric.Time, q *qp, _ int32) { q.window = max(0, q.window-1) }

// lost implements [losses].
func (c *rccc) lost(_ fabric.Time, q *qp, _ int32) { q.window = max(q.window, 1) }

func (c *rccc) wentBack(*qp) {}

// notified takes a grant.
func (c *rccc) notified(_ fabric.Time, q *qp, p *packet) {
	granted := c.granted.at(q)
	if more := psnDiff(p.psn, uint32(*granted)&psnMask); more > 0 {
		*granted += more
		q.window += more
		c.activate(q)
	}
}

// arrived implements [credit].
func (c *rccc) arrived(now fabric.Time, x *context, p *packet) {
	r := x.reorder
	g := &r.granting
	if g.granted == 0 {
		*g = granting{granted: c.first()}
	}
	g.arrived++
	g.src, g.label = p.src, c.ackLabel(now, p)
	c.ask(x)
}

// ask has a queue pair wait for its turn, if it misses more than is granted and on its way.
func (c *rccc) ask(x *context) {
	r := x.reorder
	g := &r.granting
	missing := int64(c.first()) * int64(c.cfg.MTU) // as far as is known
	if r.begun {
		missing = x.length - r.bytes
	}
	if !g.asking && int64(g.granted-g.arrived)*int64(c.cfg.MTU) < missing {
		g.asking = true
		c.asking = append(c.asking, x)
	}
}

// grant sends what is due.
func (c *rccc) grant(now fabric.Time) {
	for len(c.asking) > 0 && c.next <= now {
		x := c.asking[0]
		c.asking = c.asking[:copy(c.asking, c.asking[1:])]
		g := &x.reorder.granting
		if !g.asking { // another queue pair has taken its place
			continue
		}
		g.asking = false
		g.granted += rcccGrant
		c.answer(control{dst: g.src, qpn: x.qpn, psn: uint32(g.granted) & psnMask, label: g.label, cnp: true})
		c.next = max(now, c.next) + rcccGrant*c.fullGap*100/rcccShare
		c.ask(x)
	}
}

// due returns when the next grant is, never if nobody asks.
func (c *rccc) due() fabric.Time {
	if len(c.asking) == 0 {
		return never
	}
	return c.next
}
