//go:build linux

package device

import (
	"encoding/binary"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// datagramMessage is a datagram: a message of one flow, without a place in a stream.
type datagramMessage struct {
	until fabric.Time // when it is given up
	// over is called once: when it has arrived, or is given up.
	over func(now fabric.Time, arrived bool)
}

// sendGram sends a datagram's bytes, which are not the program's, to a host.
func (n *NIC) sendGram(now fabric.Time, q *queuePair, key uint32, dst fabric.NodeID, b []byte, g *datagramMessage) {
	s := &outStream{q: q, key: key, dst: dst, lastAckedAt: now}
	s.appendContent(messageContent{local: b})
	f := &flow{s: s, span: byteSpan{0, int64(s.next)}, left: int64(s.next), gram: g}
	if len(n.sending) == 0 {
		n.checkAt = 0
	}
	n.postFlow(now, f)
	n.sending = append(n.sending, f)
}

// flowLost forgets a datagram that will not arrive.
func (n *NIC) flowLost(now fabric.Time, f *flow) {
	n.dropFlow(f)
	f.gram.over(now, false)
	n.touchQueuePair(f.s.q)
}

type gramKey struct {
	src fabric.NodeID
	qpn uint32 // of the endpoint
}

// maxGrams bounds the datagrams of which the end is missing.
const maxGrams = 1024

// sendDatagram sends a work request's datagram. It is complete when it is sent.
func (q *queuePair) sendDatagram(now fabric.Time, r *sendRequest, ok bool) {
	n := totalLength(r.sges) + uint64(len(r.inline))
	done := completion{id: r.id, opcode: wcSend, bytes: uint32(n), qpn: q.number}
	sges, valid := q.c.translateSGEs(q.pd, r.sges, 0)
	dst, known := q.n.cfg.Fabric.HostByAddr(addrOf(r.udAddr))
	switch {
	case !ok || r.opcode != wrSend && r.opcode != wrSendImm:
		done.status = locQPOpErr
	case n > maxDatagram:
		done.status = locLenErr
	case !valid:
		done.status = locProtErr
	case known && len(sges) > 0: // the program has its memory back when the request is complete
		data, from := make([]byte, n), messageContent{memory: q.c, sges: sges}
		read := func() error { return from.read(data, 0) }
		sent := func(now fabric.Time, err error) {
			if err != nil {
				done.status = locProtErr
			} else {
				q.sendGram(now, r, dst, data)
			}
			q.sentDatagram(r, &done)
		}
		if !q.c.readsByThread(now, sges) {
			sent(now, read())
			return
		}
		q.gram = r
		q.c.queueAccess(&q.c.accesses.fetches, access{
			wanted: func() bool { return q.gram == r }, do: read,
			done: func(now fabric.Time, err error) {
				q.gram = nil
				sent(now, err)
				q.n.touchQueuePair(q)
			},
		})
		return
	case known:
		q.sendGram(now, r, dst, r.inline)
	}
	q.sentDatagram(r, &done)
}

// sentDatagram completes a datagram's work request.
func (q *queuePair) sentDatagram(r *sendRequest, done *completion) {
	q.sq.release(1)
	if q.sigAll || r.flags&sendSignaled != 0 || done.status != wcSuccess {
		q.sendCQ.addCompletion(done)
	}
}

// sendGram sends a work request's datagram of these data.
func (q *queuePair) sendGram(now fabric.Time, r *sendRequest, dst fabric.NodeID, data []byte) {
	h := header{op: msgDatagram, length: uint32(len(data)), imm: r.imm, aux: q.number, a: uint64(r.qkey)}
	if r.qkey&(1<<31) != 0 {
		h.a = uint64(q.qkey)
	}
	if r.flags&sendSolicited != 0 {
		h.flags |= flagSolicited
	}
	if r.opcode == wrSendImm {
		h.flags |= flagImm
	}
	q.grams++
	q.n.sendGram(now, q, streamKey(kindDatagrams, r.udQPN&0xffffff), dst, append(h.append(nil), data...), &datagramMessage{
		until: now + datagramLifetime, over: func(fabric.Time, bool) { q.grams-- },
	})
}

// Datagrams that are sent and have not arrived: of one queue pair, and of all. More stay with the program.
const (
	maxSending    = 64
	maxAllSending = 4096 // maximum number of datagrams in flight of all queue pairs: 16 MiB
)

// datagramLifetime is how long a datagram without an answer is retransmitted. Datagrams may be lost, and one to a host
// that is gone must not stand in others' way for ever.
const datagramLifetime = 2 * fabric.Second

// forgetDatagrams forgets datagrams that have arrived, and gives up those that are too old.
func (n *NIC) forgetDatagrams(now fabric.Time) {
	old := map[*outStream]*flow{}
	n.sending = slices.DeleteFunc(n.sending, func(f *flow) bool {
		if n.flows[f.id] != f {
			return true
		}
		if now <= f.gram.until {
			return false
		}
		old[f.s] = f
		return true
	})
	if len(old) == 0 {
		return
	}
	for qp, p := range n.pieces {
		if old[p.f.s] != nil {
			delete(n.pieces, qp)
			n.host.CloseFlow(now, qp)
		}
	}
	for _, f := range old {
		n.flowLost(now, f)
	}
}

// maxDatagram is the longest datagram in bytes: the largest MTU of verbs.
const maxDatagram = 4096

// placeGram takes a packet of a datagram to a queue pair, or, q being nil, of one about connections. What cannot be
// delivered is dropped.
func (n *NIC) placeGram(now fabric.Time, p *transport.Placement, kind uint32, q *queuePair, payload []byte) {
	b := n.gatherPayload(p, payload)
	switch {
	case b == nil:
	case kind == kindCM:
		if err := n.manager.Receive(now, p.Src, b); err != nil {
			n.truncationLog.Warn("dropped what another host sent", "host", n.cfg.Fabric.Name(p.Src), "err", err)
		}
	case len(b) >= headerSize && q != nil && q.typ == qptUD && q.state >= uverbs.QPSRTR && q.state != uverbs.QPSErr:
		q.datagram(now, p.Src, parseHeader(b), b[headerSize:])
	}
}

// gatherPayload reassembles a datagram's packets. It returns the payload when the last packet has arrived.
func (n *NIC) gatherPayload(p *transport.Placement, payload []byte) []byte {
	if p.Length > headerSize+maxDatagram {
		return nil
	}
	key := gramKey{p.Src, p.QPN}
	b := n.grams[key]
	if p.Offset == 0 {
		b = nil
	}
	if int64(len(b)) != p.Offset {
		delete(n.grams, key)
		return nil
	}
	b = append(b, payload...)
	if !p.Last {
		if len(n.grams) >= maxGrams {
			clear(n.grams)
		}
		n.grams[key] = b
		return nil
	}
	delete(n.grams, key)
	return b
}

// datagram delivers a datagram, behind what stands for its GRH.
func (q *queuePair) datagram(now fabric.Time, src fabric.NodeID, h header, data []byte) {
	r, maxSGE, slot := q.receiveRing()
	if h.op != msgDatagram || uint32(h.a) != q.qkey || int(h.length) != len(data) || r.waiting() == 0 ||
		len(q.c.accesses.stores.queue) >= maxStores {
		return
	}
	in := &inMessage{header: h}
	in.length += grhSize
	copy(slot, r.slot(r.index))
	if w, ok := parseRecv(slot, maxSGE); ok && totalLength(w.sges) < uint64(in.length) {
		return // the request stays for a datagram that it has room for (class D faults of the specification)
	}
	w, ok := q.takeReceive()
	in.recv = &w
	sges, valid := q.c.translateSGEs(q.receivePD(), w.sges, uverbs.AccessLocalWrite)
	c := completion{
		id: w.id, status: wcSuccess, opcode: wcRecv, bytes: in.length, qpn: q.number, src: h.aux, flags: wcGRH,
		solicited: h.flags&flagSolicited != 0,
	}
	if h.flags&flagImm != 0 {
		c.imm, c.flags = h.imm, c.flags|wcWithImm
	}
	write := func() error { return nil }
	switch {
	case !ok:
		c.status = locQPOpErr
	case !valid:
		c.status = locProtErr
	case totalLength(sges) < uint64(in.length):
		c.status = locLenErr
	default:
		b := append(q.n.buildGRH(src, len(data)), data...)
		write = func() error { return q.c.memory.writeTo(sges, 0, b) }
	}
	done := func(_ fabric.Time, err error) {
		if err != nil {
			c.status = locProtErr
		}
		q.recvCQ.addCompletion(&c)
	}
	if !q.c.readsByThread(now, sges) {
		done(now, write())
		return
	}
	life := q.generation
	q.c.queueAccess(&q.c.accesses.stores, access{wanted: func() bool { return q.generation == life }, do: write, done: done})
}

// maxStores bounds a program's accesses that wait for others. Datagrams may be lost.
const maxStores = 1024

// buildGRH is the 40 bytes before a datagram's, as InfiniBand has them, with addresses in
// IPv6 form. RNICs put the IPv4 header into the last 20: but UCX without the preloaded library's files in sysfs takes
// the device for one of RoCEv1. Both end with the destination.
func (n *NIC) buildGRH(src fabric.NodeID, length int) []byte {
	b := make([]byte, grhSize, grhSize+length)
	b[0], b[6], b[7] = 0x60, 0x1b, 64
	binary.BigEndian.PutUint16(b[4:], uint16(12+length))
	from := n.cfg.Fabric.HostAddr4(src).As16()
	copy(b[8:], from[:])
	to := addrOf(n.addr).As16()
	copy(b[24:], to[:])
	return b
}
