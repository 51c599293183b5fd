package tofino

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
)

// randomPacket returns a packet for [torTables] and what kind it is. Checksums of IPv4 are right but for one packet in
// sixteen.
func randomPacket(r *rand.Rand) (port uint32, kind string, data []byte) {
	pick := func(options ...byte) byte { return options[r.IntN(len(options))] }
	port = uint32(pick(1, 2, 3, 4, 5))
	data = append(data, 2, 0, 0, 0, 0, pick(1, 2), 2, 0, 0, 0, 0, pick(3, 4))
	if r.IntN(8) == 0 {
		data = append(data, 0x81, 0, byte(r.Uint32()), byte(r.Uint32()))
	}
	udp := randomUDP(r)
	switch r.IntN(10) {
	case 0:
		data = append(data, 0x88, pick(0xCC, 0xB6, 0x08), pick(1, 2))
		data = append(data, make([]byte, 50)...)
		return port, "neither IPv4 nor IPv6", data
	case 1, 2, 3:
		kind = "IPv6"
		data = append(data, 0x86, 0xDD, 0x60|byte(r.IntN(16)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()))
		if r.IntN(2) == 0 { // a label
			data[len(data)-3], data[len(data)-2], data[len(data)-1] = 0x0F, 0xC0|byte(r.IntN(64)), byte(r.Uint32())
		}
		data = binary.BigEndian.AppendUint16(data, uint16(len(udp)))
		data = append(data, pick(17, 17, 17, 6), pick(64, 64, 2, 1, 0))
		data = append(data, 0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, pick(1, 2, 9))
		data = append(data, 0xFD, 0, 0, 0, 0, 0, 0, pick(0, 0, 0, 1), 0, 0, 0, 0, 0, 0, 0, pick(1, 2, 9))
	default:
		kind = "IPv4"
		data = append(data, 8, 0)
		at := len(data)
		data = append(data, 0x45, byte(r.Uint32()))
		data = binary.BigEndian.AppendUint16(data, uint16(20+len(udp)))
		data = append(data, byte(r.Uint32()), byte(r.Uint32()), pick(0, 0x40, 0x40, 0x20), 0)
		data = append(data, pick(64, 64, 2, 1, 0), pick(17, 17, 17, 6), 0, 0)
		data = append(data, 10, 0, 0, pick(1, 2), 10, pick(0, 0, 1, 2), 0, pick(1, 2, 9))
		sum := checksum(data[at:])
		if r.IntN(16) == 0 {
			sum++
		}
		binary.BigEndian.PutUint16(data[at+10:], sum)
	}
	if binary.BigEndian.Uint16(udp[2:]) == 47910 {
		kind += " quench"
	} else if binary.BigEndian.Uint16(udp[2:]) == 4791 {
		kind += " RoCEv2"
	}
	return port, kind, append(data, udp...)
}

// randomUDP returns a UDP header and what is behind it.
func randomUDP(r *rand.Rand) []byte {
	src, dst := uint16(r.Uint32()), []uint16{4791, 4791, 4791, 47910, 53}[r.IntN(5)]
	if r.IntN(2) == 0 {
		src |= 0xC000
	}
	if r.IntN(4) == 0 {
		src = 0xC000 | uint16(r.IntN(4)) // a label that source_route has, or not
	}
	b := binary.BigEndian.AppendUint16(nil, src)
	b = binary.BigEndian.AppendUint16(b, dst)
	b = binary.BigEndian.AppendUint16(b, 8+12+24)
	b = binary.BigEndian.AppendUint16(b, uint16(r.Uint32()))
	b = append(b, []byte{0x04, 0x0A, 0x11, 0x12, 0x81}[r.IntN(5)])
	for range 11 + 24 {
		b = append(b, byte(r.Uint32()))
	}
	return b
}

// checksum returns the Internet checksum of a header whose own is 0.
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xFFFF + sum>>16
	}
	return ^uint16(sum)
}

// labelledPacket returns a RoCEv2 packet over IPv4 from host 1 to another ToR's host 10.2.0.1, with a label in its UDP
// source port.
func labelledPacket(label uint16) []byte {
	b := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 3, 8, 0}
	at := len(b)
	b = append(b, 0x45, 0, 0, 20+8+12+32, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 2, 0, 1)
	binary.BigEndian.PutUint16(b[at+10:], checksum(b[at:at+20]))
	return append(b, roce(0xC000|label)...)
}

// labelledPacketV6 is labelledPacket over IPv6, with the label in the flow label.
func labelledPacketV6(label uint16) []byte {
	b := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 3, 0x86, 0xDD}
	b = append(b, 0x60, 0x0F, 0xC0|byte(label>>8), byte(label), 0, 8+12+32, 17, 64)
	b = append(b, 0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)
	b = append(b, 0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9)
	return append(b, roce(0x1234)...)
}

// roce returns UDP, BTH and 32 bytes.
func roce(source uint16) []byte {
	b := binary.BigEndian.AppendUint16(nil, source)
	b = binary.BigEndian.AppendUint16(b, 4791)
	b = append(b, 0, 8+12+32, 0, 0, 0x04, 0, 0xFF, 0xFF, 0, 0, 0, 17, 0, 0, 0, 99)
	return append(b, make([]byte, 32)...)
}

// noticeOf returns a notice as another switch's.
func noticeOf(notice []byte, sw byte) []byte {
	b := slices.Clone(notice)
	ip := b[14:34]
	ip[4] ^= sw // the identification, by which switches know a notice
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	b[14+20+8+7] = sw // the last byte of its switch
	return b
}
