package p4rt

import (
	"encoding/binary"
	"fmt"

	"github.com/ethereal-fabric/ethereal/controller"
)

// canonical returns v in P4Runtime's form of a number: big-endian, as short as possible, zero as one byte.
func canonical(v controller.Value) []byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], v.Hi)
	binary.BigEndian.PutUint64(b[8:], v.Lo)
	i := 0
	for i < len(b)-1 && b[i] == 0 {
		i++
	}
	return append([]byte(nil), b[i:]...)
}

func canonical64(v uint64) []byte { return canonical(controller.Value{Lo: v}) }

// parse reads a number of at most bits bits, leading zero bytes allowed.
func parse(b []byte, bits int) (controller.Value, error) {
	if len(b) == 0 {
		return controller.Value{}, fmt.Errorf("empty byte string; zero is one zero byte")
	}
	var wide [16]byte
	for i, x := range b {
		at := len(wide) - len(b) + i
		if at >= 0 {
			wide[at] = x
		} else if x != 0 {
			return controller.Value{}, fmt.Errorf("%x does not fit into %d bits", b, bits)
		}
	}
	v := controller.Value{Hi: binary.BigEndian.Uint64(wide[:8]), Lo: binary.BigEndian.Uint64(wide[8:])}
	if !fitsBits(v, bits) {
		return controller.Value{}, fmt.Errorf("%x does not fit into %d bits", b, bits)
	}
	return v, nil
}

func fitsBits(v controller.Value, bits int) bool {
	switch {
	case bits >= 128:
		return true
	case bits > 64:
		return v.Hi>>(bits-64) == 0
	case bits == 64:
		return v.Hi == 0
	}
	return v.Hi == 0 && v.Lo>>bits == 0
}

// prefixMask returns the mask of a prefix of a length, in a field of a width.
func prefixMask(length, bits int) controller.Value {
	ones := func(n int) uint64 { // the top n of 64 bits
		if n <= 0 {
			return 0
		}
		return ^uint64(0) << (64 - min(n, 64))
	}
	low := min(bits, 64)
	hi := bits - low
	m := controller.Value{Lo: ones(length-hi) >> (64 - low)}
	if hi > 0 {
		m.Hi = ones(length) >> (64 - hi)
	}
	return m
}
