package hostprocess

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// crcTable is of CRC-32C, another polynomial than the packets' own CRC has.
var crcTable = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, crcTable) }

// fill makes the bytes of a message.
func fill(b []byte, seed, id uint64) {
	x := seed*0x9e3779b97f4a7c15 ^ id
	next := func() uint64 { // splitmix64
		x += 0x9e3779b97f4a7c15
		z := x
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, next())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(next())
	}
}

// slot is the place of one message in a region.
type slot struct {
	id    uint64
	start int64
	bytes int64
	left  int64 // that have not arrived
}

// region is memory that others write to.
type region struct {
	buf   []byte
	slots []slot // by start
	once  bool   // it goes when its message has arrived
}

// at returns the slot of a WRITE, nil if it fits none.
func (r *region) at(address, n int64) *slot {
	i, ok := slices.BinarySearchFunc(r.slots, address, func(s slot, a int64) int {
		switch {
		case s.start+s.bytes <= a:
			return -1
		case s.start > a:
			return 1
		}
		return 0
	})
	if !ok || address+n > r.slots[i].start+r.slots[i].bytes {
		return nil
	}
	return &r.slots[i]
}

// maxJobBytes bounds what a job makes a host keep.
const maxJobBytes = 1 << 32

// layout lays out what a job sends to one rank, in the order of its phases.
func layout(j *collective.Job, rank int) (slots []slot, total int64, err error) {
	for p := range j.Phases() {
		for s := range j.Traffic(p) {
			if s.Dst != rank {
				continue
			}
			slots = append(slots, slot{id: uint64(s.ID), start: total, bytes: s.Bytes, left: s.Bytes})
			if total += s.Bytes; total > maxJobBytes {
				return nil, 0, fmt.Errorf("host: the job sends more than %d bytes to rank %d; make it smaller", int64(maxJobBytes), rank)
			}
		}
	}
	return slots, total, nil
}

// Pieces that go by SEND begin with a header: the message's ID, its length, and
// the piece's offset in it.
const sendHeader = 24

func putSendHeader(b []byte, id uint64, bytes, offset int64) {
	binary.BigEndian.PutUint64(b, id)
	binary.BigEndian.PutUint64(b[8:], uint64(bytes))
	binary.BigEndian.PutUint64(b[16:], uint64(offset))
}

// assembly is a message of which SENDs have brought a part.
type assembly struct {
	buf  []byte
	left int64
}

// maxAssembly bounds a message that comes by SEND, in bytes.
const maxAssembly = 1 << 30

// assemble takes a SEND's bytes. It returns the message when that completes it.
func (r *Rank) assemble(src fabric.NodeID, data []byte) (id uint64, msg []byte, err error) {
	if len(data) < sendHeader {
		return 0, nil, fmt.Errorf("a SEND of %d bytes has no header", len(data))
	}
	id = binary.BigEndian.Uint64(data)
	bytes, offset := int64(binary.BigEndian.Uint64(data[8:])), int64(binary.BigEndian.Uint64(data[16:]))
	data = data[sendHeader:]
	if bytes < 1 || bytes > maxAssembly || offset < 0 || offset > bytes || int64(len(data)) > bytes-offset {
		return 0, nil, fmt.Errorf("a SEND of %d bytes at %d of message %#x, which has %d", len(data), offset, id, bytes)
	}
	key := sendKey{src, id}
	a := r.assembling[key]
	if a == nil {
		a = &assembly{buf: make([]byte, bytes), left: bytes}
		r.assembling[key] = a
	}
	if int64(len(a.buf)) != bytes || int64(len(data)) > a.left {
		return 0, nil, fmt.Errorf("%d bytes too many of message %#x", int64(len(data))-a.left, id)
	}
	copy(a.buf[offset:], data)
	if a.left -= int64(len(data)); a.left > 0 {
		return id, nil, nil
	}
	delete(r.assembling, key)
	return id, a.buf, nil
}

// sendKey names a message by SEND.
type sendKey struct {
	src fabric.NodeID
	id  uint64
}
