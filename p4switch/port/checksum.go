package port

import "encoding/binary"

// completeChecksum computes the TCP or UDP checksum of an Ethernet frame whose
// origin left it to a NIC. Other frames, and fragments, are left alone; it
// reports whether it wrote a checksum.
func completeChecksum(frame []byte) bool {
	if len(frame) < 14 {
		return false
	}
	typ := binary.BigEndian.Uint16(frame[12:])
	at := 14
	for typ == 0x8100 || typ == 0x88a8 {
		if len(frame) < at+4 {
			return false
		}
		typ = binary.BigEndian.Uint16(frame[at+2:])
		at += 4
	}
	b := frame[at:]
	var sum uint32
	var proto byte
	switch typ {
	case 0x0800:
		if len(b) < 20 || b[0]>>4 != 4 {
			return false
		}
		header, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
		if header < 20 || total < header || total > len(b) || binary.BigEndian.Uint16(b[6:])&0x3fff != 0 {
			return false
		}
		proto = b[9]
		sum = addWords(0, b[12:20])
		b = b[header:total]
	case 0x86dd:
		if len(b) < 40 || b[0]>>4 != 6 {
			return false
		}
		length := int(binary.BigEndian.Uint16(b[4:]))
		if 40+length > len(b) {
			return false
		}
		proto = b[6]
		sum = addWords(0, b[8:40])
		b = b[40 : 40+length]
	default:
		return false
	}
	var field int
	switch proto {
	case 6:
		field = 16
	case 17:
		field = 6
	default:
		return false
	}
	if len(b) < field+2 {
		return false
	}
	b[field], b[field+1] = 0, 0
	sum += uint32(proto) + uint32(len(b))
	sum = addWords(sum, b)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	c := ^uint16(sum)
	if c == 0 && proto == 17 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(b[field:], c)
	return true
}

// addWords adds 16-bit words to a sum that is far from overflow.
func addWords(sum uint32, b []byte) uint32 {
	for len(b) >= 2 {
		sum += uint32(b[0])<<8 | uint32(b[1])
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum>>16 + sum&0xffff
}
