package frame

import "encoding/binary"

// CRC-32 is linear: over the field of two elements, the CRC of (packet XOR
// change) is the CRC of the packet XOR the CRC, from a zero register, of the
// change. A change of a few bytes, followed by n unchanged ones, contributes
// the CRC of those few bytes times x^8n modulo the polynomial.

// polynomial is the Ethernet CRC's, reflected: the highest power is the lowest
// bit, and the leading x^32 is not stored.
const polynomial = 0xedb88320

// shiftTables[k] is x^(8*2^k) modulo the polynomial: multiplying by it appends 2^k zero bytes. A frame has fewer than
// 2^17 bytes; TestShift recomputes the table.
var shiftTables = [17]uint32{
	0x00800000, 0x00008000, 0xedb88320, 0xb1e6b092,
	0xa06a2517, 0xed627dae, 0x88d14467, 0xd7bbfe6a,
	0xec447f11, 0x8e7ea170, 0x6427800e, 0x4d47bae0,
	0x09fe548f, 0x83852d0f, 0x30362f1a, 0x7b5a9cc3,
	0x31fec169,
}

// multiplyCRC returns a*b modulo the polynomial.
func multiplyCRC(a, b uint32) uint32 {
	var p uint32
	for ; a != 0; a <<= 1 {
		// Without branches: bits are set at random.
		p ^= b & -(a >> 31)
		b = b>>1 ^ polynomial&-(b&1)
	}
	return p
}

// appendZeros appends n zero bytes to the register. n must be below 2^17.
func appendZeros(crc uint32, n int) uint32 {
	for k := 0; n > 0; k, n = k+1, n>>1 {
		if n&1 != 0 {
			crc = multiplyCRC(crc, shiftTables[k])
		}
	}
	return crc
}

// CorrectICRC returns the ICRC (invariant CRC) of a packet in which the bytes `from` have been replaced by the bytes
// `to`, given its old ICRC. tail is the number of bytes between the replaced ones and the ICRC, below 131,072. Do not
// call it for fields that the ICRC masks. It panics if from and to differ in length.
//
// The payload is not read: the cost grows with the logarithm of tail. Several changes can be corrected one after the
// other.
func CorrectICRC(old uint32, tail int, from, to []byte) uint32 {
	_ = to[:len(from)]
	_ = from[:len(to)]
	var crc uint32
	for i := range from {
		crc = crcByte(crc, from[i]^to[i])
	}
	return old ^ appendZeros(crc, tail)
}

// CorrectSourcePort is [CorrectICRC] for the UDP source port. udpLen is the
// UDP header's length field: header, payload and ICRC.
func CorrectSourcePort(old uint32, udpLen int, from, to uint16) uint32 {
	d := from ^ to
	crc := crcByte(crcByte(0, byte(d>>8)), byte(d))
	return old ^ appendZeros(crc, udpLen-2-ICRCSize)
}

// SetSourcePort rewrites the UDP source port of a frame that already has its checksums. It corrects the ICRC, and the
// UDP checksum if there is one, without reading the payload. An ICRC that was wrong stays wrong. In a frame whose
// payload is cut off, only the port is written.
func (f *Frame) SetSourcePort(port uint16) {
	h := f.b[f.udp : f.udp+udpSize]
	old := binary.BigEndian.Uint16(h)
	if old == port {
		return
	}
	binary.BigEndian.PutUint16(h, port)
	var before, after uint32 // the ICRC; equal in a cut-off frame
	if f.isWhole() {
		before, _ = f.StoredICRC()
		after = CorrectSourcePort(before, f.end-f.udp, old, port)
		PutICRC(f.b[f.end-ICRCSize:], after)
	}
	sum := binary.BigEndian.Uint16(h[6:])
	if sum == 0 {
		return
	}
	// RFC 1624: HC' = ~(~HC + ~m + m'), for each word that changed.
	acc := uint32(^sum) + uint32(^old) + uint32(port)
	acc = replaceICRC(acc, (f.end-f.udp)&1, before, after)
	sum = ^foldChecksum(acc)
	if sum == 0 {
		sum = 0xffff // 0 would say "no checksum"
	}
	binary.BigEndian.PutUint16(h[6:], sum)
}

// replaceICRC replaces the ICRC before by the ICRC after in a checksum's accumulator. odd is 1 if the ICRC starts
// at an odd byte of the datagram: InfiniBand's padding excludes that, but frames from outside may have it.
func replaceICRC(acc uint32, odd int, before, after uint32) uint32 {
	var b, a [ICRCSize + 2]byte
	PutICRC(b[odd:], before)
	PutICRC(a[odd:], after)
	for i := 0; i < len(a); i += 2 {
		acc += uint32(^binary.BigEndian.Uint16(b[i:])) + uint32(binary.BigEndian.Uint16(a[i:]))
	}
	return acc
}

// SetFlowLabel rewrites the IPv6 flow label, 20 bits, which neither the ICRC
// nor any checksum covers. It does nothing to an IPv4 frame.
func (f *Frame) SetFlowLabel(fl uint32) {
	if !f.v6 {
		return
	}
	h := f.b[f.ip:]
	binary.BigEndian.PutUint32(h, binary.BigEndian.Uint32(h)&^0xfffff|fl&0xfffff)
}
