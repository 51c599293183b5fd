package nic

import (
	"fmt"
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
)

const never = fabric.Time(math.MaxInt64)

// Message is what a QP is opened for.
type Message struct {
	QP   QP     // not in use, in any past use either if stale events are to be told apart
	ID   uint64 // handed over to the receiver with the message, in the RETH's address
	RKey uint32 // goes into the RETH with it
	// Send asks for a SEND instead of an RDMA WRITE: the message goes to a buffer
	// that the receiver chooses, and has no ID.
	Send  bool
	Dst   fabric.NodeID // another host
	Bytes int64         // of payload, up to MaxMessage; 0: a probe, which nobody is told of but its sender
	// Label goes into the source port (and the flow label). Traffic that is not
	// to be source-routed takes one at or above the fabric's LabelSpan.
	Label fabric.Label
	Start fabric.Time // nothing is sent before
	// Balanced asks Config.Balancer for the label of every data packet.
	Balanced bool
}

// requester is the sending half of an endpoint.
type requester struct {
	template [stackLen]byte // headers of a data packet to nobody in particular
	byID     index          // QP -> position in qps
	qps      []*qp
	free     []int32 // positions in qps
	open     int
	peers    []peer
	toPos    index // destination -> position in peers

	head, tail *qp    // QPs that may have something to send now, in turn
	paced      timers // QPs that have something to send later
	expiring   timers // retransmission timers, each no later than its QP's deadline
}

// reservedQPs is how many of the lowest queue pair numbers InfiniBand keeps for
// management.
const reservedQPs = 2

// peer is a destination's slots, each with its generation and QP.
type peer struct {
	slots []slot
	free  []uint16
}

type slot struct {
	generation uint8
	qp         *qp // nil: free
}

// Where a QP is queued for sending.
type place uint8

const (
	nowhere place = iota
	inTurn        // on the list from requester.head
	inPaced       // in requester.paced
)

// qp is the state of one queue pair at its sender. Packets are counted from 0:
// first the message's, then the nudges.
type qp struct {
	hdr   [stackLen]byte // headers up to BTH, all but length, opcode, flags and PSN
	ipSum uint32

	id       QP
	live     bool
	where    place
	timed    bool // is in requester.expiring
	balanced bool // Config.Balancer labels its packets
	failed   bool // the responder refused it: nothing more is sent
	pos      int32
	peer     int32
	qpn      uint32
	next     *qp // in turn
	message  uint64
	rkey     uint32
	send     bool // SEND, not WRITE
	bytes    int64

	firstPSN  uint32
	data      int32 // packets of the message
	nudges    int32
	lastBytes int32 // payload of the message's last packet
	unacked   int32 // first packet not acknowledged
	nextOut   int32 // next packet to send
	sent      int32 // packets sent at least once

	sendAt   fabric.Time // earliest time of the next packet
	expireAt fabric.Time // retransmission deadline
	rate     rate
	more     *more // nil unless the QP needs it, so that most stay small
}

// more is the state of QPs that are balanced, or have receivers that reorder, or
// DCQCN.
type more struct {
	timing    timing     // of balanced QPs
	selective *selective // nil: go-back-N
	dcqcn     *dcqcn     // nil: another control
}

// more returns a new QP's further state, recycled if q has had some before.
func (e *Endpoint) more(q *qp) *more {
	if !q.balanced && e.cfg.Receiver == GoBackN && e.cfg.Control != DCQCN {
		return nil
	}
	m := q.more
	if m == nil {
		m = &more{}
	}
	m.timing = timing{}
	if e.cfg.Receiver != GoBackN {
		if m.selective == nil {
			m.selective = &selective{}
		}
		m.selective.begin(e.threshold(q))
	}
	if e.cfg.Control == DCQCN {
		if m.dcqcn == nil {
			m.dcqcn = &dcqcn{}
		}
		*m.dcqcn = dcqcn{}
	}
	return m
}

// selective returns what the QP has for receivers that reorder; nil: go-back-N.
func (q *qp) selective() *selective {
	if q.more == nil {
		return nil
	}
	return q.more.selective
}

func (q *qp) total() int32 { return q.data + q.nudges }

// goBack makes the first unacknowledged packet the next to send. The message's
// packets will show a gap by themselves, so nudges are not repeated.
func (q *qp) goBack() {
	q.nextOut = q.unacked
	q.nudges = 0
	if q.more != nil {
		q.more.timing.packet = 0 // its ACK could be for either copy
	}
}

// payload returns the bytes of data in packets from up to below to.
func (q *qp) payload(from, to int32, mtu int64) int64 {
	to = min(to, q.data)
	if from >= to {
		return 0
	}
	n := int64(to-from) * mtu
	if to == q.data {
		n -= mtu - int64(q.lastBytes)
	}
	return n
}

// Open makes a QP that sends m. The error wraps [ErrMessage].
func (e *Endpoint) Open(now fabric.Time, m Message) error {
	if m.Bytes < 0 || m.Bytes > MaxMessage {
		return fmt.Errorf("%w: %d bytes; a queue pair carries 0 to %d", ErrMessage, m.Bytes, MaxMessage)
	}
	mtu := int64(e.cfg.MTU)
	packets := max(1, (m.Bytes+mtu-1)/mtu)
	if packets > maxPackets {
		return fmt.Errorf("%w: %d packets; use an MTU above %d", ErrMessage, packets, m.Bytes/maxPackets)
	}
	if m.Dst < 0 || int(m.Dst) >= e.cfg.Fabric.Hosts() || m.Dst == e.cfg.Host {
		return fmt.Errorf("%w: to node %d; use a host other than %d", ErrMessage, m.Dst, e.cfg.Host)
	}
	if m.Balanced && e.cfg.Balancer == nil {
		return fmt.Errorf("%w: it is to be balanced by nobody; set Config.Balancer", ErrMessage)
	}
	if e.byID.get(uint64(m.QP)) >= 0 {
		return fmt.Errorf("%w: queue pair %d is open already", ErrMessage, m.QP)
	}
	p := e.toPos.get(uint64(m.Dst))
	if p < 0 {
		p = int32(len(e.peers))
		e.peers = append(e.peers, peer{})
		e.toPos.put(uint64(m.Dst), p)
	}
	s, ok := e.peers[p].take()
	if !ok {
		return fmt.Errorf("%w: %d queue pairs to node %d are open; wait for some to finish", ErrMessage, slotMask-reservedQPs, m.Dst)
	}
	q := e.newQP()
	e.peers[p].slots[s].qp = q
	q.id, q.live, q.peer, q.balanced, q.failed = m.QP, true, p, m.Balanced, false
	q.qpn = qpNumber(uint32(s), e.peers[p].slots[s].generation)
	q.message, q.rkey, q.send, q.bytes = m.ID, m.RKey, m.Send, m.Bytes
	q.firstPSN = e.cfg.InitialPSN(e.cfg.Host, m.Dst, q.qpn) & psnMask
	q.data = int32(packets)
	q.lastBytes = int32(m.Bytes - int64(q.data-1)*mtu)
	q.nudges, q.unacked, q.nextOut, q.sent = 0, 0, 0, 0
	q.sendAt, q.expireAt = m.Start, never
	q.rate = newRate(e)
	q.more = e.more(q)
	copy(q.hdr[:], e.template[:])
	e.stack.setDst(q.hdr[:], e.cfg.Fabric, m.Dst)
	e.stack.setLabel(q.hdr[:], m.Label)
	putUint24(q.hdr[e.stack.bth+bthDestQP:], q.qpn)
	q.ipSum = e.stack.ipSum(q.hdr[:])
	e.byID.put(uint64(m.QP), q.pos)
	e.open++
	e.stats.QPsOpened++
	e.stats.QPsPeak = max(e.stats.QPsPeak, e.open)
	if q.sendAt > now {
		q.where = inPaced
		e.paced.push(q.sendAt, q)
	} else {
		e.enqueue(q)
	}
	return nil
}

// Relabel moves an open QP to another path. The error wraps [ErrUnknown]: the
// QP may have finished in the meantime.
func (e *Endpoint) Relabel(id QP, l fabric.Label) error {
	pos := e.byID.get(uint64(id))
	if pos < 0 {
		return fmt.Errorf("%w: %d", ErrUnknown, id)
	}
	q := e.qps[pos]
	e.stack.setLabel(q.hdr[:], l)
	if !e.cfg.NoNudge && q.unacked < q.sent && q.nextOut == q.total() {
		q.nudges++
		e.stats.Nudges++
		e.activate(q)
	}
	return nil
}

// Close ends a QP whose message is of no interest any more. The error wraps
// [ErrUnknown].
func (e *Endpoint) Close(id QP) error {
	pos := e.byID.get(uint64(id))
	if pos < 0 {
		return fmt.Errorf("%w: %d", ErrUnknown, id)
	}
	e.release(e.qps[pos])
	return nil
}

// Label returns the label that the QP's packets carry.
func (e *Endpoint) Label(id QP) (fabric.Label, bool) {
	pos := e.byID.get(uint64(id))
	if pos < 0 {
		return 0, false
	}
	return e.stack.label(e.qps[pos].hdr[:]), true
}

// ByNumber returns the QP to dst that has a number on the wire, as a quench or
// a CNP names it.
func (e *Endpoint) ByNumber(dst fabric.NodeID, qpn uint32) (QP, bool) {
	if q := e.lookup(dst, qpn); q != nil {
		return q.id, true
	}
	return 0, false
}

func (e *Endpoint) lookup(dst fabric.NodeID, qpn uint32) *qp {
	p := e.toPos.get(uint64(dst))
	if p < 0 {
		return nil
	}
	s := qpn & slotMask
	if slots := e.peers[p].slots; int(s) < len(slots) && slots[s].generation == uint8(qpn>>slotBits) {
		return slots[s].qp
	}
	return nil
}

func (p *peer) take() (s uint16, ok bool) {
	if n := len(p.free); n > 0 {
		s = p.free[n-1]
		p.free = p.free[:n-1]
		return s, true
	}
	if p.slots == nil {
		p.slots = make([]slot, reservedQPs, 2*reservedQPs)
	}
	if len(p.slots) >= slotMask { // the last one is multicast's
		return 0, false
	}
	p.slots = append(p.slots, slot{})
	return uint16(len(p.slots) - 1), true
}

func (e *Endpoint) newQP() *qp {
	if n := len(e.free); n > 0 {
		q := e.qps[e.free[n-1]]
		e.free = e.free[:n-1]
		return q
	}
	q := &qp{pos: int32(len(e.qps))}
	e.qps = append(e.qps, q)
	return q
}

// release ends a QP. One that is still queued for sending is recycled when its
// turn comes; one in the timers' heap may be used again meanwhile, since the
// heap only ever holds a time too early.
func (e *Endpoint) release(q *qp) {
	p := &e.peers[q.peer]
	s := q.qpn & slotMask
	p.slots[s].generation++
	p.slots[s].qp = nil
	p.free = append(p.free, uint16(s))
	e.byID.remove(uint64(q.id))
	q.live = false
	q.expireAt = never
	e.open--
	if q.where == nowhere {
		e.free = append(e.free, q.pos)
	}
}

// activate queues a QP that has something to send.
func (e *Endpoint) activate(q *qp) {
	if q.where != nowhere {
		return
	}
	if _, ok := e.pick(q); ok {
		e.enqueue(q)
	}
}

func (e *Endpoint) enqueue(q *qp) {
	q.where = inTurn
	q.next = nil
	if e.head == nil {
		e.head = q
	} else {
		e.tail.next = q
	}
	e.tail = q
}

// nextData lets the QPs whose turn it is send, until one does.
func (e *Endpoint) nextData(now fabric.Time, dst []byte) (Frame, bool) {
	for e.head != nil {
		q := e.head
		e.head = q.next
		q.where = nowhere
		if !q.live {
			e.free = append(e.free, q.pos)
			continue
		}
		i, ok := e.pick(q)
		switch {
		case !ok:
			continue
		case q.sendAt > now:
			q.where = inPaced
			e.paced.push(q.sendAt, q)
			continue
		}
		f := e.buildData(q, i, dst)
		if q.balanced {
			e.stack.setLabel(dst, e.cfg.Balancer.Label(now, q.id))
		}
		if i == q.sent {
			if q.balanced {
				q.more.timing.sent(now, i)
			}
			q.sent++
		} else {
			e.stats.Retransmissions++
		}
		if i == q.nextOut {
			q.nextOut++
		} else {
			q.more.repeated(i)
		}
		e.stats.DataSent++
		if q.more != nil && q.more.dcqcn != nil {
			q.more.dcqcn.sent(e, &q.rate, now, int64(f.Len+f.Tail))
		}
		q.sendAt = now + e.gap(q, f.Len+f.Tail)
		if !e.cfg.RTOByAck && q.selective() == nil || q.expireAt == never {
			e.restart(now, q)
		}
		if _, ok := e.pick(q); ok {
			e.enqueue(q)
		}
		return f, true
	}
	return Frame{}, false
}

// buildData writes the headers of the QP's packet i.
func (e *Endpoint) buildData(q *qp, i int32, dst []byte) Frame {
	st := &e.stack
	payload, last := e.cfg.MTU, i == q.data-1
	opcode := rocev2.WriteMiddle
	switch {
	case i >= q.data:
		payload, opcode, last = 0, rocev2.WriteOnly, true
	case last && i == 0:
		payload, opcode = int(q.lastBytes), rocev2.WriteOnly
	case last:
		payload, opcode = int(q.lastBytes), rocev2.WriteLast
	case i == 0:
		opcode = rocev2.WriteFirst
	}
	n := copy(dst, q.hdr[:st.len])
	write := true
	if q.send && i < q.data {
		opcode, write = sendOpcode(opcode), false
	}
	b := rocev2.BTH(dst[st.bth:n])
	b[0] = byte(opcode)
	pad := padding(payload)
	b[bthFlags] = migReq | byte(pad)<<padShift
	if last || i < q.sent || e.cfg.AckEvery == 1 || int(i+1)%e.cfg.AckEvery == 0 {
		b[bthAckReq] = ackReq
	}
	b.SetPSN(q.firstPSN + uint32(i))
	if write && opcode.Starts() {
		reth := rocev2.RETHFields{VirtualAddress: q.message, RKey: q.rkey, Length: uint32(q.bytes)}
		if i >= q.data {
			reth.Length = 0
		}
		rocev2.RETH(dst[n:]).Encode(&reth)
		n += rocev2.RETHSize
	}
	tail := payload + pad + rocev2.ICRCSize
	st.setLength(dst, n-st.bth+tail, q.ipSum)
	return Frame{Len: n, Tail: tail, QP: q.id, Packet: i}
}

// sendOpcode returns the SEND that stands where a WRITE does.
func sendOpcode(write rocev2.Opcode) rocev2.Opcode {
	switch write {
	case rocev2.WriteFirst:
		return rocev2.SendFirst
	case rocev2.WriteMiddle:
		return rocev2.SendMiddle
	case rocev2.WriteLast:
		return rocev2.SendLast
	}
	return rocev2.SendOnly
}

// onAck handles an acknowledgement, positive or negative.
func (e *Endpoint) onAck(now fabric.Time, q *qp, p *packet, nak bool) {
	upTo := q.unacked + psnDiff(p.psn, q.firstPSN+uint32(q.unacked))
	if !nak {
		upTo++
	}
	if upTo > q.sent {
		e.stats.Malformed++
		return
	}
	if q.balanced && !nak {
		e.cfg.Balancer.Echo(now, q.id, Echo{p.label, p.becn, q.more.timing.acked(now, q.unacked, upTo)})
	}
	if upTo < q.unacked || !nak && upTo == q.unacked {
		e.stats.StaleAcks++
		return
	}
	newly := upTo - q.unacked
	bytes := q.payload(q.unacked, upTo, int64(e.cfg.MTU))
	q.unacked = upTo
	q.nextOut = max(q.nextOut, upTo)
	if p.becn {
		e.stats.Marked++
	}
	if newly > 0 {
		q.rate.acked(e, q, newly, upTo, p.becn)
	}
	if nak {
		e.stats.NaksTaken++
		q.goBack()
		e.activate(q)
	}
	if q.unacked < q.nextOut {
		e.restart(now, q)
	} else {
		q.expireAt = never
	}
	e.settle(now, q, bytes)
}

// settle reports newly acknowledged bytes, and the end of a QP that has come to
// it.
func (e *Endpoint) settle(now fabric.Time, q *qp, bytes int64) {
	id, done := q.id, q.unacked >= q.data
	if done {
		e.release(q)
		e.stats.QPsDone++
	}
	e.stats.BytesAcked += uint64(bytes)
	if bytes > 0 {
		e.handler.Acked(now, id, bytes)
	}
	if done {
		e.handler.Done(now, id)
	}
}

// restart starts the QP's retransmission timer anew.
func (e *Endpoint) restart(now fabric.Time, q *qp) {
	q.expireAt = now + e.cfg.RTO
	if s := q.selective(); s != nil {
		s.old = q.sent
	}
	if !q.timed {
		q.timed = true
		e.expiring.push(q.expireAt, q)
	}
}

// expire handles what is due: pacing and retransmission timers.
func (e *Endpoint) expire(now fabric.Time) {
	for len(e.paced) > 0 && e.paced[0].at <= now {
		q := e.paced.pop()
		q.where = nowhere
		if q.live {
			e.activate(q)
		} else {
			e.free = append(e.free, q.pos)
		}
	}
	for {
		at, ok := e.nextTimeout()
		if !ok || at > now {
			return
		}
		q := e.expiring.pop()
		q.timed = false
		q.expireAt = never
		if s := q.selective(); s != nil {
			s.expired(q)
			q.more.timing.packet = 0
		} else {
			q.goBack()
		}
		e.stats.Timeouts++
		e.activate(q)
		e.handler.Timeout(now, q.id)
	}
}

// nextTimeout returns the earliest deadline. The heap's times may be too early,
// since restarting a timer does not touch it: those on top are put right.
func (e *Endpoint) nextTimeout() (fabric.Time, bool) {
	for len(e.expiring) > 0 {
		t := e.expiring[0]
		switch {
		case t.qp.expireAt == never:
			t.qp.timed = false
			e.expiring.pop()
		case t.qp.expireAt > t.at:
			e.expiring.postpone(t.qp.expireAt)
		default:
			return t.at, true
		}
	}
	return 0, false
}
