package hostprocess

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/ethereal-fabric/ethereal/internal/splitmix"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// crcTable is that of CRC-32C, which has another polynomial than the packets' CRC.
var crcTable = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, crcTable) }

// fillMessage makes the bytes of a message.
func fillMessage(b []byte, seed, id uint64) {
	x := seed*splitmix.Step ^ id
	next := func() uint64 {
		x += splitmix.Step
		return splitmix.Mix(x)
	}
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, next())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(next())
	}
}

// messageSlot is the place of one message in a region.
type messageSlot struct {
	id    uint64
	start int64
	bytes int64
	left  int64 // missing bytes
}

// writeRegion is memory to which other hosts write.
type writeRegion struct {
	buf   []byte
	slots []messageSlot // by start
	once  bool          // it is freed when its message has arrived
}

// at returns the slot of a WRITE, or nil if it fits none.
func (r *writeRegion) at(address, n int64) *messageSlot {
	i, ok := slices.BinarySearchFunc(r.slots, address, func(s messageSlot, a int64) int {
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

// maxMessage is the largest message, in bytes.
const maxMessage = 1 << 30

// maxJobBytes is the largest region of a job, in bytes.
const maxJobBytes = 1 << 32

// layoutSlots computes the places of a job's messages to one rank, in the order of its phases.
func layoutSlots(j *collective.Job, rank int) (slots []messageSlot, total int64, err error) {
	for p := range j.Phases() {
		for s := range j.Traffic(p) {
			if s.Dst != rank {
				continue
			}
			slots = append(slots, messageSlot{id: uint64(s.ID), start: total, bytes: s.Bytes, left: s.Bytes})
			if total += s.Bytes; total > maxJobBytes {
				return nil, 0, fmt.Errorf("host: the job sends more than %d bytes to rank %d; make it smaller", int64(maxJobBytes), rank)
			}
		}
	}
	return slots, total, nil
}
