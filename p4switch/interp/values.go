package interp

import (
	"encoding/binary"
	"fmt"
)

// putValue reads a big-endian byte string of any length into words, which it
// must fit in width bits.
func putValue(dst []uint64, b []byte, width int) error {
	clear(dst)
	for len(b) > 0 && b[0] == 0 {
		b = b[1:]
	}
	n := len(b) * 8
	if n > 0 {
		for x := b[0]; x < 0x80; x <<= 1 {
			n--
		}
	}
	if n > width {
		return fmt.Errorf("%w: value %x needs %d bits; at most %d fit", ErrInvalid, b, n, width)
	}
	for i := range dst {
		if len(b) >= 8 {
			dst[i] = binary.BigEndian.Uint64(b[len(b)-8:])
			b = b[:len(b)-8]
			continue
		}
		for _, x := range b {
			dst[i] = dst[i]<<8 | uint64(x)
		}
		break
	}
	return nil
}

// bytesOfWords returns the low width bits as ceil(width/8) big-endian bytes.
func bytesOfWords(w []uint64, width int) []byte {
	out := make([]byte, (width+7)/8)
	for i := range out {
		at := len(out) - 1 - i // byte i from the end
		if i/8 < len(w) {
			out[at] = byte(w[i/8] >> (8 * uint(i%8)))
		}
	}
	if r := width % 8; r != 0 {
		out[0] &= 1<<uint(r) - 1
	}
	return out
}
