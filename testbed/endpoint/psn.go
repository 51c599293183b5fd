package endpoint

// Packet sequence numbers are 24 bits and wrap around. Inside a QP packets are
// counted from 0 by an int32, which holds more than a message can have.
const psnMask = 1<<24 - 1

// maxPackets bounds a message, so that PSNs in flight, nudges included, stay
// within half the circle.
const maxPackets = 1 << 22

// psnDiff returns how far a is after b, negative when it is before, on the
// assumption that they are within half the circle of each other.
func psnDiff(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }

// Queue pair numbers: see the package comment.
const (
	slotBits = 16
	slotMask = 1<<slotBits - 1
)

func qpNumber(slot uint32, generation uint8) uint32 { return uint32(generation)<<slotBits | slot }
