package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrICRC is wrapped by the error of [Frame.VerifyICRC] for a wrong ICRC (invariant CRC).
var ErrICRC = errors.New("rocev2: wrong ICRC")

// afterLRH is the CRC register after eight bytes of ones, which replace the local route header that RoCEv2 does not
// have.
const afterLRH = 0xdebb20e3

// ICRC computes the ICRC (invariant CRC) of a frame. ok is false if the frame's payload is cut off.
func (f *Frame) ICRC() (icrc uint32, ok bool) {
	if !f.isWhole() {
		return 0, false
	}
	// crc32.Update inverts before and after; the register itself is not inverted.
	crc := ^f.headerCRC()
	crc = crc32.Update(crc, crc32.IEEETable, f.b[f.bth+BTHSize:f.end-ICRCSize])
	return crc, true
}

// headerCRC returns the CRC register behind the BTH.
func (f *Frame) headerCRC() uint32 {
	crc := uint32(afterLRH)
	h := f.b[f.ip:f.udp]
	if f.v6 {
		crc = crcByte(crc, h[0]|0x0f) // version included, traffic class masked
		crc = crcOnes(crc, 3)         // the rest of it, and the flow label
		crc = crcBytes(crc, h[4:7])
		crc = crcOnes(crc, 1) // hop limit
		crc = crcBytes(crc, h[8:])
	} else {
		crc = crcByte(crc, h[0])
		crc = crcOnes(crc, 1) // ToS
		crc = crcBytes(crc, h[2:8])
		crc = crcOnes(crc, 1) // TTL
		crc = crcByte(crc, h[9])
		crc = crcOnes(crc, 2) // header checksum
		crc = crcBytes(crc, h[12:])
	}
	crc = crcBytes(crc, f.b[f.udp:f.udp+6])
	crc = crcOnes(crc, 2) // UDP checksum
	bth := f.BTH()
	crc = crcBytes(crc, bth[:bthECN])
	crc = crcOnes(crc, 1) // FECN, BECN, reserved
	return crcBytes(crc, bth[bthDestQP:])
}

func crcByte(crc uint32, b byte) uint32 { return crc32.IEEETable[byte(crc)^b] ^ crc>>8 }

// crcBytes adds bytes to the register. It does not call [crc32.Update], which is slower on a few bytes.
func crcBytes(crc uint32, p []byte) uint32 {
	t := crc32.IEEETable
	for _, b := range p {
		crc = t[byte(crc)^b] ^ crc>>8
	}
	return crc
}

func crcOnes(crc uint32, n int) uint32 {
	for range n {
		crc = crcByte(crc, 0xff)
	}
	return crc
}

// StoredICRC returns the ICRC in the frame. ok is false if it is cut off.
func (f *Frame) StoredICRC() (icrc uint32, ok bool) {
	if !f.isWhole() {
		return 0, false
	}
	return binary.LittleEndian.Uint32(f.b[f.end-ICRCSize:]), true
}

// SetICRC computes the ICRC and writes it into the frame. If the frame's payload is cut off, it writes nothing and
// returns false.
func (f *Frame) SetICRC() bool {
	icrc, ok := f.ICRC()
	if ok {
		PutICRC(f.b[f.end-ICRCSize:], icrc)
	}
	return ok
}

// PutICRC writes an ICRC into the first four bytes of b, in the byte order of the wire.
func PutICRC(b []byte, icrc uint32) { binary.LittleEndian.PutUint32(b, icrc) }

// VerifyICRC returns nil if the frame's ICRC is right. The error wraps [ErrICRC] if it is wrong and [ErrMalformed]
// if the frame is cut off.
func (f *Frame) VerifyICRC() error {
	want, ok := f.ICRC()
	if !ok {
		return fmt.Errorf("%w: the frame is cut off: it has %d of %d bytes", ErrMalformed, len(f.b), f.end)
	}
	if got, _ := f.StoredICRC(); got != want {
		return fmt.Errorf("%w: it is %#08x, the packet's bytes make %#08x", ErrICRC, got, want)
	}
	return nil
}
