package transport

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// A transport is a way of reliable delivery: what a requester sends next, what an
// answer or the timer reveals it, and what a responder does with the packets that come.
// The rest is the endpoint's: queue pairs and their numbers, turns and pace, headers,
// what to do with a path that has died, the heap of timers, the queue of answers.
//
// An endpoint has one, for all its queue pairs. Its state of a queue pair is in
// [qpExtra] and [reorder]. There is a call per packet sent, received and acknowledged,
// so none may allocate once its queue pair is open.
type reliability interface {
	// open makes the state of a QP new, and sets its window.
	open(q *qp)
	// pick returns the packet that the QP has to send next. ok is false if there
	// is none for now: an answer, the timer or [Endpoint.activate] will have it asked
	// again. No more than the window's packets may be on the way: sent, and neither
	// acknowledged, one by one or with others, nor taken for lost.
	pick(q *qp) (packet int32, ok bool)
	// sent reports that the picked packet has been sent, and whether it asks for an answer. It starts the timer
	// ([Endpoint.restart]) as it sees fit, and reports whether there is more to pick.
	sent(now fabric.Time, q *qp, packet int32, asks bool) (more bool)
	// answered takes an ACK, or a NAK, of the QP. It informs the rate control and the
	// Balancer, and ends with [Endpoint.reportAcked].
	answered(now fabric.Time, q *qp, p *packet, s frame.Syndrome)
	// expired reports that the timer has run: what is on the way is lost, and
	// [Endpoint.timedOut] is to be called.
	expired(now fabric.Time, q *qp)
	// lost reports, for the QP's owner, that what is on the way is lost.
	lost(q *qp)
	// repeat makes a packet that is on the way the next to send. There is a receiver's window, and it is full.
	repeat(q *qp, packet int32)
	// lastAcked returns the packet that an answer is for, `at` being the one behind those it acknowledges.
	lastAcked(q *qp, p *packet, at int32) int32
	// outstanding returns how many packets are on the way.
	outstanding(q *qp) int32

	// begin makes the state of a responder's QP new, before its first packet.
	begin(c *context)
	// receive handles a data packet: it takes it, or not, and pushes what answers
	// it. What a switch did to the packet is in p, that it was trimmed, too.
	receive(now fabric.Time, c *context, p *packet)
}

// qpExtra is the additional state of QPs that are balanced, that use another transport than the default one, or whose
// packets' sending times are kept.
type qpExtra struct {
	timing      packetTiming // of balanced QPs
	selective   selectiveState
	sentPackets sentPackets  // if [Endpoint].keepsSends
	late        lateDetector // of those whose losses are found by time
}

// extraState returns the QP's further state, which stays with it for QPs to come.
func (q *qp) extraState() *qpExtra {
	if q.state == nil {
		q.state = new(qpExtra)
	}
	return q.state
}

// restart starts the QP's retransmission timer anew.
func (e *Endpoint) restart(now fabric.Time, q *qp) {
	if q.untimed {
		return
	}
	q.expireAt = now + e.currentRTO(q)
	if !q.timed {
		q.timed = true
		e.expiring.push(q.expireAt, q)
	}
}

// currentRTO returns the time of a QP's retransmission timer.
func (e *Endpoint) currentRTO(q *qp) fabric.Time {
	if e.cfg.MostRTO <= e.cfg.RTO {
		return e.cfg.RTO
	}
	rto := max(e.cfg.RTO, e.overdueQueue.SRTT+4*e.overdueQueue.RTTVar)
	return min(rto<<q.expiries, e.cfg.MostRTO)
}

// maxExpiries is how often a retransmission timer can double.
const maxExpiries = 8

// timedOut is what follows a time-out for every transport.
func (e *Endpoint) timedOut(now fabric.Time, q *qp) {
	q.expiries = min(q.expiries+1, maxExpiries)
	if q.bytes > 0 { // a probe of a dead path is to expire
		e.stats.Timeouts++
	}
	e.activate(q)
	e.handler.Timeout(now, q.id)
}

// reportAcked reports newly acknowledged bytes, and the end of a QP that has come to
// it.
func (e *Endpoint) reportAcked(now fabric.Time, q *qp, bytes int64) {
	id, done := q.id, q.sndUna >= q.dataPackets
	if bytes > 0 {
		q.expiries = 0
		e.countAnswered(q, bytes)
	}
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

// reportLost reports the path of a lost packet.
func (e *Endpoint) reportLost(now fabric.Time, q *qp, packet int32) {
	if e.cfg.Losses == nil || !q.balanced {
		return
	}
	if sent := q.state.sentPackets.find(packet); sent != nil {
		e.cfg.Losses.LostBy(now, q.id, sent.label)
	}
}
