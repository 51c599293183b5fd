package transport

import (
	"fmt"
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

const never = fabric.Time(math.MaxInt64)

// Message is the RDMA WRITE that one QP sends: see [Endpoint.Open].
type Message struct {
	QP QP     // must not be in use. Choose a number that was never used if events of ended QPs must be recognised.
	ID uint64 // the receiver gets it with the message: without RKey it is in the RETH's address
	// RKey and Address go into the RETH: the key of a memory region of the receiver, and an address in it. If RKey is
	// 0, ID takes the address's place.
	RKey    uint32
	Address uint64
	Dst     fabric.NodeID // receiving host, which must be another one
	Bytes   int64         // bytes of payload, up to MaxMessage; 0: a probe, which the receiver does not report
	// Label is the path label, carried in the UDP source port (and the flow label). Packets that no switch should
	// source-route have one of at least the fabric's LabelSpan.
	Label fabric.Label
	Start fabric.Time // earliest time to send
	// Balanced has Config.Balancer choose the label of each data packet.
	Balanced bool
	// Once sends every packet only once, without a retransmission timer. The QP stays open until everything is
	// acknowledged or it is closed.
	Once bool
	// Share is a number of the message's owner. Owners with something to send take turns, however many QPs each has.
	// Small numbers cost less memory. 0: the common default.
	Share uint16
}

// requester is the sending half of an endpoint.
type requester struct {
	template  [stackLen]byte // headers of a data packet without destination
	byID      hashIndex      // QP -> position in qps
	qps       []*qp
	free      []int32 // positions in qps
	unusedQPs []qp    // allocated, and not in qps yet
	open      int
	peerDirectory

	messages *message // for reuse

	paced    timerHeap // QPs that have something to send later
	expiring timerHeap // retransmission timers, each no later than its QP's deadline
}

// maxUnusedQPs is the largest number of QPs allocated at once.
const maxUnusedQPs = 32

// queuePlace is where a QP is queued for sending.
type queuePlace uint8

const (
	notQueued    queuePlace = iota
	inTurn                  // waits for its turn on the list of its port
	inPaced                 // waits in requester.paced for its next sending time
	heldAtSender            // in its message: an older message to the same peer goes first
	notConnected            // in its peer's session, which is not ready
)

// qp is the state of one queue pair at its sender. Packets are counted from 0:
// first the message's, then the nudges.
type qp struct {
	hdr   [stackLen]byte // headers up to BTH, all but length, opcode, flags and PSN
	ipSum uint32

	id       QP
	live     bool
	where    queuePlace
	timed    bool // is in requester.expiring
	balanced bool // Config.Balancer labels its packets
	failed   bool // the responder refused it: nothing more is sent
	untimed  bool // no timer runs
	moved    bool // marks of packets on its former path do not concern the present one
	port     uint8
	share    uint16
	pos      int32
	peer     int32
	dst      fabric.NodeID
	qpn      uint32
	next     *qp // in turn, or held
	message  uint64
	of       *message // nil: the QP has sent all packets once, or is a probe
	rkey     uint32
	address  uint64
	bytes    int64
	unacked  int64 // of bytes

	firstPSN    uint32
	session     uint32 // its peer's, by which it is numbered; 0: none yet
	dataPackets int32  // packets of the message
	nudges      int32
	lastBytes   int32 // payload of the message's last packet
	sndUna      int32 // first packet that is not acknowledged
	sndNxt      int32 // next packet to send
	sent        int32 // packets sent at least once
	once        int32 // packets from this one on were sent at most once

	sendAt   fabric.Time // earliest time of the next packet
	heldTo   fabric.Time // sendAt is not earlier: the message's start, or the end of a [Endpoint.Hold]
	expireAt fabric.Time // retransmission deadline
	// timerFrom is the time of the last answer, or of the first packet after it. Under go-back-N packets restart the
	// timer for one RTO after that: a QP that goes on sending to a receiver that drops what comes has its time-out too.
	timerFrom fabric.Time
	expiries  uint8 // of the timer, since something was acknowledged
	tail      tailProbe
	rate      rateState
	rounds    dctcpState // of DCTCP
	cwnd      int32      // largest number of packets in flight
	state     *qpExtra   // nil unless the QP needs it, so that most stay small
}

func (q *qp) totalPackets() int32 { return q.dataPackets + q.nudges }

// payload returns the bytes of data in the packets from `from` up to, not including, `to`.
func (q *qp) payload(from, to int32, mtu int64) int64 {
	to = min(to, q.dataPackets)
	if from >= to {
		return 0
	}
	n := int64(to-from) * mtu
	if to == q.dataPackets {
		n -= mtu - int64(q.lastBytes)
	}
	return n
}

// Open opens a QP that sends message m. The error wraps [ErrMessage].
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
	p := e.findOrAdd(m.Dst)
	s, ok := e.peers[p].takeSlot()
	if !ok {
		return fmt.Errorf("%w: %d queue pairs to node %d are open; wait for some to finish", ErrMessage, slotMask-reservedQPs, m.Dst)
	}
	q := e.newQP()
	sl := e.peers[p].slotAt(uint32(s))
	sl.qp = q
	q.id, q.live, q.peer, q.dst, q.balanced, q.failed, q.untimed = m.QP, true, p, m.Dst, m.Balanced, false, m.Once
	q.qpn = qpNumber(uint32(s), sl.generation)
	q.message, q.rkey, q.address, q.bytes, q.unacked = m.ID, m.RKey, m.Address, m.Bytes, m.Bytes
	if m.Once { // what is lost is never acknowledged: nothing waits for it
		q.unacked = 0
	}
	if m.RKey == 0 {
		q.address = m.ID
	}
	if q.session = 0; e.sessions == nil {
		q.firstPSN = e.cfg.InitialPSN(e.cfg.Host, m.Dst, q.qpn) & psnMask
	}
	q.dataPackets = int32(packets)
	q.lastBytes = int32(m.Bytes - int64(q.dataPackets-1)*mtu)
	q.nudges, q.sndUna, q.sndNxt, q.sent, q.once = 0, 0, 0, 0, 0
	q.sendAt, q.heldTo, q.expireAt, q.expiries = m.Start, m.Start, never, 0
	q.moved = false
	q.tail.open()
	q.rate = rateState{e.cfg.LineRate, e.fullPacketTime}
	if q.balanced {
		q.extraState().timing = packetTiming{}
	}
	e.transport.open(q)
	e.control.pacer.open(q)
	if e.keepsSends {
		q.extraState().sentPackets.reset()
	}
	copy(q.hdr[:], e.template[:])
	e.stack.setDst(q.hdr[:], e.cfg.Fabric, m.Dst)
	e.stack.setLabel(q.hdr[:], m.Label)
	q.port, q.share = uint8(e.portOf(m.Label)), m.Share
	putUint24(q.hdr[e.stack.bth+bthDestQP:], q.qpn)
	q.ipSum = e.stack.ipSum(q.hdr[:])
	e.byID.put(uint64(m.QP), q.pos)
	e.open++
	e.stats.QPsOpened++
	e.stats.QPsPeak = max(e.stats.QPsPeak, e.open)
	q.of = nil
	switch {
	case m.Bytes > 0 && !e.joinMessage(q): // an older message goes first
	case q.sendAt > now:
		q.where = inPaced
		e.paced.push(q.sendAt, q)
	default:
		e.enqueue(q)
	}
	return nil
}

// Relabel moves an open QP to the path with label l. The error wraps [ErrUnknown] if no such QP is open; it may have
// finished meanwhile.
func (e *Endpoint) Relabel(id QP, l fabric.Label) error {
	pos := e.byID.get(uint64(id))
	if pos < 0 {
		return fmt.Errorf("%w: %d", ErrUnknown, id)
	}
	q := e.qps[pos]
	e.stack.setLabel(q.hdr[:], l)
	e.changePort(q, l)
	q.tail.becomeIdle() // it waits anew, from its next packet on
	if _, more := e.transport.pick(q); e.cfg.ProbeOnFlip && !more && q.sndUna < q.sent {
		e.wakeQP(q)
	}
	return nil
}

// wakeQP makes a QP send one more packet, whatever its window: the next one, or a zero-length WRITE behind the last. If
// the receiver has no room for the next one, the last one is repeated, as RFC 8985's tail loss probe is.
func (e *Endpoint) wakeQP(q *qp) {
	switch {
	case q.sndNxt == q.totalPackets():
		q.nudges++
		e.stats.Nudges++
	case q.sndNxt >= q.sndUna+e.maxPacketSpan:
		e.transport.repeat(q, q.sndNxt-1)
	}
	q.tail.sendLimit = q.sndNxt + 1
	e.activate(q)
}

// Resend makes an open QP retransmit its packets in flight at once, because its path is dead. Call it before
// [Endpoint.Relabel]. The error wraps [ErrUnknown].
func (e *Endpoint) Resend(id QP) error {
	pos := e.byID.get(uint64(id))
	if pos < 0 {
		return fmt.Errorf("%w: %d", ErrUnknown, id)
	}
	q := e.qps[pos]
	q.expiries = 0 // on another path
	e.transport.lost(q)
	e.activate(q)
	return nil
}

// Restart makes an open QP continue as a new QP on another path would: at line rate and, if its receiver accepts
// packets only in order, starting with its packets in flight. Call it before [Endpoint.Relabel]. The error wraps
// [ErrUnknown].
func (e *Endpoint) Restart(id QP) error {
	pos := e.byID.get(uint64(id))
	if pos < 0 {
		return fmt.Errorf("%w: %d", ErrUnknown, id)
	}
	q := e.qps[pos]
	if e.inOrder {
		e.transport.lost(q)
	}
	if e.control.credit == nil { // a receiver's grants stay valid
		q.moved, q.rate = true, rateState{e.cfg.LineRate, e.fullPacketTime}
		e.control.pacer.open(q)
	}
	e.activate(q)
	return nil
}

// Hold makes an open QP send nothing before the time until. The error wraps [ErrUnknown].
func (e *Endpoint) Hold(id QP, until fabric.Time) error {
	pos := e.byID.get(uint64(id))
	if pos < 0 {
		return fmt.Errorf("%w: %d", ErrUnknown, id)
	}
	q := e.qps[pos]
	q.sendAt, q.heldTo = max(q.sendAt, until), max(q.heldTo, until)
	return nil
}

// Close ends a QP whose message is no longer needed. The error wraps [ErrUnknown].
func (e *Endpoint) Close(id QP) error {
	pos := e.byID.get(uint64(id))
	if pos < 0 {
		return fmt.Errorf("%w: %d", ErrUnknown, id)
	}
	e.release(e.qps[pos])
	return nil
}

// Label returns the path label that a QP's packets carry now; false if it is not open.
func (e *Endpoint) Label(id QP) (fabric.Label, bool) {
	pos := e.byID.get(uint64(id))
	if pos < 0 {
		return 0, false
	}
	return e.stack.label(e.qps[pos].hdr[:]), true
}

// ByNumber returns the open QP to dst that has the given number on the wire, as a quench or a CNP names it.
func (e *Endpoint) ByNumber(dst fabric.NodeID, qpn uint32) (QP, bool) {
	if e.sessions != nil {
		qpn = e.sessions[dst].numberOf(qpn)
	}
	if q := e.lookup(dst, qpn); q != nil {
		return q.id, true
	}
	return 0, false
}

func (e *Endpoint) lookup(dst fabric.NodeID, qpn uint32) *qp {
	p := e.find(dst)
	if p < 0 {
		return nil
	}
	if s := e.peers[p].slotAt(qpn & slotMask); s != nil && s.generation == uint8(qpn>>slotBits) {
		return s.qp
	}
	return nil
}

func (e *Endpoint) newQP() *qp {
	if n := len(e.free); n > 0 {
		q := e.qps[e.free[n-1]]
		e.free = e.free[:n-1]
		return q
	}
	if len(e.unusedQPs) == 0 { // allocate as many as exist: hosts have one or hundreds
		e.unusedQPs = make([]qp, min(max(1, len(e.qps)), maxUnusedQPs))
	}
	q := &e.unusedQPs[0]
	e.unusedQPs = e.unusedQPs[1:]
	q.pos = int32(len(e.qps))
	e.qps = append(e.qps, q)
	return q
}

// release ends a QP. A QP that is still queued for sending is recycled at its turn, or its message's. A QP in the
// timers' heap may be reused meanwhile, since the heap's times are at worst too early.
func (e *Endpoint) release(q *qp) {
	if q.where == notConnected {
		e.sessions[q.dst].remove(q)
	}
	queued := q.where != notQueued // leaveMessage recycles the QPs that it held back
	e.giveUp(q)
	p := &e.peers[q.peer]
	s := q.qpn & slotMask
	sl := p.slotAt(s)
	sl.generation++
	sl.qp = nil
	p.free = append(p.free, uint16(s))
	e.byID.remove(uint64(q.id))
	q.live = false
	q.expireAt = never
	e.open--
	if !queued {
		e.free = append(e.free, q.pos)
	}
}
