package endpoint

import (
	"encoding/binary"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
)

// responder is the receiving half of an endpoint.
type responder struct {
	contexts  contexts
	known     index     // source and slot -> position in contexts, of high slots
	placement Placement // scratch
	queue     controlQueue
	ack       ackTemplate
}

// context is the state of the latest QP of a slot at its receiver.
type context struct {
	qpn     uint32
	next    uint32       // expected PSN
	msn     uint32       // messages completed
	gapBy   fabric.Label // the path that showed the gap
	writing bool         // between first and last packet of a message
	gap     bool         // a NAK is out for the expected PSN
	ce      bool         // a packet since the last ACK had CE
	send    bool         // the message is a SEND
	rkey    uint32
	message uint64
	length  int64
	got     int64
	cnpAt   fabric.Time // no CNP before
	reorder *reorder    // nil: go-back-N
}

// contexts are kept in blocks, since they are many and never go.
type contexts struct {
	blocks []*[contextBlock]context
	len    int32
}

const contextBlock = 16 // a context is 64 B

func (s *contexts) at(i int32) *context { return &s.blocks[i/contextBlock][i%contextBlock] }

// add makes one more and returns its position.
func (s *contexts) add() int32 {
	if s.len%contextBlock == 0 {
		s.blocks = append(s.blocks, new([contextBlock]context))
	}
	s.len++
	return s.len - 1
}

// receiveData handles a data packet.
func (e *Endpoint) receiveData(now fabric.Time, p *packet) {
	e.stats.DataReceived++
	c := e.contextOf(p)
	if c == nil {
		e.stats.StaleData++
		return
	}
	if p.ce {
		e.stats.CongestionMarks++
		c.ce = true
		if e.cfg.Control == DCQCN && now >= c.cnpAt {
			c.cnpAt = now + e.cfg.CNPInterval
			e.stats.CNPsSent++
			e.queue.push(control{dst: p.src, qpn: p.qpn, label: e.ackLabel(now, p), becn: true, cnp: true})
		}
	}
	if c.reorder != nil {
		e.receiveReordered(now, c, p)
		return
	}
	switch ahead := psnDiff(p.psn, c.next); {
	case ahead < 0: // the sender went back further than it had to, or an ACK was lost
		e.stats.Duplicates++
		if p.ackReq {
			// The sender has heard of all this: a mark is for an ACK that is news.
			ce := c.ce
			e.reply(now, c, p, rocev2.ACK)
			c.ce = ce
		}
		return
	case ahead > 0:
		e.stats.OutOfOrder++
		if !c.gap || e.cfg.NakPerPath && c.gapBy != p.label {
			c.gap, c.gapBy = true, p.label
			e.stats.NaksSent++
			e.reply(now, c, p, rocev2.NAKSequenceError)
		}
		return
	}
	var was context
	if e.cfg.Place != nil {
		was = *c
	}
	if !c.take(p) {
		e.stats.Malformed++
		return
	}
	payload := p.tail - p.pad - rocev2.ICRCSize
	if e.cfg.Place != nil && payload > 0 {
		if as := e.place(now, c, p, payload); as != Placed {
			*c = was
			c.gap, c.gapBy = true, p.label // what comes behind it needs no NAK of its own
			e.stats.Refused++
			e.reply(now, c, p, as.syndrome())
			return
		}
	}
	c.gap = false
	c.next = (c.next + 1) & psnMask
	c.got += int64(payload)
	e.stats.BytesDelivered += uint64(payload)
	complete := !c.writing
	if complete {
		c.msn = (c.msn + 1) & psnMask
	}
	if p.ackReq {
		e.reply(now, c, p, rocev2.ACK)
	}
	if complete && c.length > 0 {
		e.stats.Delivered++
		e.handler.Delivered(now, p.src, c.message, c.length)
	}
}

// contextOf returns the state of the packet's QP, fresh if the QP is new, or nil
// if there has been a newer one.
func (e *Endpoint) contextOf(p *packet) *context {
	at := e.contextAt(p.src, p.qpn&slotMask)
	if at >= 0 {
		c := e.contexts.at(at)
		if c.qpn == p.qpn {
			return c
		}
		if int8(uint8(p.qpn>>slotBits)-uint8(c.qpn>>slotBits)) < 0 {
			return nil
		}
	} else {
		at = e.contexts.add()
		e.keepContext(p.src, p.qpn&slotMask, at)
	}
	c := e.contexts.at(at)
	*c = context{qpn: p.qpn, next: e.cfg.InitialPSN(p.src, e.cfg.Host, p.qpn) & psnMask, reorder: c.reorder}
	if e.cfg.Receiver != GoBackN {
		if c.reorder == nil {
			c.reorder = &reorder{}
		}
		c.reorder.begin()
	}
	return c
}

// contextAt returns the position of a slot's state, -1 if it has none.
func (e *Endpoint) contextAt(src fabric.NodeID, slot uint32) int32 {
	if i := slot - reservedQPs; i < nearContexts {
		if p := e.find(src); p >= 0 {
			return e.peers[p].contexts[i] - 1
		}
		return -1
	}
	return e.known.get(uint64(src)<<slotBits | uint64(slot))
}

// keepContext notes where a slot's state is, which had none.
func (e *Endpoint) keepContext(src fabric.NodeID, slot uint32, at int32) {
	if i := slot - reservedQPs; i < nearContexts {
		e.peers[e.meet(src)].contexts[i] = at + 1
		return
	}
	e.known.put(uint64(src)<<slotBits|uint64(slot), at)
}

// take checks a packet in sequence against the state of its message, and begins
// or ends the message. The packet's payload is not yet in c.got.
func (c *context) take(p *packet) bool {
	payload := int64(p.tail - p.pad - rocev2.ICRCSize)
	if payload < 0 {
		return false
	}
	first, last := p.opcode.Starts(), p.opcode.Ends()
	if first == c.writing {
		return false
	}
	if p.opcode <= rocev2.SendOnly {
		return c.takeSend(payload, first, last)
	}
	if !first && c.send {
		return false
	}
	length, got := c.length, c.got
	if first {
		if len(p.rest) < rocev2.RETHSize {
			return false
		}
		length, got = int64(rocev2.RETH(p.rest).Length()), 0
	}
	if sum := got + payload; last && sum != length || !last && sum >= length {
		return false
	}
	if first {
		c.message, c.length, c.got = rocev2.RETH(p.rest).VirtualAddress(), length, 0
		c.rkey, c.send = rocev2.RETH(p.rest).RKey(), false
	}
	c.writing = !last
	return true
}

// takeSend is take for a SEND, whose length its last packet tells. Only a message
// of one packet may be empty.
func (c *context) takeSend(payload int64, first, last bool) bool {
	if !first && !c.send || payload == 0 && (!first || !last) {
		return false
	}
	if first {
		c.message, c.rkey, c.got, c.send = 0, 0, 0, true
	}
	if c.length = c.got + payload; c.length > MaxMessage {
		return false
	}
	c.writing = !last
	return true
}

// reply queues an ACK for all packets before the expected one, or a NAK for it.
func (e *Endpoint) reply(now fabric.Time, c *context, p *packet, syndrome rocev2.Syndrome) {
	psn, becn := c.next, c.ce
	if syndrome == rocev2.ACK {
		psn, c.ce = psn-1, false
	}
	e.queue.push(control{
		dst: p.src, qpn: p.qpn, psn: psn, msn: c.msn, label: e.ackLabel(now, p), syndrome: syndrome, becn: becn,
	})
}

// ackLabel returns the label of a control packet that a data packet causes.
func (e *Endpoint) ackLabel(now fabric.Time, p *packet) fabric.Label {
	if e.cfg.AckLabel != nil && p.label < e.ack.span {
		return e.cfg.AckLabel(now, p.src, p.label, p.rerouted)
	}
	return p.label
}

// control is a control packet to be sent.
type control struct {
	dst      fabric.NodeID
	qpn      uint32
	psn      uint32
	msn      uint32
	label    fabric.Label
	syndrome rocev2.Syndrome
	becn     bool
	cnp      bool
}

// cnpReserved is how many zero bytes follow a CNP's BTH.
const cnpReserved = 16

// ackTemplate is an ACK's header bytes to be completed, to the host itself.
type ackTemplate struct {
	hdr   [stackLen + rocev2.AETHSize]byte
	ipSum uint32 // without the destination
	span  fabric.Label
}

func (t *ackTemplate) init(st *stack, c *Config) error {
	t.span = c.Fabric.LabelSpan()
	if err := st.encode(t.hdr[:], c, c.Host, rocev2.Acknowledge, 0); err != nil {
		return err
	}
	if !st.ipv6 {
		clear(t.hdr[etherLen+16 : etherLen+20])
		t.ipSum = st.ipSum(t.hdr[:])
	}
	return nil
}

// buildAck writes the next control packet.
func (e *Endpoint) buildAck(dst []byte) Frame {
	k := e.queue.pop()
	st := &e.stack
	n := copy(dst, e.ack.hdr[:st.len+rocev2.AETHSize])
	if k.cnp {
		n = st.len + cnpReserved
		dst[st.bth] = byte(rocev2.CNP)
		clear(dst[st.len:n])
	}
	st.setDst(dst, e.cfg.Fabric, k.dst)
	st.setLabel(dst, k.label)
	sum := e.ack.ipSum
	if !st.ipv6 {
		sum += uint32(binary.BigEndian.Uint16(dst[etherLen+16:])) + uint32(binary.BigEndian.Uint16(dst[etherLen+18:]))
	}
	st.setLength(dst, n-st.bth+rocev2.ICRCSize, sum)
	b := rocev2.BTH(dst[st.bth:st.len])
	b.SetBECN(k.becn)
	putUint24(b[bthDestQP:], k.qpn)
	b.SetPSN(k.psn)
	if !k.cnp {
		rocev2.AETH(dst[st.len:n]).Encode(&rocev2.AETHFields{Syndrome: k.syndrome, MSN: k.msn})
	}
	return Frame{Len: n, Tail: rocev2.ICRCSize, Control: true}
}

// controlQueue is a ring buffer that grows.
type controlQueue struct {
	ring  []control // a power of two of them
	first int
	len   int
}

func (q *controlQueue) push(k control) {
	if q.len == len(q.ring) {
		ring := make([]control, max(8, 2*len(q.ring)))
		n := copy(ring, q.ring[q.first:])
		copy(ring[n:], q.ring[:q.first])
		q.ring, q.first = ring, 0
	}
	q.ring[(q.first+q.len)&(len(q.ring)-1)] = k
	q.len++
}

func (q *controlQueue) pop() control {
	k := q.ring[q.first]
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.len--
	return k
}
