package transport

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// reorder is the part of a context that accepts packets in any order. Packets are counted from the QP's first.
type reorder struct {
	got     bitWindow
	next    int32 // first missing packet
	last    int32 // of the message; -1: not arrived
	begun   bool  // the message's first packet has arrived
	invalid bool  // some packet contradicts another
	bytes   int64 // payload that has arrived
	creditState
}

func (t selectiveRepeat) begin(c *context) {
	if c.reorder == nil {
		c.reorder = new(reorder)
	}
	r := c.reorder
	r.got.reset()
	r.next, r.last, r.begun, r.invalid, r.bytes, r.creditState = 0, -1, false, false, 0, creditState{}
}

// receive accepts packets in any order.
func (t selectiveRepeat) receive(now fabric.Time, c *context, p *packet) {
	r := c.reorder
	ahead := psnDiff(p.psn, c.rcvNxt)
	i := r.next + ahead
	if i < 0 {
		t.stats.Malformed++
		return
	}
	if r.got.has(i) {
		t.stats.Duplicates++
		ce := c.ce // a mark is reported by an ACK with news
		t.reply(now, c, p, frame.ACK)
		c.ce = ce
		return
	}
	if p.cut {
		t.stats.NaksSent++
		t.reply(now, c, p, frame.NAKSequenceError)
		return
	}
	if ahead >= t.maxPacketSpan {
		t.stats.BeyondWindow++
		return
	}
	payload := int64(p.tail - p.pad - frame.ICRCSize)
	if !r.take(c, p, i, payload) {
		t.stats.Malformed++
		return
	}
	if ahead > 0 {
		t.stats.OutOfOrder++
	}
	r.got.add(i)
	r.bytes += payload
	t.stats.BytesDelivered += uint64(payload)
	whole := r.last >= 0 && r.next > r.last
	before := r.next
	r.next = r.got.next(before)
	r.got.forget(r.next)
	c.rcvNxt = (c.rcvNxt + uint32(r.next-before)) & psnMask
	whole = !whole && r.last >= 0 && r.next > r.last
	// A packet that fills a gap acknowledges more than itself, and one that arrives early shows the gap.
	if p.ackReq || whole || !t.cfg.AckWhenAsked && r.next != before+1 {
		t.reply(now, c, p, frame.ACK)
	}
	if !whole {
		return
	}
	if r.bytes != c.length || r.invalid {
		t.stats.Malformed++
		return
	}
	if c.length > 0 {
		t.stats.Delivered++
		t.handler.Delivered(now, p.src, c.message, c.length)
	}
}

// take checks one packet by itself, and records where the message begins and ends.
func (r *reorder) take(c *context, p *packet, i int32, payload int64) bool {
	first, last := p.opcode.Starts(), p.opcode.Ends()
	if payload < 0 || first && len(p.rest) < frame.RETHSize {
		return false
	}
	if first && i > 0 { // a nudge
		return last && payload == 0 && frame.RETH(p.rest).Length() == 0
	}
	if first != (i == 0) {
		return false
	}
	if first {
		r.begun = true
		c.message, c.length = frame.RETH(p.rest).VirtualAddress(), int64(frame.RETH(p.rest).Length())
	}
	if last {
		r.invalid = r.invalid || r.last >= 0
		r.last = i
	}
	return true
}

// reply queues an ACK for the packet and for all before the expected one. RoCEv2's ACK has no field for the former;
// it uses the MSN field, which requesters with one message per QP do not need. A NAK reports a trimmed packet.
func (t selectiveRepeat) reply(now fabric.Time, c *context, p *packet, syndrome frame.Syndrome) {
	becn := c.ce
	c.ce = false
	t.queueControl(controlPacket{
		dst: p.src, qpn: p.qpn, psn: c.rcvNxt - 1, msn: p.psn, label: t.ackLabel(now, p),
		syndrome: syndrome, becn: becn,
	})
}
