package p4runtime

import (
	"math/bits"
	"slices"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// P4Runtime carries integers as big-endian byte strings of any length whose
// value fits the bit width. The canonical form is the shortest: no leading
// zero byte, and "\x00" for zero. Reads return the canonical form.

// canonicalBytes returns b in canonical form: b itself if it is, otherwise a copy, so that a short value does not keep
// a long request in memory.
func canonicalBytes(b []byte) []byte {
	if len(b) == 0 { // of a bit<0>
		return []byte{0}
	}
	n := 0
	for n < len(b)-1 && b[n] == 0 {
		n++
	}
	if n == 0 {
		return b
	}
	return slices.Clone(b[n:])
}

func isCanonical(b []byte) bool {
	return len(b) == 1 || (len(b) > 1 && b[0] != 0)
}

// bitLen is the number of bits that the value of b needs; 0 for zero.
func bitLen(b []byte) int {
	for i, x := range b {
		if x != 0 {
			return (len(b)-i-1)*8 + bits.Len8(x)
		}
	}
	return 0
}

// checkWidth returns an error for a string that cannot be a bit<width> value: the empty string, or a number that is
// too large. what names the bytes in the error.
func checkWidth(b []byte, width int, what string) error {
	if len(b) == 0 {
		return rpc.Invalidf("%s: empty byte string; zero is written as \"\\x00\"", what)
	}
	if n := bitLen(b); n > width {
		return rpc.Invalidf("%s: value %s needs %d bits, the field has %d", what, rpc.ShortenBytes(b), n, width)
	}
	return nil
}

// appendPadded appends b as exactly ceil(width/8) bytes. b must fit.
func appendPadded(dst, b []byte, width int) []byte {
	n := (width + 7) / 8
	for i := len(b); i < n; i++ {
		dst = append(dst, 0)
	}
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return append(dst, b...)
}

// allOnes returns the largest value of width bits.
func allOnes(width int) []byte {
	b := make([]byte, (width+7)/8)
	for i := range b {
		b[i] = 0xff
	}
	if r := width % 8; r != 0 {
		b[0] = 1<<r - 1
	}
	return b
}

// prefixMask returns a mask of the first n of width bits.
func prefixMask(n, width int) []byte {
	b := allOnes(width)
	for bit := 0; bit < width-n; bit++ {
		b[len(b)-1-bit/8] &^= 1 << (bit % 8)
	}
	return b
}

// byteAt returns byte i of b, counted from its least significant end, or 0 beyond it.
func byteAt(b []byte, i int) byte {
	if i >= len(b) {
		return 0
	}
	return b[len(b)-1-i]
}

// bitsOutside reports whether b has a bit outside mask.
func bitsOutside(b, mask []byte) bool {
	for i := range b {
		if byteAt(b, i)&^byteAt(mask, i) != 0 {
			return true
		}
	}
	return false
}

// compareBytes orders two unsigned byte strings by value.
func compareBytes(a, b []byte) int {
	for i := max(len(a), len(b)) - 1; i >= 0; i-- {
		if x, y := byteAt(a, i), byteAt(b, i); x != y {
			if x < y {
				return -1
			}
			return 1
		}
	}
	return 0
}

func isZero(b []byte) bool { return bitLen(b) == 0 }

// trailingZeros reports whether the n least significant bits of b are zero.
func trailingZeros(b []byte, n int) bool {
	for bit := 0; bit < n; bit += 8 {
		x := byteAt(b, bit/8)
		if left := n - bit; left < 8 {
			x &= 1<<left - 1
		}
		if x != 0 {
			return false
		}
	}
	return true
}

// bytesUint32 reads a byte string of up to 32 significant bits.
func bytesUint32(b []byte, what string) (uint32, error) {
	if err := checkWidth(b, 32, what); err != nil {
		return 0, err
	}
	var v uint32
	for _, x := range canonicalBytes(b) {
		v = v<<8 | uint32(x)
	}
	return v, nil
}
