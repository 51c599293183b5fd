package sim

import (
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// MaxHeader is the largest number of header bytes of a packet. A RoCEv2 packet with VLAN, IPv6, UDP, BTH, RETH and AETH
// has 98. A packet with more is refused, or dropped for [DropOversize].
const MaxHeader = 160

// MaxPacket is the largest length of a packet, in bytes.
const MaxPacket = 1 << 20

// packet is a pool slot: four cache lines, of which a RoCEv2 packet uses two. On
// a link it is a frame. In a queue the pipeline's handle stands for it, or, when
// it was processed in place, its own bytes with what the pipeline holds.
type packet struct {
	at      fabric.Time // on a link: when it arrives; in a queue: when it joined
	next    packetID    // list link
	length  int32       // header, payload and trailer
	payload int32       // of the message it carries
	depth   int32       // in a queue: bytes of data queued when it joined; on a link: see followedAt
	from    LinkDir     // it came in by; -1: made here. Kept up only under PFC
	header  uint8       // real bytes in data
	class   uint8
	is      packetState
	pause   uint8      // of a pause frame: what it says
	held    HeldPacket // of a packet in place, else the handle in the first word
	data    [MaxHeader + headerSlack]byte
}

// packetState is a bit set of a packet's unusual properties.
type packetState uint8

const (
	inPlace      packetState = 1 << iota // it waits in a queue, without a handle
	stateTrimmed                         // it was cut to its header; so it stays
)

func (p *packet) handle() Handle { return Handle(p.held[0]) }
func (p *packet) setHandle(h Handle) {
	p.held[0] = uint64(h)
	p.is &^= inPlace
}

// trim cuts a packet to its header.
func (p *packet) trim() {
	p.is |= stateTrimmed
	p.length, p.payload = int32(p.header), 0
}

// setNextArrival notes when the packet behind it on a link arrives, so that its own arrival
// need not wait for that one's memory.
func (p *packet) setNextArrival(at fabric.Time) {
	if p.depth = -1; at-p.at <= math.MaxInt32 {
		p.depth = int32(at - p.at)
	}
}

// nextArrival returns what was noted; ok is false if it is too far away for that.
func (p *packet) nextArrival() (at fabric.Time, ok bool) {
	return p.at + fabric.Time(p.depth), p.depth >= 0
}

// headerSlack is room behind the longest header: [InPlace] may read it, and it
// makes a packet whole cache lines.
const headerSlack = 40

// packetID names a pool slot; 0 names none.
type packetID uint32

const poolChunk = 1024

// packetPool hands out packets by index. Slots never move.
type packetPool struct {
	chunks []*[poolChunk]packet
	free   packetID
	inUse  int
}

func (p *packetPool) at(id packetID) *packet {
	return &p.chunks[id/poolChunk][id%poolChunk]
}

// get returns a slot; its contents are stale.
func (p *packetPool) get() (packetID, *packet) {
	if p.free == 0 {
		base := packetID(len(p.chunks) * poolChunk)
		chunk := new([poolChunk]packet)
		p.chunks = append(p.chunks, chunk)
		for i := poolChunk - 1; i >= 0; i-- {
			if base+packetID(i) == 0 {
				break // slot 0 is no slot
			}
			chunk[i].next = p.free
			p.free = base + packetID(i)
		}
	}
	id := p.free
	slot := p.at(id)
	p.free = slot.next
	p.inUse++
	slot.next = 0
	return id, slot
}

func (p *packetPool) put(id packetID) {
	slot := p.at(id)
	slot.next = p.free
	p.free = id
	p.inUse--
}

// packetList is a FIFO of packets linked through their next field.
type packetList struct{ head, tail packetID }

func (l *packetList) push(p *packetPool, id packetID, slot *packet) {
	slot.next = 0
	if l.tail == 0 {
		l.head = id
	} else {
		p.at(l.tail).next = id
	}
	l.tail = id
}

func (l *packetList) pop(p *packetPool) (packetID, *packet) {
	id := l.head
	slot := p.at(id)
	l.head = slot.next
	if l.head == 0 {
		l.tail = 0
	}
	return id, slot
}
