package transport

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/params"
)

// rccc is the receiver-credit congestion control of Ultra Ethernet (UE specification 1.0, section 3.6.14; EQDS,
// NSDI 2022, is its ancestor). A sender begins with credit for one and a half times the bytes that the line sends
// in a round trip. The receiver grants all further credit. It grants to the senders that need some, in turn, as
// much as its own link receives, four packets at a time. A trimmed packet has spent its credit, and is granted
// again; a packet that counts as lost gets its credit back.
//
// On the wire a grant is a congestion notification packet, whose PSN is the total number of packets granted to the
// queue pair. A receiver knows the outstanding data by the length in the message's first packet; before that
// arrived, it grants as much as the initial credit. In htsim (uec.cpp) senders announce their data; if a time-out
// finds a sender without credit, it sends a packet anyway, which htsim uses as a request.
type rccc struct {
	*Endpoint
	granted perQP[int32] // packets
	asking  []*context
	next    fabric.Time // earliest time of the next grant
}

const (
	rcccGrant = 4  // number of packets that one credit grant allows
	rcccShare = 99 // percentage of the line rate that is granted
)

// creditState is a receiver's state of a queue pair.
type creditState struct {
	granted, arrived int32 // packets
	asking           bool
	src              fabric.NodeID
	label            fabric.Label // of its latest packet
}

// RCCC names Ultra Ethernet's receiver-credit congestion control.
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

// firstCredit returns the initial credit in packets.
func (c *rccc) firstCredit() int32 {
	return max(1, int32(c.bandwidthDelay(c.idleTrip())*3/2/int64(c.fullPacketBytes)))
}

// open begins with the initial credit. The window of a queue pair is the number of packets in flight plus the
// remaining credit: sending a packet does not change it.
func (c *rccc) open(q *qp) {
	q.cwnd = c.firstCredit()
	*c.granted.open(q) = q.cwnd
}

// acked subtracts spent credit.
func (c *rccc) acked(_ fabric.Time, q *qp, _ *packet, packets, _ int32, _ bool) {
	q.cwnd = max(0, q.cwnd-packets)
}

// cut implements [lossObserver].
func (c *rccc) cut(_ fabric.Time, q *qp, _ int32) { q.cwnd = max(0, q.cwnd-1) }

// lost implements [lossObserver].
func (c *rccc) lost(_ fabric.Time, q *qp, _ int32) { q.cwnd = max(q.cwnd, 1) }

func (c *rccc) wentBack(*qp) {}

// cnpReceived processes a grant, which a CNP carries.
func (c *rccc) cnpReceived(_ fabric.Time, q *qp, p *packet) {
	granted := c.granted.at(q)
	if more := psnDiff(p.psn, uint32(*granted)&psnMask); more > 0 {
		*granted += more
		q.cwnd += more
		c.activate(q)
	}
}

// arrived implements [creditControl].
func (c *rccc) arrived(now fabric.Time, x *context, p *packet) {
	r := x.reorder
	g := &r.creditState
	if g.granted == 0 {
		*g = creditState{granted: c.firstCredit()}
	}
	g.arrived++
	g.src, g.label = p.src, c.ackLabel(now, p)
	c.requestCredit(x)
}

// requestCredit queues a queue pair for its turn, if it needs more than what is granted and not yet used.
func (c *rccc) requestCredit(x *context) {
	r := x.reorder
	g := &r.creditState
	missing := int64(c.firstCredit()) * int64(c.cfg.MTU) // as far as is known
	if r.begun {
		missing = x.length - r.bytes
	}
	if !g.asking && int64(g.granted-g.arrived)*int64(c.cfg.MTU) < missing {
		g.asking = true
		c.asking = append(c.asking, x)
	}
}

// grantCredit sends the grants that are due.
func (c *rccc) grantCredit(now fabric.Time) {
	for len(c.asking) > 0 && c.next <= now {
		x := c.asking[0]
		c.asking = c.asking[:copy(c.asking, c.asking[1:])]
		g := &x.reorder.creditState
		if !g.asking { // another queue pair has its place now
			continue
		}
		g.asking = false
		g.granted += rcccGrant
		c.queueControl(controlPacket{dst: g.src, qpn: x.qpn, psn: uint32(g.granted) & psnMask, label: g.label, kind: congestionNotification})
		c.next = max(now, c.next) + rcccGrant*c.fullPacketTime*100/rcccShare
		c.requestCredit(x)
	}
}

// due returns the time of the next grant; never if no queue pair asks.
func (c *rccc) due() fabric.Time {
	if len(c.asking) == 0 {
		return never
	}
	return c.next
}
