package transport

import (
	"encoding/binary"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/splitmix"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// Session is a secret of two hosts' processes. The partition key, queue pair numbers and first PSNs on the wire derive
// from it, so that packets of other hosts, or of earlier processes of these hosts, do not match. Both ends have the
// same one.
type Session struct {
	PKey uint16
	Key  uint64
}

// session is a peer's session.
type session struct {
	Session
	on    bool   // there is one: packets are accepted
	ready bool   // the peer has it, too: packets are sent
	count uint32 // of the peer's sessions so far
	// waiting are QPs whose turn came before the session was ready.
	waiting []*qp
}

// SetSession sets the session with host peer. ready says that the peer has it, too. If it replaces another session, the
// peer's process has restarted: the state of its QPs is dropped. QPs to it of which nothing is acknowledged start
// again; the others fail, since the bytes that it acknowledged are lost.
func (e *Endpoint) SetSession(now fabric.Time, peer fabric.NodeID, s Session, ready bool) {
	x := &e.sessions[peer]
	fresh := !x.on || x.Session != s
	if fresh {
		x.Session, x.on = s, true
		if x.count++; x.count > 1 {
			e.forgetPeer(peer)
		}
	}
	if x.ready = x.ready && !fresh; x.ready || !ready {
		return
	}
	x.ready = true
	waiting := x.waiting
	x.waiting = nil
	for _, q := range waiting {
		q.where = notQueued
		e.activate(q)
	}
	if x.count > 1 {
		e.peerRestarted(now, peer)
	}
}

// Connected reports whether there is a session with host peer that both ends have.
func (e *Endpoint) Connected(peer fabric.NodeID) bool {
	return e.sessions == nil || e.sessions[peer].ready
}

// remove removes a queue pair from those that wait.
func (x *session) remove(q *qp) {
	i := slices.Index(x.waiting, q)
	x.waiting = slices.Delete(x.waiting, i, i+1)
	q.where = notQueued
}

// peerRestarted continues or fails the queue pairs to a host that were sent in an earlier session.
func (e *Endpoint) peerRestarted(now fabric.Time, peer fabric.NodeID) {
	p := e.find(peer)
	if p < 0 {
		return
	}
	var failed []QP
	sent := func(q *qp) {
		if q == nil || !q.live || q.session == 0 || q.session == e.sessions[peer].count || q.failed {
			return
		}
		if q.sndUna > 0 {
			failed = append(failed, q.id)
			return
		}
		e.transport.lost(q)
		e.activate(q)
	}
	sent(e.peers[p].slot.qp)
	for i := range e.peers[p].more {
		sent(e.peers[p].more[i].qp)
	}
	for _, id := range failed {
		pos := e.byID.get(uint64(id))
		if pos < 0 { // closed when another one failed
			continue
		}
		q := e.qps[pos]
		e.transport.lost(q)
		q.failed, q.expireAt = true, never
		e.giveUp(q)
		if f, ok := e.handler.(FailureHandler); ok {
			f.Failed(now, id, frame.NAKRemoteAccess)
		}
	}
}

// assignNumbers gives a queue pair whose turn has come its numbers on the wire. It reports false if there is no session
// yet: the queue pair waits for it.
func (e *Endpoint) assignNumbers(now fabric.Time, q *qp) bool {
	x := &e.sessions[q.dst]
	if !x.ready {
		q.where = notConnected
		x.waiting = append(x.waiting, q)
		e.cfg.Connect(now, q.dst)
		return false
	}
	if q.session != x.count {
		q.session = x.count
		q.firstPSN = x.firstPSN(e.cfg.Host, q.dst, q.qpn)
		x.setBTH(q.hdr[e.stack.bth:], q.qpn)
	}
	return true
}

// forgetPeer drops the responder's state of a host's queue pairs.
func (e *Endpoint) forgetPeer(src fabric.NodeID) {
	free := func(at int32) {
		*e.contexts.at(at) = context{}
		e.contexts.unused = append(e.contexts.unused, at)
	}
	if p := e.find(src); p >= 0 {
		for i, at := range e.peers[p].contexts {
			if at > 0 {
				free(at - 1)
				e.peers[p].contexts[i] = 0
			}
		}
	}
	var keys []uint64
	for _, c := range e.known.cells {
		if c.value > 0 && fabric.NodeID(c.key>>slotBits) == src {
			keys = append(keys, c.key)
		}
	}
	for _, k := range keys {
		free(e.known.get(k))
		e.known.remove(k)
	}
}

// maxPSNLead is the number of packets, from a queue pair's first one, of which any may arrive first: those before it
// can be lost or late. A packet that creates state must be one of them.
const maxPSNLead = 1 << 12

// firstPSN returns the first PSN of a queue pair.
func (s *Session) firstPSN(src, dst fabric.NodeID, qpn uint32) uint32 {
	return uint32(splitmix.Mix(splitmix.Mix(s.Key^uint64(src)<<32^uint64(dst))^uint64(qpn))>>40) & psnMask
}

// setBTH writes the partition and a queue pair's number on the wire.
func (s *Session) setBTH(bth []byte, qpn uint32) {
	binary.BigEndian.PutUint16(bth[bthPKey:], s.PKey)
	putUint24(bth[bthDestQP:], s.wireNumber(qpn))
}

// halfMask is half of a queue pair's number.
const halfMask = 1<<12 - 1

// wireNumber returns a queue pair's number on the wire: a permutation of all numbers but the reserved ones, by a
// Feistel cipher of four rounds.
func (s *Session) wireNumber(qpn uint32) uint32 {
	for {
		l, r := qpn>>12, qpn&halfMask
		for i := range uint64(4) {
			l, r = r, l^s.feistelRound(i, r)
		}
		if qpn = l<<12 | r; !reservedQPN(qpn) {
			return qpn
		}
	}
}

// numberOf is the inverse of wireNumber.
func (s *Session) numberOf(wire uint32) uint32 {
	if reservedQPN(wire) {
		return wire // no queue pair has it
	}
	for {
		l, r := wire>>12, wire&halfMask
		for i := range uint64(4) {
			l, r = r^s.feistelRound(3-i, l), l
		}
		if wire = l<<12 | r; !reservedQPN(wire) {
			return wire
		}
	}
}

func (s *Session) feistelRound(i uint64, half uint32) uint32 {
	return uint32(splitmix.Mix(s.Key+(i+1)*splitmix.Step^uint64(half)<<32)) & halfMask
}

// reservedQPN reports whether InfiniBand has another use for a queue pair's number: management and multicast.
func reservedQPN(qpn uint32) bool { return qpn < reservedQPs || qpn == 1<<24-1 }
