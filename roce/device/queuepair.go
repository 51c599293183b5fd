//go:build linux

package device

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// queuePair is a program's queue pair.
type queuePair struct {
	n      *NIC
	c      *client
	number uint32
	typ    uint64
	pd     *protectionDomain
	sendCQ *completionQueue
	recvCQ *completionQueue
	srq    *sharedReceive
	cookie uint64
	sigAll bool

	mem                *sharedMemory
	sq, rq             sharedRing
	slot               []byte // a copy of a work request
	sendSGEs, recvSGEs int
	inline             int

	state    uint64
	access   uint64
	peer     uint32 // its queue pair's number
	dst      fabric.NodeID
	timeout  uint64 // 4.096 us * 2^timeout
	retries  uint64
	rnr      uint64 // retries, 7: for ever
	minRNR   uint64
	maxReads uint64
	maxDest  uint64
	qkey     uint32
	sqPSN    uint32
	rqPSN    uint32

	touched    bool
	grams      int          // datagrams under way
	gram       *sendRequest // whose bytes are read aside; the requests behind it wait
	generation int          // grows when the queue pair is destroyed or reset

	// As requester.
	requests outStream
	answers  inStream
	sent     []*request // taken from the program and not complete, in order
	msn      uint32     // of the next request
	reads    int        // reads and atomics under way
	asked    bool       // whether all up to askedMSN is complete
	askedMSN uint32
	rnrAt    fabric.Time
	rnrMSN   uint32

	// As responder.
	inbound   inStream
	responses outStream
	ackDue    bool
	ackMSN    uint32
}

// request is a send work request in progress.
type request struct {
	id       uint64
	op       uint32
	msn      uint32
	bytes    uint32
	signaled bool
	done     bool
	status   status
	sges     []sge // where a read's data and an atomic's result go
	unplaced bool  // they have no place that the program may write to
}

func (r *request) fetches() bool { return fetchesData(r.op) }

// processRequests processes the program's work requests, and acknowledges those of the other side.
func (q *queuePair) processRequests(now fabric.Time) {
	if q.n.qps[q.number] != q {
		return // destroyed meanwhile
	}
	if q.state == uverbs.QPSErr {
		q.flushRequests()
	} else if r, _, _ := q.receiveRing(); q.inbound.blocked && r.waiting() > 0 {
		q.inbound.resume(now)
	}
	if q.ackDue {
		q.ackDue = false
		q.sendResponse(&header{op: msgAck, msn: q.ackMSN}, messageContent{})
	}
	if q.state == uverbs.QPSRTS {
		q.takeRequests(now)
		q.n.sendStream(now, &q.requests)
	}
	q.n.sendStream(now, &q.responses)
	q.retireRequests()
}

// takeRequests starts work requests while there is room in the stream.
func (q *queuePair) takeRequests(now fabric.Time) {
	for q.state == uverbs.QPSRTS && q.sq.waiting() > 0 && q.hasRoom(now) {
		r, ok := parseSend(append([]byte(nil), q.sq.slot(q.sq.index)...), q.sendSGEs, q.inline)
		if ok && q.heldByFence(&r) {
			return
		}
		q.sq.index++
		if q.typ == qptUD {
			q.sendDatagram(now, &r, ok)
			continue
		}
		q.begin(now, &r, ok)
	}
}

// hasRoom returns whether another request may be taken. Requests that wait stay in the program's memory.
func (q *queuePair) hasRoom(now fabric.Time) bool {
	if q.typ != qptUD {
		return q.requests.room()
	}
	if q.gram != nil {
		return false
	}
	if q.grams < maxSending && len(q.n.sending) < maxAllSending {
		return true
	}
	q.n.waitForSession(q) // datagrams of others may be in the way
	return false
}

// heldByFence reports whether a request has to wait for reads and atomics before it.
func (q *queuePair) heldByFence(r *sendRequest) bool {
	if isLocal(r.opcode) {
		return !q.noneOutstanding()
	}
	return q.reads > 0 && (r.flags&sendFence != 0 || fetchesData(r.opcode) && uint64(q.reads) >= max(1, q.maxReads))
}

// begin appends a request's message to the stream.
func (q *queuePair) begin(now fabric.Time, r *sendRequest, ok bool) {
	n := totalLength(r.sges) + uint64(len(r.inline))
	w := &request{id: r.id, op: min(r.opcode, wrSendInv), msn: q.msn, bytes: uint32(n), signaled: q.sigAll || r.flags&sendSignaled != 0}
	q.sent = append(q.sent, w)
	if ok && isLocal(r.opcode) {
		if st := q.doLocal(r); st != wcSuccess {
			q.failWith(now, st)
			return
		}
		w.done = true
		q.n.touchQueuePair(q)
		return
	}
	access := uint64(0)
	if w.fetches() {
		access = uverbs.AccessLocalWrite
	}
	sges, valid := q.c.translateSGEs(q.pd, r.sges, access)
	switch {
	case !ok || fetchesData(r.opcode) && r.flags&sendInline != 0:
		q.failWith(now, locQPOpErr)
		return
	case n > maxMessage || fetchesData(r.opcode) && r.opcode != wrRead && n != 8:
		q.failWith(now, locLenErr)
		return
	case !valid && !w.fetches():
		q.failWith(now, locProtErr)
		return
	}
	q.msn++
	h := header{
		op: uint8(r.opcode), msn: w.msn, length: uint32(n), rkey: r.rkey, addr: r.remote, imm: r.imm, a: r.compare, b: r.swap,
	}
	if w.signaled {
		h.flags |= flagAck
	}
	if !valid {
		w.unplaced = true
		h.flags |= flagCheckOnly // the other side's key is looked at first, and its memory left as it is
	}
	if r.flags&sendSolicited != 0 {
		h.flags |= flagSolicited
	}
	if q.rnr != 7 {
		h.flags |= flagTellNotReady
	}
	if r.opcode == wrSendImm || r.opcode == wrWriteImm {
		h.flags |= flagImm
	}
	q.requests.appendContent(messageContent{local: h.append(nil)})
	switch {
	case w.fetches():
		w.sges = sges
		q.reads++
	case len(r.inline) > 0:
		q.requests.appendContent(messageContent{local: r.inline})
	default:
		q.requests.appendContent(messageContent{memory: q.c, sges: sges})
	}
}

// sendResponse appends a message to the stream of responses.
func (q *queuePair) sendResponse(h *header, data messageContent) {
	q.responses.appendContent(messageContent{local: h.append(nil)})
	q.responses.appendContent(data)
	q.n.touchQueuePair(q)
}

// maxLeaving bounds how many queue pairs' answers outlive them.
const maxLeaving = 4096

// leaveDevice has what the other side is still to receive go on without the queue pair: a program that has what it
// wanted destroys it, or ends, before its last acknowledgement has arrived, and an RNIC would have sent that long
// since. Answers that are in the program's memory end with it.
func (q *queuePair) leaveDevice(now fabric.Time) {
	if q.ackDue && q.state >= uverbs.QPSRTR && q.state != uverbs.QPSErr {
		q.ackDue = false
		q.sendResponse(&header{op: msgAck, msn: q.ackMSN}, messageContent{})
	}
	last := q.responses
	ofProgram := func(s segment) bool { return s.memory != nil }
	if last.base == last.next || len(last.refused) > 0 || len(q.n.lingering) >= maxLeaving || slices.ContainsFunc(last.segs, ofProgram) {
		return
	}
	last.q = nil
	for _, f := range q.n.flows {
		if f.s == &q.responses {
			f.s = &last
		}
	}
	q.responses = outStream{q: q}
	q.n.lingering[&last] = now + sessionTimeout
	q.n.checkAt = 0
	q.n.sendStream(now, &last)
}

// requestAcked records that the other side has executed all requests up to an MSN.
func (q *queuePair) requestAcked(msn uint32) {
	for _, w := range q.sent {
		if int32(msn-w.msn) < 0 {
			break
		}
		w.done = w.done || !w.fetches()
	}
	if q.rnrAt != 0 && int32(msn-q.rnrMSN) >= 0 {
		q.rnrAt = 0
	}
	q.n.touchQueuePair(q)
}

// retireRequests reports the completions of requests that are done, in order.
func (q *queuePair) retireRequests() {
	k := 0
	for ; k < len(q.sent) && q.sent[k].done; k++ {
		q.sq.release(1) // before the program sees that it is complete, and posts again
		q.completeRequest(q.sent[k])
	}
	q.sent = q.sent[k:]
}

func (q *queuePair) completeRequest(w *request) {
	if w.signaled || w.status != wcSuccess {
		q.sendCQ.addCompletion(&completion{id: w.id, status: w.status, opcode: wcOpcode(w.op), bytes: w.bytes, qpn: q.number})
	}
}

// failWith ends the queue pair for its program: the first request that is not done has a
// status, and all behind it are flushed.
func (q *queuePair) failWith(now fabric.Time, st status) {
	if q.state == uverbs.QPSErr || q.state == uverbs.QPSReset {
		return
	}
	was := q.state
	q.state = uverbs.QPSErr
	for _, w := range q.sent {
		if !w.done {
			w.done, w.status = true, st
			st = flushErr
		}
	}
	q.n.closeStream(now, &q.requests)
	q.reads, q.rnrAt, q.asked = 0, 0, false
	q.retireRequests()
	q.answers.close()
	if in := q.inbound.in; in != nil && in.recv != nil {
		q.receiveDone(in, flushErr)
	}
	q.inbound.close()
	q.flushRequests()
	if q.srq != nil && was >= uverbs.QPSRTR {
		q.c.event(q.cookie, eventLastWQE)
	}
}

// flushRequests completes work requests that the program posts to a failed queue pair, with status flushed.
func (q *queuePair) flushRequests() {
	// The program may go on posting, and is served again when it says so: what waits now is what ends.
	if r := q.gram; r != nil {
		q.gram = nil
		q.sentDatagram(r, &completion{id: r.id, status: flushErr, opcode: wcSend, qpn: q.number})
	}
	for waits := q.sq.waiting(); waits > 0; waits-- {
		r, _ := parseSend(append([]byte(nil), q.sq.slot(q.sq.index)...), q.sendSGEs, q.inline)
		q.sq.index++
		q.sq.release(1)
		q.sendCQ.addCompletion(&completion{id: r.id, status: flushErr, opcode: wcOpcode(r.opcode), qpn: q.number})
	}
	if q.srq != nil {
		return
	}
	for waits := q.rq.waiting(); waits > 0; waits-- {
		q.rq.take(q.slot)
		q.rq.release(1)
		q.recvCQ.addCompletion(&completion{id: native.Uint64(q.slot), status: flushErr, opcode: wcRecv, qpn: q.number})
	}
}

// sessionTimeout is for how long the other side may be silent, at least: a path that has
// died is left within it.
const sessionTimeout = 2 * fabric.Second

// probeAfter is the time without an answer after which the peer is probed.
const probeAfter = 250 * fabric.Millisecond

// silenceLimit returns for how long nothing may arrive before the queue pair fails; 0: for
// ever.
func (q *queuePair) silenceLimit() fabric.Time {
	if q.timeout == 0 {
		return 0
	}
	return max(sessionTimeout, fabric.Time(4096<<min(q.timeout, 31))*fabric.Time(q.retries+1)*fabric.Nanosecond)
}

// checkRequests handles the timers of a queue pair that waits for the other side. It reports whether the queue pair
// still waits.
func (q *queuePair) checkRequests(now fabric.Time) bool {
	if q.n.qps[q.number] != q {
		return false
	}
	for _, s := range []*outStream{&q.requests, &q.responses} {
		if s.broken {
			s.broken = false
			q.n.closeStream(now, s)
			q.failWith(now, locProtErr)
			q.c.event(q.cookie, eventQPFatal)
			return true
		}
		if limit := q.silenceLimit(); limit > 0 && s.waitsForAcks() && now-s.lastAckedAt > limit {
			switch {
			case s.queued():
				s.lastAckedAt = now
			case s == &q.requests:
				q.failWith(now, retryExcErr)
			default:
				q.n.closeStream(now, s)
			}
		}
		if len(s.refused) > 0 && now >= s.againAt { // after the limit: what is posted now is queued, but not unanswered for that
			q.n.repostStream(now, s)
		}
		s.probePeer(now)
	}
	if q.rnrAt != 0 && now >= q.rnrAt {
		q.requestAcked(q.rnrMSN - 1)
		q.retireRequests()
		q.failWith(now, rnrRetryErr)
	}
	q.n.touchQueuePair(q)
	return q.requests.waitsForAcks() || q.responses.waitsForAcks() || q.typ == qptUD && q.state == uverbs.QPSRTS && q.sq.waiting() > 0
}

// queued reports whether all that is under way still waits for its turn in this host's endpoint: nobody can have
// answered.
func (s *outStream) queued() bool {
	if s.base == s.sent || len(s.refused) > 0 || !s.q.n.host.Connected(s.dst) {
		return false
	}
	for _, p := range s.q.n.pieces {
		if p.f.s == s && p.begun {
			return false
		}
	}
	return true
}

// waitsForAcks reports whether an answer to something in the stream is missing.
func (s *outStream) waitsForAcks() bool {
	return s.base != s.next || len(s.refused) > 0 || s == &s.q.requests && len(s.q.sent) > 0
}

// probePeer probes the peer if all bytes have been acknowledged but an answer is missing.
func (s *outStream) probePeer(now fabric.Time) {
	if s != &s.q.requests || s.probing || s.base != s.next || !s.waitsForAcks() || now-s.lastAckedAt < probeAfter {
		return
	}
	s.probing = true
	s.q.n.postFlow(now, &flow{s: s, span: byteSpan{s.next - 1, 1}, left: 1, probe: true})
}

// rnrTimers are the waits that an RNR NAK asks for, by its code, in us.
var rnrTimers = [32]fabric.Time{
	655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120, 7680, 10240, 15360, 20480,
	30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
}

// notReady processes the other side's report that it has no receive request for a message (RNR).
func (q *queuePair) notReady(now fabric.Time, msn, code uint32) {
	if q.rnr == 7 || q.rnrAt != 0 && q.rnrMSN == msn {
		return
	}
	q.rnrMSN = msn
	q.rnrAt = now + rnrTimers[code%32]*fabric.Time(q.rnr+1)*fabric.Microsecond
	q.n.waitForSession(q)
}
