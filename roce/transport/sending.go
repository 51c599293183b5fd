package transport

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// activate queues a QP that has something to send.
func (e *Endpoint) activate(q *qp) {
	if q.where == notQueued {
		e.enqueueIfReady(q)
	}
}

func (e *Endpoint) enqueueIfReady(q *qp) {
	if _, ok := e.transport.pick(q); ok {
		e.enqueue(q)
	}
}

// enqueue queues a QP as the last of its share. A QP that retransmits its path's packets, or sends a write of no
// bytes, becomes the first: its peer is already waiting, and among the QPs of an all-to-all a turn takes one packet
// to every host. A QP with more to retransmit would delay the others for more than a round trip.
func (e *Endpoint) enqueue(q *qp) {
	q.where = inTurn
	again := q.once - q.sndUna
	e.ports[q.port].put(q, 0 < again && fabric.Time(again)*e.fullPacketTime <= e.cfg.Trip || q.sndNxt >= q.dataPackets)
}

// nextData lets the QPs send in turn, until one does. Its share then becomes the last.
func (e *Endpoint) nextData(now fabric.Time, p *sendPort, dst []byte) (Frame, bool) {
	for p.hasWaiting() {
		f, ok := e.sendOne(now, p.pop(), dst)
		if p.endTurn(ok); ok {
			return f, true
		}
	}
	return Frame{}, false
}

// sendOne lets a QP send, if it can now.
func (e *Endpoint) sendOne(now fabric.Time, q *qp, dst []byte) (Frame, bool) {
	q.where = notQueued
	if !q.live {
		e.free = append(e.free, q.pos)
		return Frame{}, false
	}
	i, ok := e.transport.pick(q)
	switch {
	case ok && e.sessions != nil && !e.assignNumbers(now, q), !ok:
		return Frame{}, false
	case q.sendAt > now:
		q.where = inPaced
		e.paced.push(q.sendAt, q)
		return Frame{}, false
	}
	asks := e.requestsAck(q, i)
	f := e.buildData(q, i, asks, dst)
	if q.balanced {
		e.stack.setLabel(dst, e.cfg.Balancer.Label(now, q.id))
	}
	if e.keepsSends {
		q.state.sentPackets.put(i, now, e.stack.label(dst), q.sndUna)
	}
	if i == q.sent {
		if q.balanced {
			q.state.timing.sent(now, i)
		}
		if q.sent++; q.sent == q.dataPackets {
			e.leaveMessage(q)
		}
	} else if q.bytes > 0 { // a probe has no data
		e.stats.Retransmissions++
	}
	e.stats.DataSent++
	if e.control.departs != nil {
		e.control.departs.sent(now, q, i, int64(f.Len+f.Tail))
	}
	q.sendAt = now + e.paceGap(q, f.Len+f.Tail+e.cfg.Outer)
	if e.transport.sent(now, q, i, asks) {
		e.enqueue(q)
	}
	return f, true
}

// requestsAck reports whether the QP's packet i requests an ACK: the last one, a retransmission, a probe, and one in
// each half of the window, so that a window that is cut by half has one on the way.
func (e *Endpoint) requestsAck(q *qp, i int32) bool {
	return e.ackInterval == 1 || i >= q.dataPackets-1 || i < q.sent || i+1 == q.tail.sendLimit || int(i+1)%e.ackInterval == 0 ||
		i+1-q.tail.ackAskedBy >= max(1, q.cwnd/2)
}

// buildData writes the headers of the QP's packet i.
func (e *Endpoint) buildData(q *qp, i int32, asks bool, dst []byte) Frame {
	st := &e.stack
	payload, last := e.cfg.MTU, i == q.dataPackets-1
	opcode := frame.WriteMiddle
	switch {
	case i >= q.dataPackets:
		payload, opcode = 0, frame.WriteOnly
	case last && i == 0:
		payload, opcode = int(q.lastBytes), frame.WriteOnly
	case last:
		payload, opcode = int(q.lastBytes), frame.WriteLast
	case i == 0:
		opcode = frame.WriteFirst
	}
	n := copy(dst, q.hdr[:st.len])
	b := frame.BTH(dst[st.bth:n])
	b[0] = byte(opcode)
	pad := padBytes(payload)
	b[bthFlags] = migReq | byte(pad)<<padShift
	if asks {
		b[bthAckReq] = ackReq
	}
	b.SetPSN(q.firstPSN + uint32(i))
	if opcode.Starts() {
		reth := frame.RETHFields{VirtualAddress: q.address, RKey: q.rkey, Length: uint32(q.bytes)}
		if i >= q.dataPackets {
			reth.Length = 0
		}
		frame.RETH(dst[n:]).Encode(&reth)
		n += frame.RETHSize
	}
	if e.dataField > 0 {
		clear(dst[n : n+e.dataField])
		n += e.dataField
	}
	tail := payload + pad + frame.ICRCSize
	st.setLength(dst, n-st.bth+tail, q.ipSum)
	return Frame{Len: n, Tail: tail, QP: q.id, Packet: i}
}
