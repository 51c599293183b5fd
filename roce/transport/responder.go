package transport

import (
	"encoding/binary"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// responder is the receiving half of an endpoint.
type responder struct {
	contexts  contexts
	known     hashIndex // source and slot -> position in contexts, of high slots
	placement Placement // scratch
	ack       ackTemplate
	probe     ackTemplate // of path probes
}

// context is the receiver's state of the latest QP of a slot.
type context struct {
	qpn      uint32
	rcvNxt   uint32 // expected PSN
	msn      uint32 // messages completed
	writing  bool   // between first and last packet of a message
	nakSent  bool   // a NAK was sent for the expected PSN
	ce       bool   // a packet since the last ACK had CE
	rkey     uint32
	message  uint64
	length   int64
	received int64
	cnpAt    fabric.Time // no CNP before this time
	reorder  *reorder    // nil: go-back-N
}

// contexts are kept in blocks, since they are many, and freed only when a host's process begins anew.
type contexts struct {
	blocks []*[contextBlock]context
	len    int32
	unused []int32 // of those
}

const contextBlock = 16 // number of responder contexts allocated at once; a context has 64 B

func (s *contexts) at(i int32) *context { return &s.blocks[i/contextBlock][i%contextBlock] }

// add returns the index of an unused context.
func (s *contexts) add() int32 {
	if n := len(s.unused); n > 0 {
		at := s.unused[n-1]
		s.unused = s.unused[:n-1]
		return at
	}
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
	}
	if p.cut {
		e.stats.Trimmed++
	}
	if e.control.marks != nil {
		e.control.marks.received(now, c, p)
	}
	e.transport.receive(now, c, p)
	if e.control.credit != nil {
		e.control.credit.arrived(now, c, p)
	}
}

// contextOf returns the state of the packet's QP, reset if the QP is new, or nil if there has been a newer one, or if
// the packet is not one of the first of its QP.
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
	}
	first := uint32(0)
	if e.sessions == nil {
		first = e.cfg.InitialPSN(p.src, e.cfg.Host, p.qpn) & psnMask
	} else if first = e.sessions[p.src].firstPSN(p.src, e.cfg.Host, p.qpn); uint32(psnDiff(p.psn, first)) >= maxPSNLead {
		return nil
	}
	if at < 0 {
		at = e.contexts.add()
		e.keepContext(p.src, p.qpn&slotMask, at)
	}
	c := e.contexts.at(at)
	*c = context{qpn: p.qpn, rcvNxt: first, reorder: c.reorder}
	e.transport.begin(c)
	return c
}

// contextAt returns the index of a slot's state, or -1.
func (e *Endpoint) contextAt(src fabric.NodeID, slot uint32) int32 {
	if i := slot - reservedQPs; i < nearContexts {
		if p := e.find(src); p >= 0 {
			return e.peers[p].contexts[i] - 1
		}
		return -1
	}
	return e.known.get(uint64(src)<<slotBits | uint64(slot))
}

// keepContext records the index of a slot's new state.
func (e *Endpoint) keepContext(src fabric.NodeID, slot uint32, at int32) {
	if i := slot - reservedQPs; i < nearContexts {
		e.peers[e.findOrAdd(src)].contexts[i] = at + 1
		return
	}
	e.known.put(uint64(src)<<slotBits|uint64(slot), at)
}

// ackLabel returns the label of a control packet caused by a data packet.
func (e *Endpoint) ackLabel(now fabric.Time, p *packet) fabric.Label {
	if e.cfg.AckLabel != nil && p.label < e.ack.span {
		return e.cfg.AckLabel(now, p.src, p.label, p.rerouted)
	}
	return p.label
}

// controlPacket is a control packet to send.
type controlPacket struct {
	dst      fabric.NodeID
	qpn      uint32
	psn      uint32
	msn      uint32
	label    fabric.Label
	syndrome frame.Syndrome
	becn     bool
	kind     controlKind
}

// controlKind is the kind of a control packet.
type controlKind uint8

const (
	acknowledgement controlKind = iota // an ACK or a NAK
	congestionNotification
	pathProbe
)

// cnpReserved is the number of zero bytes behind a CNP's BTH.
const cnpReserved = 16

// ackTemplate is the header of an ACK from this host, to be completed.
type ackTemplate struct {
	hdr   [stackLen + frame.AETHSize]byte
	ipSum uint32 // without the destination
	span  fabric.Label
}

func (t *ackTemplate) init(st *headerStack, c *Config) error {
	t.span = c.Fabric.LabelSpan()
	if err := st.encode(t.hdr[:], c, c.Host, frame.Acknowledge, 0); err != nil {
		return err
	}
	t.complete(st)
	return nil
}

// complete computes the sum over the IPv4 header without the destination.
func (t *ackTemplate) complete(st *headerStack) {
	if !st.ipv6 {
		clear(t.hdr[etherLen+16 : etherLen+20])
		t.ipSum = st.ipSum(t.hdr[:])
	}
}

// queueControl queues a control packet at the port of its label. The rate control may fill a field of an ACK.
func (e *Endpoint) queueControl(k controlPacket) {
	q := &e.ports[e.portOf(k.label)].queue
	q.push(k)
	if e.ackField > 0 && k.kind == acknowledgement {
		e.control.ack.writeAck(&e.incoming, q.field()[:e.ackField])
	}
}

// buildAck writes a control packet.
func (e *Endpoint) buildAck(k controlPacket, field *headerField, dst []byte) Frame {
	if k.kind == pathProbe {
		return e.buildProbe(k, dst)
	}
	st := &e.stack
	n := copy(dst, e.ack.hdr[:st.len+frame.AETHSize])
	if k.kind == congestionNotification {
		n = st.len + cnpReserved
		dst[st.bth] = byte(frame.CNP)
		clear(dst[st.len:n])
	} else if field != nil {
		n += copy(dst[n:], field[:e.ackField])
	}
	e.fillAddress(k, dst[:n], e.ack.ipSum).SetBECN(k.becn)
	if k.kind == acknowledgement {
		frame.AETH(dst[st.len:]).Encode(&frame.AETHFields{Syndrome: k.syndrome, MSN: k.msn})
	}
	return Frame{Len: n, Tail: frame.ICRCSize, Control: true}
}

// fillAddress completes the headers of a control packet; ipSum is the partial IP checksum of the template.
func (e *Endpoint) fillAddress(k controlPacket, b []byte, ipSum uint32) frame.BTH {
	st := &e.stack
	st.setDst(b, e.cfg.Fabric, k.dst)
	st.setLabel(b, k.label)
	if !st.ipv6 {
		ipSum += uint32(binary.BigEndian.Uint16(b[etherLen+16:])) + uint32(binary.BigEndian.Uint16(b[etherLen+18:]))
	}
	st.setLength(b, len(b)-st.bth+frame.ICRCSize, ipSum)
	bth := frame.BTH(b[st.bth:st.len])
	if e.sessions != nil {
		e.sessions[k.dst].setBTH(bth, k.qpn)
	} else {
		putUint24(bth[bthDestQP:], k.qpn)
	}
	bth.SetPSN(k.psn)
	return bth
}

// headerField is the data behind an answer's AETH.
type headerField [MaxField]byte

// controlQueue is a ring buffer that grows.
type controlQueue struct {
	ring   []controlPacket // a power of two of them
	fields []headerField   // parallel to ring, if answers have fields; otherwise empty
	first  int
	len    int
}

func (q *controlQueue) push(k controlPacket) {
	if q.len == len(q.ring) {
		ring := make([]controlPacket, max(8, 2*len(q.ring)))
		n := copy(ring, q.ring[q.first:])
		copy(ring[n:], q.ring[:q.first])
		if len(q.fields) > 0 {
			fields := make([]headerField, len(ring))
			copy(fields[copy(fields, q.fields[q.first:]):], q.fields[:q.first])
			q.fields = fields
		}
		q.ring, q.first = ring, 0
	}
	q.ring[(q.first+q.len)&(len(q.ring)-1)] = k
	q.len++
}

// field returns the field of the packet pushed last, zeroed.
func (q *controlQueue) field() *headerField {
	if len(q.fields) == 0 {
		q.fields = make([]headerField, len(q.ring))
	}
	f := &q.fields[(q.first+q.len-1)&(len(q.ring)-1)]
	*f = headerField{}
	return f
}

// pop returns the first packet, and its field or nil; both are valid until the next push.
func (q *controlQueue) pop() (k controlPacket, f *headerField) {
	k = q.ring[q.first]
	if len(q.fields) > 0 {
		f = &q.fields[q.first]
	}
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.len--
	return k, f
}
