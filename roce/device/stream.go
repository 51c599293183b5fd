//go:build linux

package device

import (
	"encoding/binary"
	"errors"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// A connection has two streams of bytes in each direction: requests, and responses
// to the other side's requests. A stream is a sequence of messages, each a header
// and maybe data. Its bytes have positions, from one that follows from the PSN, so
// that parts of it go side by side, each as an RDMA WRITE of the endpoint's whose key
// names the stream and whose address is the position.

// Kinds of streams, above the queue pair's number in a key.
const (
	kindRequests  = 1
	kindResponses = 2
	kindDatagrams = 3
	kindCM        = 4          // messages of connection management, of no queue pair
	keyMark       = 0xe7 << 24 // distinguishes such keys from others
)

func streamKey(kind, qpn uint32) uint32 { return keyMark ^ kind<<24 | qpn }

func parseKey(key uint32) (kind, qpn uint32) { return (key ^ keyMark) >> 24, key & 0xffffff }

// mapWindow is how many bytes of a stream may be under way: what a receiver keeps that
// came before its turn.
const mapWindow = 1 << 20

// maxFlow is how many bytes of a stream are handed to the agent at once, at most.
const maxFlow = 256 << 10

// firstPosition is where a stream begins.
func firstPosition(psn uint32) uint64 { return uint64(psn&0xffffff) << 32 }

// Message kinds. Those of requests have the numbers of work requests.
const (
	msgAck = 16 + iota
	msgNak
	msgNotReady
	msgReadResponse
	msgAtomicResponse
	msgDatagram
	msgChecked // answers flagCheckOnly
	msgSettle  // message type: asks for an acknowledgement, and has no data
)

// Flags of messages.
const (
	flagAck       = 1 << iota // flag: the message has to be acknowledged
	flagSolicited             // the receiver's completion is solicited
	flagImm
	flagTellNotReady // the sender counts how often the receiver is not ready
	flagCheckOnly    // a read or atomic whose result has no place: its key is checked, and nothing is carried out
)

const headerSize = 48

// header is the header of a message in a stream.
type header struct {
	op     uint8
	flags  uint8
	msn    uint32 // of the request, or of the request that is answered
	length uint32 // of the data that follows; of a read request: of what is read
	rkey   uint32
	addr   uint64
	imm    uint32
	aux    uint32 // a NAK's status; a datagram's source queue pair
	a, b   uint64 // operands, result; a datagram's key
}

func (h *header) append(b []byte) []byte {
	b = append(b, h.op, h.flags, 0, 0)
	b = binary.BigEndian.AppendUint32(b, h.msn)
	b = binary.BigEndian.AppendUint32(b, h.length)
	b = binary.BigEndian.AppendUint32(b, h.rkey)
	b = binary.BigEndian.AppendUint64(b, h.addr)
	b = binary.BigEndian.AppendUint32(b, h.imm)
	b = binary.BigEndian.AppendUint32(b, h.aux)
	b = binary.BigEndian.AppendUint64(b, h.a)
	return binary.BigEndian.AppendUint64(b, h.b)
}

func parseHeader(b []byte) header {
	be := binary.BigEndian
	return header{
		op: b[0], flags: b[1], msn: be.Uint32(b[4:]), length: be.Uint32(b[8:]), rkey: be.Uint32(b[12:]), addr: be.Uint64(b[16:]),
		imm: be.Uint32(b[24:]), aux: be.Uint32(b[28:]), a: be.Uint64(b[32:]), b: be.Uint64(b[40:]),
	}
}

// data returns how many bytes of data follow the header.
func (h *header) data() uint64 {
	switch h.op {
	case wrWrite, wrWriteImm, wrSend, wrSendImm, wrSendInv, msgReadResponse, msgDatagram:
		return uint64(h.length)
	}
	return 0
}

// messageContent is bytes of a stream: of this process, or of a program's memory.
type messageContent struct {
	local  []byte
	memory *client
	sges   []sge
}

func (c *messageContent) len() uint64 { return uint64(len(c.local)) + totalLength(c.sges) }

// read fills b with the bytes from off on.
func (c *messageContent) read(b []byte, off uint64) error {
	if c.memory == nil {
		copy(b, c.local[off:])
		return nil
	}
	return walkSGEs(c.sges, off, uint64(len(b)), func(addr, n uint64) error {
		err := c.memory.memory.read(b[:n], addr)
		b = b[n:]
		return err
	})
}

// walkSGEs calls do for the parts of sges that n bytes from off on are.
func walkSGEs(sges []sge, off, n uint64, do func(addr, n uint64) error) error {
	for _, s := range sges {
		if n == 0 {
			break
		}
		if off >= uint64(s.length) {
			off -= uint64(s.length)
			continue
		}
		m := min(n, uint64(s.length)-off)
		if err := do(s.addr+off, m); err != nil {
			return err
		}
		off, n = 0, n-m
	}
	return nil
}

// segment is content at a place in a stream.
type segment struct {
	at uint64
	messageContent
}

// outStream is a stream's sending end.
type outStream struct {
	q    *queuePair
	key  uint32
	dst  fabric.NodeID
	segs []segment // not acknowledged, in order
	// base is the first byte not acknowledged, sent the first not handed to the
	// agent, next the first not there yet.
	base, sent, next uint64
	flows            []*flow           // under way, in order; probes are not among them
	refused          []repeatedRequest // what was refused, to be retransmitted
	probing          bool
	againAt          fabric.Time // and when
	retryWait        fabric.Time // how long that waits
	lastAckedAt      fabric.Time // when bytes were last acknowledged
	broken           bool        // the program's memory could not be read
}

// repeatedRequest is a part of a flow that is to be retransmitted.
type repeatedRequest struct {
	span byteSpan
	of   *flow // nil: a probe
}

// byteSpan is a range of bytes of a stream.
type byteSpan struct {
	at uint64
	n  int64
}

// flow is a part of a stream that was handed to the agent.
type flow struct {
	id   uint64
	s    *outStream
	span byteSpan
	left int64 // bytes not acknowledged
	// of is the flow of which this repeats a part; nil of a probe, and of what is sent
	// for the first time.
	of    *flow
	probe bool
	gram  *datagramMessage // nil: it is no datagram
	data  []byte           // its bytes, if they were read from a program's memory
	owner *client          // of that
}

func (s *outStream) begin(psn, key uint32, dst fabric.NodeID) {
	at := firstPosition(psn)
	*s = outStream{q: s.q, key: key, dst: dst, base: at, sent: at, next: at}
}

// room returns whether another message may be put in.
func (s *outStream) room() bool { return s.next-s.base < mapWindow }

func (s *outStream) appendContent(c messageContent) {
	if n := c.len(); n > 0 {
		s.segs = append(s.segs, segment{s.next, c})
		s.next += n
	}
}

// piece is a part of a flow on a queue pair of the endpoint's.
type piece struct {
	qp    transport.QP
	f     *flow
	off   int64
	n     int64
	begun bool // some of it has been sent
}

// errAside means that bytes cannot be read at once.
var errAside = errors.New("nic: the program's memory is read aside")

// Read fills b with the payload from byte off on, for [soft.Source].
func (p *piece) Read(b []byte, off int64) error {
	p.begun = true
	if p.f.data != nil {
		copy(b, p.f.data[p.off+off:])
		return nil
	}
	s := p.f.s
	at := p.f.span.at + uint64(p.off+off)
	if int64(at-s.base) < 0 { // acknowledged meanwhile: what it says is known
		k := min(int(s.base-at), len(b))
		clear(b[:k])
		b, at = b[k:], at+uint64(k)
	}
	for i := s.segmentAt(at); i < len(s.segs) && len(b) > 0; i++ {
		g := &s.segs[i]
		if g.memory != nil && g.memory.accessesInGoroutines() {
			g.memory.n.postponed = append(g.memory.n.postponed, p)
			return errAside
		}
		n := min(g.len()-(at-g.at), uint64(len(b)))
		if err := g.read(b[:n], at-g.at); err != nil {
			s.broken = true
			return err
		}
		b, at = b[n:], at+n
	}
	clear(b)
	return nil
}

// segmentAt returns which segment has a position.
func (s *outStream) segmentAt(at uint64) int {
	lo, hi := 0, len(s.segs)
	for lo < hi {
		if mid := (lo + hi) / 2; int64(at-(s.segs[mid].at+s.segs[mid].len())) >= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// acknowledge takes note that a flow has arrived, and forgets what is not needed
// any more.
func (s *outStream) acknowledge(now fabric.Time) {
	s.lastAckedAt = now
	for len(s.flows) > 0 && s.flows[0].left == 0 {
		f := s.flows[0]
		s.base = f.span.at + uint64(f.span.n)
		s.flows = s.flows[1:]
	}
	k := 0
	for k < len(s.segs) && int64(s.base-(s.segs[k].at+s.segs[k].len())) >= 0 {
		k++
	}
	s.segs = s.segs[k:]
}

// inStream is a stream's receiving end: it puts what comes out of turn in order.
type inStream struct {
	q     *queuePair
	open  bool
	next  uint64
	stage *stagedBytes
	head  [headerSize]byte
	got   int // of head
	in    *inMessage
	// blocked is a message that waits for a receive request, and waits one that waits for an access to the program's
	// memory. What comes behind it is staged.
	blocked, waits bool
}

// maxSpans bounds the pieces of a stage, through which each packet searches.
const maxSpans = 8192

// stagedBytes keeps bytes of a stream that came before their turn: byte at is kept at
// at modulo window.
type stagedBytes struct {
	ring  [mapWindow]byte
	spans []byteSpan // in order, apart from each other
}

func (g *stagedBytes) put(at uint64, b []byte) {
	n := byteSpan{at, int64(len(b))}
	// What is there stays: a sender has zeros for bytes that were acknowledged (piece.Read).
	for _, s := range g.spans {
		if before := int64(s.at - at); before > 0 {
			k := min(before, int64(len(b)))
			g.copy(at, b[:k])
			at, b = at+uint64(k), b[k:]
		}
		if both := int64(s.at + uint64(s.n) - at); both > 0 && int64(s.at-at) <= 0 {
			k := min(both, int64(len(b)))
			at, b = at+uint64(k), b[k:]
		}
	}
	g.copy(at, b)
	at = n.at
	// Mostly it follows one that is there.
	i := len(g.spans)
	for i > 0 && int64(at-g.spans[i-1].at) < 0 {
		i--
	}
	if i > 0 && int64(g.spans[i-1].at+uint64(g.spans[i-1].n)-at) >= 0 {
		i--
		end := max(int64(n.at-g.spans[i].at)+n.n, g.spans[i].n)
		g.spans[i].n = end
	} else {
		g.spans = append(g.spans, byteSpan{})
		copy(g.spans[i+1:], g.spans[i:])
		g.spans[i] = n
	}
	// What it has reached becomes part of it.
	j := i + 1
	for ; j < len(g.spans); j++ {
		gap := int64(g.spans[j].at - g.spans[i].at)
		if gap > g.spans[i].n {
			break
		}
		g.spans[i].n = max(g.spans[i].n, gap+g.spans[j].n)
	}
	g.spans = append(g.spans[:i+1], g.spans[j:]...)
}

// copy copies bytes to their places.
func (g *stagedBytes) copy(at uint64, b []byte) {
	for k := 0; k < len(b); {
		k += copy(g.ring[(at+uint64(k))%mapWindow:], b[k:])
	}
}

// bytesFrom returns bytes that are there from at on, nil if there are none; not all of
// them if they go round the ring's end.
func (g *stagedBytes) bytesFrom(at uint64) []byte {
	if len(g.spans) == 0 || int64(at-g.spans[0].at) < 0 {
		return nil
	}
	n := g.spans[0].n - int64(at-g.spans[0].at)
	if n <= 0 {
		return nil
	}
	i := at % mapWindow
	return g.ring[i:min(mapWindow, i+uint64(n))]
}

// drop forgets what is before at.
func (g *stagedBytes) drop(at uint64) {
	k := 0
	for k < len(g.spans) && int64(at-g.spans[k].at)-g.spans[k].n >= 0 {
		k++
	}
	g.spans = append(g.spans[:0], g.spans[k:]...)
	if len(g.spans) > 0 {
		if d := int64(at - g.spans[0].at); d > 0 {
			g.spans[0].at, g.spans[0].n = at, g.spans[0].n-d
		}
	}
}
