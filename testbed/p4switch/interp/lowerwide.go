package interp

import "github.com/cilium/ebpf/asm"

var lowerWideALU = map[opcode]asm.ALUOp{opWAnd: asm.And, opWOr: asm.Or, opWXor: asm.Xor}

// wideInst translates operations on several words that addresses need: copies, bits, shifts by a constant, and whether two
// are equal. It reports whether it did. As in [Switch.wideOp] destinations may alias operands.
func (l *lowering) wideInst(in *inst) bool {
	n := uint32(in.n)
	each := func(f func(i uint32)) {
		for i := range n {
			f(i)
			l.store(in.dst+i, asm.R0)
		}
	}
	switch in.op {
	case opWMov:
		each(func(i uint32) { l.load(asm.R0, in.a+i) })
	case opWZext:
		each(func(i uint32) {
			if i < in.b {
				l.load(asm.R0, in.a+i)
			} else {
				l.emit(asm.Mov.Imm(asm.R0, 0))
			}
		})
	case opWAnd, opWOr, opWXor:
		each(func(i uint32) {
			l.load(asm.R0, in.a+i)
			l.load(asm.R1, in.b+i)
			l.emit(lowerWideALU[in.op].Reg(asm.R0, asm.R1))
		})
	case opWNot:
		each(func(i uint32) {
			l.load(asm.R0, in.a+i)
			l.emit(asm.Xor.Imm(asm.R0, -1))
		})
	case opWMask:
		each(func(i uint32) {
			if bits := int(in.imm) - 64*int(i); bits > 0 {
				l.load(asm.R0, in.a+i)
				l.mask(asm.R0, maskOf(bits))
			} else {
				l.emit(asm.Mov.Imm(asm.R0, 0))
			}
		})
	case opWShl, opWShr:
		by, ok := l.konst[in.b]
		if !ok {
			return false
		}
		l.wideShift(in, by)
	case opWEq, opWNe, opWNonZ:
		l.wideCompare(in)
	default:
		return false
	}
	return true
}

// wideShift translates a shift by a constant. Words are made in the order in which none is overwritten before it is read.
func (l *lowering) wideShift(in *inst, by uint64) {
	n, left := int(in.n), in.op == opWShl
	words, bits := int(min(by/64, uint64(n))), int32(by%64)
	toward, away := asm.LSh, asm.RSh // of the nearer word, and of the one whose bits come into it
	step := -1
	if !left {
		toward, away, step = asm.RSh, asm.LSh, 1
	}
	for k := range n {
		i := k
		if left {
			i = n - 1 - k
		}
		near := i + step*words
		far := near + step
		switch {
		case near < 0 || near >= n:
			l.emit(asm.Mov.Imm(asm.R0, 0))
		default:
			l.load(asm.R0, in.a+uint32(near))
			if bits == 0 {
				break
			}
			l.emit(toward.Imm(asm.R0, bits))
			if far >= 0 && far < n {
				l.load(asm.R1, in.a+uint32(far))
				l.emit(away.Imm(asm.R1, 64-bits), asm.Or.Reg(asm.R0, asm.R1))
			}
		}
		l.store(in.dst+uint32(i), asm.R0)
	}
}

// wideCompare translates whether two are equal, or one is 0.
func (l *lowering) wideCompare(in *inst) {
	differ, done := l.newLabel(), l.newLabel()
	for i := range uint32(in.n) {
		l.load(asm.R0, in.a+i)
		if in.op == opWNonZ {
			l.emit(asm.JNE.Imm(asm.R0, 0, differ))
			continue
		}
		l.load(asm.R1, in.b+i)
		l.emit(asm.JNE.Reg(asm.R0, asm.R1, differ))
	}
	same := int32(0)
	if in.op == opWEq {
		same = 1
	}
	l.emit(asm.Mov.Imm(asm.R0, same))
	l.jump(done)
	l.at(differ)
	l.emit(asm.Mov.Imm(asm.R0, 1-same))
	l.at(done)
	l.store(in.dst, asm.R0)
}
