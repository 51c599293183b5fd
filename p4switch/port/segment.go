package port

import (
	"encoding/binary"
	"slices"
)

// segmentTCP cuts a TCP super-frame, as a stack with segmentation offload leaves it to its NIC, into frames whose IP
// packets have at most mtu bytes, and calls f with each in order. It returns how many; 0: it is no TCP over IPv4 or
// IPv6.
func segmentTCP(frame []byte, mtu int, f func([]byte)) int {
	if len(frame) < 14 {
		return 0
	}
	typ, at := binary.BigEndian.Uint16(frame[12:]), 14
	for typ == 0x8100 || typ == 0x88a8 {
		if len(frame) < at+4 {
			return 0
		}
		typ = binary.BigEndian.Uint16(frame[at+2:])
		at += 4
	}
	var header, total int
	var proto byte
	switch ip := frame[at:]; {
	case typ == 0x0800 && len(ip) >= 20 && ip[0]>>4 == 4 && binary.BigEndian.Uint16(ip[6:])&0x3fff == 0: // no fragment
		header, total, proto = int(ip[0]&15)*4, int(binary.BigEndian.Uint16(ip[2:])), ip[9]
	case typ == 0x86dd && len(ip) >= 40 && ip[0]>>4 == 6:
		header, total, proto = 40, 40+int(binary.BigEndian.Uint16(ip[4:])), ip[6]
	}
	tcp := at + header
	if proto != 6 || header < 20 || at+total > len(frame) || tcp+20 > at+total {
		return 0
	}
	data := tcp + int(frame[tcp+12]>>4)*4
	size := mtu - (data - at)
	if data < tcp+20 || data > at+total || size <= 0 {
		return 0
	}
	n := 0
	for from := data; from < at+total; from += size {
		to := min(from+size, at+total)
		b := append(slices.Clone(frame[:data]), frame[from:to]...)
		if typ == 0x0800 {
			ip := b[at:tcp]
			binary.BigEndian.PutUint16(ip[2:], uint16(len(b)-at))
			binary.BigEndian.PutUint16(ip[4:], binary.BigEndian.Uint16(ip[4:])+uint16(n))
			ip[10], ip[11] = 0, 0
			sum := addWords(0, ip)
			for sum > 0xffff {
				sum = sum>>16 + sum&0xffff
			}
			binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
		} else {
			binary.BigEndian.PutUint16(b[at+4:], uint16(len(b)-tcp))
		}
		binary.BigEndian.PutUint32(b[tcp+4:], binary.BigEndian.Uint32(b[tcp+4:])+uint32(from-data))
		if to < at+total {
			b[tcp+13] &^= 0x01 | 0x08 // FIN and PSH are the last one's
		}
		if n > 0 {
			b[tcp+13] &^= 0x80 // CWR is the first one's
		}
		completeChecksum(b)
		f(b)
		n++
	}
	return n
}
