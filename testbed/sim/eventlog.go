package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"math/bits"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// RecordKind is the kind of event of a [Record].
type RecordKind uint8

// The kinds of records.
const (
	RecordSend    RecordKind = iota + 1 // a packet's first bit leaves a port
	RecordDrop                          // a switch drops a packet
	RecordLost                          // a packet is lost on a cut link
	RecordInject                        // a packet is injected: see [Network.Inject]
	RecordCut                           // a direction is cut
	RecordRestore                       // a direction is restored
	RecordNote                          // see [Network.Note]
	recordControl                       // a control function runs; not traced
)

var recordNames = [...]string{"", "send", "drop", "lost", "inject", "cut", "restore", "note", "control"}

// String names the kind.
func (k RecordKind) String() string {
	if int(k) < len(recordNames) {
		return recordNames[k]
	}
	return "unknown"
}

// eventLog digests what happened at one node. Logs are kept per node, and
// joined at the end, so that the digest does not depend on how events of
// different nodes interleave.
type eventLog struct {
	buf  [8 * recordSize]byte
	fill int
	sum  hash.Hash
}

func newEventLogs(count int) []eventLog {
	logs := make([]eventLog, count)
	for i := range logs {
		logs[i].sum = sha256.New()
	}
	return logs
}

// recordSize is the bytes of one record: time 8, kind 1, class 1, detail 1,
// zero 1, direction 4, length 4, payload 4, header digest 8, big-endian.
const recordSize = 32

func (l *eventLog) flush() {
	l.sum.Write(l.buf[:l.fill]) // never fails
	l.fill = 0
}

func (l *eventLog) next() []byte {
	if l.fill == len(l.buf) {
		l.flush()
	}
	b := l.buf[l.fill : l.fill+recordSize : l.fill+recordSize]
	l.fill += recordSize
	return b
}

// packetDigest mixes a packet's real bytes into 64 bits. It need not withstand an
// adversary, only tell two runs apart.
func packetDigest(b []byte) uint64 {
	const k0, k1 = 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9
	h := uint64(len(b)) * k0
	for ; len(b) >= 8; b = b[8:] {
		hi, lo := bits.Mul64(h^binary.LittleEndian.Uint64(b)^k0, k1)
		h = hi ^ lo + k0
	}
	var last [8]byte
	copy(last[:], b)
	hi, lo := bits.Mul64(h^binary.LittleEndian.Uint64(last[:])^k1, k0)
	return hi ^ lo
}

// record logs an event of a node, and passes it to the tracer. p may be nil.
func (r *region) record(kind RecordKind, node fabric.NodeID, dir LinkDir, detail uint8, p *packet) {
	b := r.logs[node].next()
	binary.BigEndian.PutUint64(b, uint64(r.now))
	head := uint32(kind)<<24 | uint32(detail)<<8
	var length, payload int32
	var sum uint64
	if p != nil {
		head |= uint32(p.class) << 16
		length, payload = p.length, p.payload
		sum = packetDigest(p.data[:p.header])
	}
	binary.BigEndian.PutUint32(b[8:], head)
	binary.BigEndian.PutUint32(b[12:], uint32(dir))
	binary.BigEndian.PutUint32(b[16:], uint32(length))
	binary.BigEndian.PutUint32(b[20:], uint32(payload))
	binary.BigEndian.PutUint64(b[24:], sum)
	if r.cfg.Tracer != nil {
		rec := Record{At: r.now, Kind: kind, Node: node, Dir: dir, Reason: DropReason(detail)}
		if p != nil {
			rec.Class, rec.Length, rec.Payload, rec.Header = p.class, int(p.length), int(p.payload), p.data[:p.header]
		}
		r.cfg.Tracer.Trace(rec)
	}
}

// recordControl notes that a control function runs.
func (n *Network) recordControl(at fabric.Time, sequence uint32) {
	b := n.logs[len(n.logs)-1].next()
	clear(b)
	binary.BigEndian.PutUint64(b, uint64(at))
	binary.BigEndian.PutUint32(b[8:], uint32(recordControl)<<24)
	binary.BigEndian.PutUint32(b[12:], sequence)
}

// Note adds a line of text to the event log: something that happens outside the network, such as the move of a queue
// pair. node is -1 if it concerns none.
func (n *Network) Note(node fabric.NodeID, text string) {
	l := &n.logs[len(n.logs)-1]
	b := l.next()
	clear(b)
	binary.BigEndian.PutUint64(b, uint64(n.Now()))
	binary.BigEndian.PutUint32(b[8:], uint32(RecordNote)<<24)
	binary.BigEndian.PutUint32(b[12:], uint32(node))
	binary.BigEndian.PutUint32(b[16:], uint32(len(text)))
	l.flush()
	l.sum.Write([]byte(text))
	if n.cfg.Tracer != nil {
		n.cfg.Tracer.Trace(Record{At: n.Now(), Kind: RecordNote, Node: node, Dir: -1, Text: text})
	}
}

// EventHash returns the SHA-256 of everything that has happened so far: every departure, drop and loss with the
// packet's header, every cut, control function and note. Two runs with the same hash are the same in every event.
func (n *Network) EventHash() (sum [sha256.Size]byte) {
	all := sha256.New()
	for i := range n.logs {
		n.logs[i].flush()
		all.Write(n.logs[i].sum.Sum(nil))
	}
	all.Sum(sum[:0])
	return sum
}
