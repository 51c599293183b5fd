package interp

import (
	"math/bits"
	"slices"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Arithmetic on numbers of several words, least significant first, in two's
// complement. Destinations may alias operands unless said otherwise.

// maskWords keeps the low width bits of a number.
func maskWords(d []uint64, width int) {
	for i := range d {
		switch n := width - 64*i; {
		case n <= 0:
			d[i] = 0
		case n < 64:
			d[i] &= 1<<uint(n) - 1
		}
	}
}

// signExtend extends the low width bits over the rest.
func signExtend(d []uint64, width int) {
	w, b := (width-1)/64, uint(width-1)%64
	if w >= len(d) {
		return
	}
	neg := d[w]>>b&1 != 0
	maskWords(d, width)
	if !neg {
		return
	}
	if b < 63 {
		d[w] |= ^uint64(0) << (b + 1)
	}
	for i := w + 1; i < len(d); i++ {
		d[i] = ^uint64(0)
	}
}

func isNeg(a []uint64) bool { return a[len(a)-1]>>63 != 0 }

func isZeroWords(a []uint64) bool {
	for _, x := range a {
		if x != 0 {
			return false
		}
	}
	return true
}

// cmpWords compares as unsigned numbers.
func cmpWords(a, b []uint64) int {
	for i, v := range slices.Backward(a) {
		if v != b[i] {
			if v < b[i] {
				return -1
			}
			return 1
		}
	}
	return 0
}

func cmpSigned(a, b []uint64) int {
	if x, y := isNeg(a), isNeg(b); x != y {
		if x {
			return -1
		}
		return 1
	}
	return cmpWords(a, b)
}

// compareWords gives the result of a comparison, OpWEq to OpWLeS.
func compareWords(op program.Opcode, a, b []uint64) bool {
	switch op {
	case program.OpWEq:
		return cmpWords(a, b) == 0
	case program.OpWNe:
		return cmpWords(a, b) != 0
	case program.OpWLtU:
		return cmpWords(a, b) < 0
	case program.OpWLeU:
		return cmpWords(a, b) <= 0
	case program.OpWLtS:
		return cmpSigned(a, b) < 0
	}
	return cmpSigned(a, b) <= 0
}

// extendWords copies a to d, which is longer, and fills the rest with zeros or a's sign.
func extendWords(d, a []uint64, signed bool) {
	copy(d, a)
	var fill uint64
	if signed && isNeg(a) {
		fill = ^uint64(0)
	}
	for i := len(a); i < len(d); i++ {
		d[i] = fill
	}
}

func shiftLeftWords(d, a []uint64, n uint64) {
	w, b := len(d), uint(n%64)
	k := int(min(n/64, uint64(w)))
	for i := w - 1; i >= 0; i-- {
		var x uint64
		if i-k >= 0 {
			x = a[i-k] << b
			if b > 0 && i-k-1 >= 0 {
				x |= a[i-k-1] >> (64 - b)
			}
		}
		d[i] = x
	}
}

func shiftRightWords(d, a []uint64, n uint64, fill uint64) {
	w, b := len(d), uint(n%64)
	k := int(min(n/64, uint64(w)))
	for i := range w {
		lo, hi := fill, fill
		if i+k < w {
			lo = a[i+k]
		}
		if i+k+1 < w {
			hi = a[i+k+1]
		}
		d[i] = lo >> b
		if b > 0 {
			d[i] |= hi << (64 - b)
		}
	}
}

// mulWords needs d apart from a and b.
func mulWords(d, a, b []uint64) {
	clear(d)
	for i, x := range a {
		if x == 0 {
			continue
		}
		var carry uint64
		for k := 0; i+k < len(d); k++ {
			hi, lo := bits.Mul64(x, b[k])
			var c uint64
			lo, c = bits.Add64(lo, carry, 0)
			hi += c
			d[i+k], c = bits.Add64(d[i+k], lo, 0)
			carry = hi + c
		}
	}
}

// divWords divides bit by bit; q and r are apart from a and b. Division by
// zero gives zero.
func divWords(q, r, a, b []uint64) {
	clear(q)
	clear(r)
	if isZeroWords(b) {
		return
	}
	for i := len(a)*64 - 1; i >= 0; i-- {
		shiftLeftWords(r, r, 1)
		r[0] |= a[i/64] >> (uint(i) % 64) & 1
		if cmpWords(r, b) >= 0 {
			var borrow uint64
			for k := range r {
				r[k], borrow = bits.Sub64(r[k], b[k], borrow)
			}
			q[i/64] |= 1 << (uint(i) % 64)
		}
	}
}

// wideOp executes one of the wide instructions.
func (s *Switch) wideOp(v []uint64, in *program.Inst) {
	n := uint32(in.N)
	switch in.Op { // those whose a has other than n words
	case program.OpWSel:
		from := uint32(in.Imm)
		if v[in.A] != 0 {
			from = in.B
		}
		copy(v[in.Dst:in.Dst+n], v[from:from+n])
		return
	case program.OpWZext, program.OpWSext:
		extendWords(v[in.Dst:in.Dst+n], v[in.A:in.A+in.B], in.Op == program.OpWSext)
		return
	}
	a := v[in.A : in.A+n]
	switch in.Op {
	case program.OpWEq, program.OpWNe, program.OpWLtU, program.OpWLeU, program.OpWLtS, program.OpWLeS:
		v[in.Dst] = boolToUint(compareWords(in.Op, a, v[in.B:in.B+n]))
		return
	case program.OpWNonZ:
		v[in.Dst] = boolToUint(!isZeroWords(a))
		return
	case program.OpWCount:
		x := a[0]
		if !isZeroWords(a[1:]) {
			x = 1 << 32
		}
		v[in.Dst] = min(x, 1<<32)
		return
	}
	d := v[in.Dst : in.Dst+n]
	switch in.Op {
	case program.OpWMov:
		copy(d, a)
	case program.OpWAdd:
		b := v[in.B : in.B+n]
		var c uint64
		for i := range d {
			d[i], c = bits.Add64(a[i], b[i], c)
		}
	case program.OpWSub:
		b := v[in.B : in.B+n]
		var c uint64
		for i := range d {
			d[i], c = bits.Sub64(a[i], b[i], c)
		}
	case program.OpWMul:
		mulWords(d, a, v[in.B:in.B+n])
	case program.OpWAnd:
		b := v[in.B : in.B+n]
		for i := range d {
			d[i] = a[i] & b[i]
		}
	case program.OpWOr:
		b := v[in.B : in.B+n]
		for i := range d {
			d[i] = a[i] | b[i]
		}
	case program.OpWXor:
		b := v[in.B : in.B+n]
		for i := range d {
			d[i] = a[i] ^ b[i]
		}
	case program.OpWNot:
		for i := range d {
			d[i] = ^a[i]
		}
	case program.OpWShl:
		shiftLeftWords(d, a, v[in.B])
	case program.OpWShr:
		shiftRightWords(d, a, v[in.B], 0)
	case program.OpWSar:
		var fill uint64
		if isNeg(a) {
			fill = ^uint64(0)
		}
		shiftRightWords(d, a, v[in.B], fill)
	case program.OpWDiv:
		divWords(d, s.wideBuf(int(n)), a, v[in.B:in.B+n])
	case program.OpWMod:
		divWords(s.wideBuf(int(n)), d, a, v[in.B:in.B+n])
	case program.OpWMask:
		copy(d, a)
		maskWords(d, int(in.Imm))
	case program.OpWSextAt:
		copy(d, a)
		signExtend(d, int(in.Imm))
	case program.OpWSat, program.OpWSatS:
		saturate(d, a, int(in.Imm), in.Op == program.OpWSatS)
	}
}

// saturate clamps the signed number a to width bits.
func saturate(d, a []uint64, width int, signed bool) {
	neg := isNeg(a)
	if !signed {
		over := false
		for i := range a {
			x := a[i]
			if n := width - 64*i; n <= 0 {
				over = over || x != 0
			} else if n < 64 {
				over = over || x>>uint(n) != 0
			}
		}
		copy(d, a)
		if neg {
			clear(d)
		} else if over {
			for i := range d {
				d[i] = ^uint64(0)
			}
			maskWords(d, width)
		}
		return
	}
	// In range when the bits from width-1 up are all the sign.
	in := true
	for i := range a {
		x := a[i]
		if neg {
			x = ^x
		}
		if n := width - 1 - 64*i; n <= 0 {
			in = in && x == 0
		} else if n < 64 {
			in = in && x>>uint(n) == 0
		}
	}
	copy(d, a)
	if in {
		return
	}
	for i := range d {
		d[i] = ^uint64(0)
	}
	maskWords(d, width-1) // the largest
	if neg {
		for i := range d {
			d[i] = ^d[i] // the smallest
		}
	}
}

// wideBuf is scratch for divisions.
func (s *Switch) wideBuf(n int) []uint64 {
	if cap(s.wide) < n {
		s.wide = make([]uint64, n)
	}
	return s.wide[:n]
}
