package transport

import (
	"encoding/binary"
	"net/netip"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// labelMask cuts the label out of a source port or a flow label.
const labelMask = 1<<fabric.LabelBits - 1

// packet is the parsed form of a received packet.
type packet struct {
	src    fabric.NodeID
	opcode frame.Opcode
	label  fabric.Label
	ce     bool
	// rerouted: a switch rerouted it around a dead uplink
	rerouted bool
	becn     bool
	ackReq   bool
	cut      bool // a switch trimmed it: its header's lengths exceed what arrived
	pad      int
	qpn      uint32
	psn      uint32
	rest     []byte // after BTH
	tail     int
}

// Receive processes a packet from the wire: its header bytes, valid during the call, and the number of bytes that
// follow them. Invalid packets are counted and ignored.
func (e *Endpoint) Receive(now fabric.Time, hdr []byte, tail int) {
	st := &e.stack
	if payload, ok := frame.NoticePayload(hdr); ok { // IPv4 in any case
		e.stats.Quenches++
		e.handler.Quench(now, payload, netip.IPv4Unspecified())
		return
	}
	if len(hdr) < st.udp+udpLen || tail < 0 {
		e.stats.Foreign++
		return
	}
	var class byte
	if st.ipv6 {
		if binary.BigEndian.Uint16(hdr[12:]) != etherIPv6 || hdr[etherLen+6] != protoUDP {
			e.stats.Foreign++
			return
		}
		class = hdr[etherLen]<<4 | hdr[etherLen+1]>>4
	} else {
		if binary.BigEndian.Uint16(hdr[12:]) != etherIPv4 || hdr[etherLen] != 0x45 || hdr[etherLen+9] != protoUDP {
			e.stats.Foreign++
			return
		}
		class = hdr[etherLen+1]
	}
	switch binary.BigEndian.Uint16(hdr[st.udp+2:]) {
	case frame.Port:
	case frame.QuenchPort:
		payload, src := hdr[st.udp+udpLen:], e.srcAddr(hdr)
		if len(payload) < frame.QuenchSize || src.IsUnspecified() { // only notices have the unspecified source
			e.stats.Malformed++
			return
		}
		e.stats.Quenches++
		e.handler.Quench(now, payload[:frame.QuenchSize], src)
		return
	default:
		e.stats.Foreign++
		return
	}
	if len(hdr) < st.len {
		e.stats.Malformed++
		return
	}
	src, ok := e.cfg.Fabric.HostByAddr(e.srcAddr(hdr))
	if !ok || src == e.cfg.Host {
		e.stats.Foreign++
		return
	}
	bth := frame.BTH(hdr[st.bth:st.len])
	pkey, qpn := e.cfg.PKey, bth.DestQP()
	if e.sessions != nil {
		s := &e.sessions[src]
		if !s.on || bth.PKey() != s.PKey {
			e.stats.Foreign++
			if e.cfg.Stale != nil {
				e.cfg.Stale(now, src)
			}
			return
		}
		pkey, qpn = s.PKey, s.numberOf(qpn)
	}
	if bth.PKey() != pkey {
		e.stats.Foreign++
		return
	}
	p := &e.incoming // set field by field: no copy
	p.src, p.opcode, p.qpn, p.psn = src, bth.Opcode(), qpn, bth.PSN()
	p.label = fabric.Label(binary.BigEndian.Uint16(hdr[st.udp:])) & labelMask
	if st.flowLabel {
		p.label = fabric.Label(binary.BigEndian.Uint16(hdr[etherLen+2:])) & labelMask
	}
	p.ce, p.rerouted = class&ecnMask == ecnCE, class>>2&dscpRerouted == dscpRerouted
	p.becn, p.ackReq, p.pad = bth.BECN(), bth.AckRequest(), bth.Pad()
	p.rest, p.tail = hdr[st.len:], tail
	p.cut = st.udp+int(binary.BigEndian.Uint16(hdr[st.udp+4:])) > len(hdr)+tail
	if e.cfg.Watcher != nil && (p.becn || p.ce) {
		e.cfg.Watcher.Congested(now, p.src, p.label, p.ce)
	}
	switch p.opcode {
	case frame.Acknowledge:
		e.receiveAck(now, p)
	case frame.WriteFirst, frame.WriteMiddle, frame.WriteLast, frame.WriteOnly:
		if p.qpn == probeQPN {
			e.receiveProbe(p)
			return
		}
		e.receiveData(now, p)
	case frame.CNP:
		e.stats.CNPsTaken++
		if q := e.lookup(p.src, p.qpn); q != nil && !e.formerPath(q, p) {
			e.control.pacer.cnpReceived(now, q, p)
		}
	default:
		e.stats.Malformed++
	}
}

// formerPath reports whether an answer came on a path that a QP has left because it was slow.
func (e *Endpoint) formerPath(q *qp, p *packet) bool {
	if !q.moved {
		return false
	}
	l, ok := e.Label(q.id)
	return ok && l != p.label
}

func (e *Endpoint) srcAddr(hdr []byte) netip.Addr {
	if e.stack.ipv6 {
		return netip.AddrFrom16([16]byte(hdr[etherLen+8:]))
	}
	return netip.AddrFrom4([4]byte(hdr[etherLen+12:]))
}

func (e *Endpoint) receiveAck(now fabric.Time, p *packet) {
	if len(p.rest) < frame.AETHSize {
		e.stats.Malformed++
		return
	}
	if p.qpn == probeQPN {
		if e.cfg.Watcher != nil {
			e.cfg.Watcher.PathAnswered(now, p.src, p.psn)
		}
		return
	}
	syndrome := frame.AETH(p.rest).Syndrome()
	nak := syndrome == frame.NAKSequenceError
	refused := syndrome == frame.NAKRemoteAccess || syndrome == frame.NAKRemoteOperation
	if !nak && !refused && !syndrome.IsACK() { // other errors that end a connection: this endpoint never sends them
		e.stats.Malformed++
		return
	}
	q := e.lookup(p.src, p.qpn)
	if q == nil {
		e.stats.StaleAcks++
		return
	}
	if e.formerPath(q, p) {
		p.becn = false
	}
	e.transport.answered(now, q, p, syndrome)
}
