package interp

import "github.com/ethereal-fabric/ethereal/p4switch/program"

// recordWide follows an operation on several words, as comparisons of IPv6 addresses need them, word by word. It
// reports false for one that traces cannot express: sums and the like, and shifts by what is not constant.
func (r *traceRecorder) recordWide(in *program.Inst) bool {
	n := int(in.N)
	words := func(slot uint32) []int32 {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = r.slotValue(slot + uint32(i))
		}
		return ids
	}
	pairs := func(op program.Opcode) []int32 {
		a, b := words(in.A), words(in.B)
		for i := range a {
			a[i] = r.pureValue(op, ^uint64(0), a[i], b[i])
		}
		return a
	}
	some := func(ids []int32) int32 { // 1 if any is not 0
		x := r.constantValue(0)
		for _, id := range ids {
			x = r.pureValue(program.OpOr, ^uint64(0), x, id)
		}
		return r.pureValue(program.OpNe, ^uint64(0), x, r.constantValue(0))
	}
	var out []int32
	switch in.Op {
	case program.OpWMov:
		out = words(in.A)
	case program.OpWZext:
		for i := range uint32(n) {
			if i < in.B {
				out = append(out, r.slotValue(in.A+i))
			} else {
				out = append(out, r.constantValue(0))
			}
		}
	case program.OpWAnd:
		out = pairs(program.OpAnd)
	case program.OpWOr:
		out = pairs(program.OpOr)
	case program.OpWXor:
		out = pairs(program.OpXor)
	case program.OpWNot:
		for _, id := range words(in.A) {
			out = append(out, r.pureValue(program.OpXor, ^uint64(0), id, r.constantValue(^uint64(0))))
		}
	case program.OpWMask:
		for i, id := range words(in.A) {
			mask := uint64(0)
			if width := int(in.Imm) - 64*i; width > 0 {
				mask = program.MaskOf(min(width, 64))
			}
			out = append(out, r.pureValue(program.OpAnd, ^uint64(0), id, r.constantValue(mask)))
		}
	case program.OpWShl, program.OpWShr:
		by := r.slotValue(in.B)
		if !r.isConst(by) {
			return false
		}
		out = r.shiftWords(words(in.A), in.Op == program.OpWShl, r.valueOf(by))
	case program.OpWEq:
		out = []int32{r.pureValue(program.OpIsZ, ^uint64(0), some(pairs(program.OpXor)))}
	case program.OpWNe:
		out = []int32{some(pairs(program.OpXor))}
	case program.OpWNonZ:
		out = []int32{some(words(in.A))}
	default:
		return false
	}
	copy(r.slots[in.Dst:], out)
	return true
}

// shiftWords returns the words of a number that is shifted by a constant.
func (r *traceRecorder) shiftWords(a []int32, left bool, by uint64) []int32 {
	out := make([]int32, len(a))
	whole, part := int(min(by/64, uint64(len(a)))), by%64
	word := func(i int) int32 {
		if i < 0 || i >= len(a) {
			return r.constantValue(0)
		}
		return a[i]
	}
	for i := range out {
		near, far, op, back := word(i+whole), word(i+whole+1), program.OpShr, program.OpShl
		if left {
			near, far, op, back = word(i-whole), word(i-whole-1), program.OpShl, program.OpShr
		}
		out[i] = near
		if part != 0 {
			out[i] = r.pureValue(program.OpOr, ^uint64(0), r.pureValue(op, ^uint64(0), near, r.constantValue(part)),
				r.pureValue(back, ^uint64(0), far, r.constantValue(64-part)))
		}
	}
	return out
}
