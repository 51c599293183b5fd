//go:build linux

package device

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// memoryFault ends a queue pair whose program has unmapped what it registered.
func (q *queuePair) memoryFault(now fabric.Time, in *inMessage) {
	if in.of != nil {
		q.failAt(now, in.msn, locProtErr)
		return
	}
	q.refuseMessage(now, in, remOpErr, locProtErr, 1)
}

// refuseMessage answers a request with an error status, and ends the queue pair. The program's receive request, if
// there is one, completes with status ours.
func (q *queuePair) refuseMessage(now fabric.Time, in *inMessage, theirs, ours status, event uint32) {
	q.sendResponse(&header{op: msgNak, msn: in.msn, aux: uint32(theirs)}, messageContent{})
	if in.recv != nil {
		q.receiveDone(in, ours)
		in.recv = nil
	}
	q.inbound.in = nil
	q.failWith(now, flushErr)
	q.c.event(q.cookie, event)
}

// Affiliated events of a queue pair whose peer asked for what must not be.
const (
	eventRequestErr = 2
	eventAccessErr  = 3
)

// maxAnswers bounds the parts of answers, two an answer at most, that the other side has not acknowledged. One that
// keeps the protocol has maxReads requests without an answer, and [mapWindow] bytes of answers under way.
const maxAnswers = 1 << 16

// beginRequest begins a request of the other side.
func (q *queuePair) beginRequest(now fabric.Time, in *inMessage) bool {
	n := uint64(in.length)
	if n > maxMessage || len(q.responses.segs) > maxAnswers {
		q.refuseMessage(now, in, remInvReqErr, flushErr, eventRequestErr)
		return false
	}
	switch in.op {
	case wrWrite, wrWriteImm:
		addr, ok := q.checkRemoteKey(in.rkey, in.addr, n, uverbs.AccessRemoteWrite)
		if !ok {
			if in.op == wrWriteImm && q.receivesWaiting() { // it would have been used up
				if w, ok := q.takeReceive(); ok {
					in.recv = &w
				}
			}
			q.refuseMessage(now, in, remAccessErr, locAccessErr, eventAccessErr)
			return false
		}
		if in.op == wrWriteImm && !q.receive(now, in) {
			return false
		}
		in.sges = []sge{{addr: addr, length: in.length}}
		return true
	case msgSettle:
		return true
	case wrSend, wrSendImm, wrSendInv:
		if !q.receive(now, in) {
			return false
		}
		sges, ok := q.c.translateSGEs(q.receivePD(), in.recv.sges, uverbs.AccessLocalWrite)
		if !ok {
			q.refuseMessage(now, in, remOpErr, locProtErr, eventQPFatal)
			return false
		}
		if totalLength(sges) < n {
			q.refuseMessage(now, in, remInvReqErr, locLenErr, eventRequestErr)
			return false
		}
		in.sges = sges
		return true
	case wrRead:
		addr, ok := q.checkRemoteKey(in.rkey, in.addr, n, uverbs.AccessRemoteRead)
		if !ok {
			q.refuseMessage(now, in, remAccessErr, flushErr, eventAccessErr)
			return false
		}
		if in.flags&flagCheckOnly != 0 {
			q.sendResponse(&header{op: msgChecked, msn: in.msn}, messageContent{})
			return true
		}
		if q.responses.next-q.responses.base > 64*maxMessage {
			q.refuseMessage(now, in, remInvReqErr, flushErr, eventRequestErr)
			return false
		}
		h := header{op: msgReadResponse, msn: in.msn, length: in.length}
		q.sendResponse(&h, messageContent{memory: q.c, sges: []sge{{addr: addr, length: in.length}}})
		return true
	case wrCompSwap, wrFetchAdd:
		return q.executeAtomic(now, in)
	}
	q.refuseMessage(now, in, remInvReqErr, flushErr, eventRequestErr)
	return false
}

// executeAtomic executes an atomic. A NIC executes one at a time, except those of different programs that lend files.
func (q *queuePair) executeAtomic(now fabric.Time, in *inMessage) bool {
	if in.addr%8 != 0 {
		q.refuseMessage(now, in, remInvReqErr, flushErr, eventRequestErr)
		return false
	}
	addr, ok := q.checkRemoteKey(in.rkey, in.addr, 8, uverbs.AccessRemoteAtomic)
	if !ok {
		q.refuseMessage(now, in, remAccessErr, flushErr, eventAccessErr)
		return false
	}
	if in.flags&flagCheckOnly != 0 {
		q.sendResponse(&header{op: msgChecked, msn: in.msn}, messageContent{})
		return true
	}
	var was uint64
	q.c.readsByThread(now, []sge{{addr: addr, length: 8}})
	in.answer = func() { q.sendResponse(&header{op: msgAtomicResponse, msn: in.msn, a: was}, messageContent{}) }
	return q.inbound.runAccess(now, in, func() error {
		var b [8]byte
		err := q.c.memory.read(b[:], addr)
		was = native.Uint64(b[:])
		is := was
		if in.op == wrFetchAdd {
			is += in.a
		} else if was == in.a {
			is = in.b
		}
		if err == nil && is != was {
			native.PutUint64(b[:], is)
			err = q.c.memory.write(b[:], addr)
		}
		return err
	}, func() { q.refuseMessage(now, in, remOpErr, flushErr, eventQPFatal) })
}

// checkRemoteKey returns the program's address of memory that the other side may access by a key.
func (q *queuePair) checkRemoteKey(key uint32, addr, n, access uint64) (uint64, bool) {
	if q.access&access == 0 {
		return 0, false
	}
	if n == 0 {
		return addr, true
	}
	r := q.n.regions[key]
	if r == nil {
		return q.throughWindow(key, addr, n, access)
	}
	if r.c != q.c || r.pd != q.pd {
		return 0, false
	}
	return r.offsetOf(addr, n, access)
}

func (q *queuePair) receivePD() *protectionDomain {
	if q.srq != nil {
		return q.srq.pd
	}
	return q.pd
}

// receiveRing returns where receive requests come from: the ring, the most sges of one, and
// room for a copy.
func (q *queuePair) receiveRing() (r *sharedRing, maxSGE int, slot []byte) {
	if q.srq != nil {
		return &q.srq.rq, q.srq.sges, q.srq.slot
	}
	return &q.rq, q.recvSGEs, q.slot
}

func (q *queuePair) receivesWaiting() bool {
	r, _, _ := q.receiveRing()
	return r.waiting() > 0
}

// takeReceive takes the receive request that waits first, of a shared receive queue too. Not ok: it is malformed.
func (q *queuePair) takeReceive() (w recvRequest, ok bool) {
	r, maxSGE, slot := q.receiveRing()
	r.take(slot)
	r.release(1)
	if q.srq != nil {
		q.srq.receiveTaken()
	}
	return parseRecv(slot, maxSGE)
}

// receive takes a receive request for a message. Without one the stream is blocked (RNR).
func (q *queuePair) receive(now fabric.Time, in *inMessage) bool {
	r, _, _ := q.receiveRing()
	if r.waiting() == 0 {
		if r.arm(); r.waiting() == 0 { // not posted in this moment
			q.inbound.blocked = true
			if q.srq != nil {
				q.srq.hungry[q] = struct{}{}
			}
			if in.flags&flagTellNotReady != 0 {
				q.sendResponse(&header{op: msgNotReady, msn: in.msn, aux: uint32(q.minRNR)}, messageContent{})
			}
			return false
		}
	}
	w, ok := q.takeReceive()
	in.recv = &w
	if !ok {
		q.refuseMessage(now, in, remOpErr, locQPOpErr, eventQPFatal)
	}
	return ok
}

// endRequest processes the end of a request from the other side.
func (q *queuePair) endRequest(now fabric.Time, in *inMessage) {
	if in.op == wrSendInv && !q.invalidate(in.rkey) {
		// A class J fault of the specification: the other side is not answered.
		q.receiveDone(in, mwBindErr)
		q.failWith(now, flushErr)
		q.c.event(q.cookie, eventAccessErr)
		return
	}
	if in.recv != nil {
		q.receiveDone(in, wcSuccess)
	} else {
		q.c.wakePollers() // programs look at what others write to
	}
	if in.answer != nil {
		in.answer()
	}
	if in.flags&flagAck != 0 {
		q.ackDue, q.ackMSN = true, in.msn
		q.n.touchQueuePair(q)
	}
}

func (q *queuePair) receiveDone(in *inMessage, st status) {
	c := completion{
		id: in.recv.id, status: st, opcode: wcRecv, bytes: in.length, qpn: q.number, src: q.peer,
		solicited: in.flags&flagSolicited != 0,
	}
	if in.op == wrWriteImm {
		c.opcode = wcRecvWithImm
	}
	if in.flags&flagImm != 0 {
		c.imm, c.flags = in.imm, wcWithImm
	}
	if in.op == wrSendInv && st == wcSuccess {
		c.imm, c.flags = in.rkey, wcWithInv
	}
	q.recvCQ.addCompletion(&c)
}

// beginAnswer begins a response to a request of this side.
func (q *queuePair) beginAnswer(now fabric.Time, in *inMessage) bool {
	switch in.op {
	case msgAck:
		q.requestAcked(in.msn)
		return true
	case msgNak:
		st := status(in.aux)
		if st != remAccessErr && st != remInvReqErr {
			st = remOpErr
		}
		q.failAt(now, in.msn, st)
		return false
	case msgNotReady:
		q.notReady(now, in.msn, in.aux)
		return true
	case msgChecked:
		q.failAt(now, in.msn, locProtErr)
		return false
	case msgReadResponse, msgAtomicResponse:
		for _, w := range q.sent {
			if w.msn == in.msn && w.fetches() && !w.done && !w.unplaced && (w.op == wrRead) == (in.op == msgReadResponse) &&
				(w.op != wrRead || w.bytes == in.length) {
				in.of, in.sges = w, w.sges
			}
		}
		if in.of == nil {
			break
		}
		if in.op == msgAtomicResponse {
			var b [8]byte
			native.PutUint64(b[:], in.a)
			q.c.readsByThread(now, in.sges)
			return q.answers.runAccess(now, in, func() error { return q.c.memory.writeTo(in.sges, 0, b[:]) }, func() { q.memoryFault(now, in) })
		}
		return true
	}
	q.failWith(now, remOpErr) // the other side breaks the protocol
	return false
}

func (q *queuePair) endAnswer(in *inMessage) {
	if in.of == nil {
		return
	}
	in.of.done = true
	q.reads--
	q.requestAcked(in.msn) // all before it were carried out
}

// failAt fails the request with an MSN; those before it are complete.
func (q *queuePair) failAt(now fabric.Time, msn uint32, st status) {
	q.requestAcked(msn - 1)
	q.retireRequests()
	q.failWith(now, st)
}
