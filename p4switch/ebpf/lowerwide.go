package ebpf

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

var lowerWideALU = map[program.Opcode]asm.ALUOp{program.OpWAnd: asm.And, program.OpWOr: asm.Or, program.OpWXor: asm.Xor}

// wideInst translates operations on several words that addresses need: copies, bits, shifts by a constant, and whether
// two are equal. It reports whether it did. As in [Switch.wideOp] destinations may alias operands.
func (l *lowering) wideInst(in *program.Inst) bool {
	n := uint32(in.N)
	each := func(f func(i uint32)) {
		for i := range n {
			f(i)
			l.storeSlot(in.Dst+i, asm.R0)
		}
	}
	switch in.Op {
	case program.OpWMov:
		each(func(i uint32) { l.loadSlot(asm.R0, in.A+i) })
	case program.OpWZext:
		each(func(i uint32) {
			if i < in.B {
				l.loadSlot(asm.R0, in.A+i)
			} else {
				l.emit(asm.Mov.Imm(asm.R0, 0))
			}
		})
	case program.OpWAnd, program.OpWOr, program.OpWXor:
		each(func(i uint32) {
			l.loadSlot(asm.R0, in.A+i)
			l.loadSlot(asm.R1, in.B+i)
			l.emit(lowerWideALU[in.Op].Reg(asm.R0, asm.R1))
		})
	case program.OpWNot:
		each(func(i uint32) {
			l.loadSlot(asm.R0, in.A+i)
			l.emit(asm.Xor.Imm(asm.R0, -1))
		})
	case program.OpWMask:
		each(func(i uint32) {
			if bits := int(in.Imm) - 64*int(i); bits > 0 {
				l.loadSlot(asm.R0, in.A+i)
				l.maskRegister(asm.R0, program.MaskOf(bits))
			} else {
				l.emit(asm.Mov.Imm(asm.R0, 0))
			}
		})
	case program.OpWShl, program.OpWShr:
		by, ok := l.constants[in.B]
		if !ok {
			return false
		}
		l.wideShift(in, by)
	case program.OpWEq, program.OpWNe, program.OpWNonZ:
		l.wideCompare(in)
	default:
		return false
	}
	return true
}

// wideShift translates a shift by a constant. Words are made in the order in which none is overwritten before it is
// read.
func (l *lowering) wideShift(in *program.Inst, by uint64) {
	n, left := int(in.N), in.Op == program.OpWShl
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
			l.loadSlot(asm.R0, in.A+uint32(near))
			if bits == 0 {
				break
			}
			l.emit(toward.Imm(asm.R0, bits))
			if far >= 0 && far < n {
				l.loadSlot(asm.R1, in.A+uint32(far))
				l.emit(away.Imm(asm.R1, 64-bits), asm.Or.Reg(asm.R0, asm.R1))
			}
		}
		l.storeSlot(in.Dst+uint32(i), asm.R0)
	}
}

// wideCompare translates whether two are equal, or one is 0.
func (l *lowering) wideCompare(in *program.Inst) {
	differ, done := l.newLabel(), l.newLabel()
	for i := range uint32(in.N) {
		l.loadSlot(asm.R0, in.A+i)
		if in.Op == program.OpWNonZ {
			l.emit(asm.JNE.Imm(asm.R0, 0, differ))
			continue
		}
		l.loadSlot(asm.R1, in.B+i)
		l.emit(asm.JNE.Reg(asm.R0, asm.R1, differ))
	}
	same := int32(0)
	if in.Op == program.OpWEq {
		same = 1
	}
	l.emit(asm.Mov.Imm(asm.R0, same))
	l.emitJump(done)
	l.placeLabel(differ)
	l.emit(asm.Mov.Imm(asm.R0, 1-same))
	l.placeLabel(done)
	l.storeSlot(in.Dst, asm.R0)
}
