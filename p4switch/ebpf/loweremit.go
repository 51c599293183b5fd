package ebpf

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

func (l *lowering) takeScratch(n int) int {
	at := l.size
	l.size += (n + 7) &^ 7
	return at
}

// emit appends instructions.
func (l *lowering) emit(ins ...asm.Instruction) {
	for _, in := range ins {
		if l.label != "" {
			in = in.WithSymbol(l.label)
			l.label = ""
		}
		l.ins = append(l.ins, in)
	}
}

// placeLabel names the next instruction, for jumps.
func (l *lowering) placeLabel(label string) {
	if l.label != "" {
		l.emit(asm.Mov.Reg(regCtx, regCtx))
	}
	l.label = label
}

func (l *lowering) newLabel() string {
	l.labels++
	return fmt.Sprintf("l%d", l.labels)
}

func (l *lowering) emitJump(label string) { l.emit(asm.Ja.Label(label)) }

// passToInterpreter emits code that passes the packet up to the interpreter because of a construct.
func (l *lowering) passToInterpreter(construct string) { l.emitJump(l.interpreterLabel(construct)) }

func (l *lowering) interpreterLabel(construct string) string {
	if l.what != "" {
		construct += " in " + l.what
	}
	i, ok := l.interpreterFateOf[construct]
	if !ok {
		i = len(l.out.Up)
		l.interpreterFateOf[construct] = i
		l.out.Up = append(l.out.Up, construct)
	}
	return fmt.Sprintf("up%d", i)
}

// loadScratch loads a register from scratch; the store is the inverse.
func (l *lowering) loadScratch(r asm.Register, off int) {
	l.loaded[uint32(off/8)] = true
	l.emit(asm.LoadMem(r, regScratch, int16(off), asm.DWord))
}

func (l *lowering) storeScratch(off int, r asm.Register) {
	l.emit(asm.StoreMem(regScratch, int16(off), r, asm.DWord))
}

func (l *lowering) putImm(off int, v int32) {
	l.emit(storeImm(off, v))
}

// storeImm writes a constant as eight bytes, which the assembler has no function for.
func storeImm(off int, v int32) asm.Instruction {
	return asm.Instruction{OpCode: asm.StoreImmOp(asm.DWord), Dst: regScratch, Offset: int16(off), Constant: int64(v)}
}

func (l *lowering) loadImmediate(r asm.Register, v uint64) {
	if v <= 1<<31-1 {
		l.emit(asm.Mov.Imm(r, int32(v)))
	} else {
		l.emit(asm.LoadImm(r, int64(v), asm.DWord))
	}
}

// loadSlot emits code that loads a slot into a register.
func (l *lowering) loadSlot(r asm.Register, slot uint32) {
	if v, ok := l.constants[slot]; ok {
		l.loadImmediate(r, v)
		return
	}
	l.loadScratch(r, int(slot)*8)
}

func (l *lowering) storeSlot(slot uint32, r asm.Register) { l.storeScratch(int(slot)*8, r) }

// maskRegister emits code that clears the bits of a register outside m; it may change R2.
func (l *lowering) maskRegister(r asm.Register, m uint64) {
	switch {
	case m == ^uint64(0):
	case m <= 1<<31-1:
		l.emit(asm.And.Imm(r, int32(m)))
	case m == 1<<32-1:
		l.emit(asm.Mov.Reg32(r, r))
	default:
		l.loadImmediate(asm.R2, m)
		l.emit(asm.And.Reg(r, asm.R2))
	}
}

// jumpIfEq compares a register with a constant; it may use R2.
func (l *lowering) jumpIfEq(r asm.Register, v uint64, label string) {
	if v <= 1<<31-1 {
		l.emit(asm.JEq.Imm(r, int32(v), label))
		return
	}
	l.loadImmediate(asm.R2, v)
	l.emit(asm.JEq.Reg(r, asm.R2, label))
}

func (l *lowering) setStd(s program.StdSlot, r asm.Register) {
	if s.Has {
		l.maskRegister(r, s.Mask)
		l.storeSlot(s.Slot, r)
	}
}

// mapValue emits code that puts the address of an array's only cell into R0, and leaves the program if there is none.
func (l *lowering) mapValue(name string) {
	l.emit(
		asm.StoreImm(asm.R10, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, 0).WithReference(name),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
	)
}

// emitMicroseconds emits code that puts the switch's time in microseconds into a register: the kernel's clock, unless
// control stops it, minus the time of the switch's start.
func (l *lowering) emitMicroseconds(r asm.Register) {
	l.emitNanoseconds()
	l.emit(asm.Div.Imm(asm.R0, 1000))
	if r != asm.R0 {
		l.emit(asm.Mov.Reg(r, asm.R0))
	}
}

// emitNanoseconds emits code that puts the switch's time in nanoseconds into R0.
func (l *lowering) emitNanoseconds() {
	l.emit(
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R1, regControl, 0, asm.DWord),
		asm.And.Reg(asm.R0, asm.R1),
		asm.LoadMem(asm.R1, regControl, 8, asm.DWord),
		asm.Sub.Reg(asm.R0, asm.R1),
	)
}

func (l *lowering) tooLarge() error {
	return fmt.Errorf("%w in the kernel: headers, metadata and state of %d bytes; at most %d are possible",
		program.ErrUnsupported, l.size, maxLowered)
}

// reachable removes unreachable instructions, which the kernel's verifier refuses.
func reachable(ins asm.Instructions) asm.Instructions {
	labels := map[string]int{}
	for i := range ins {
		if s := ins[i].Symbol(); s != "" {
			labels[s] = i
		}
	}
	seen := make([]bool, len(ins))
	work := []int{0}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		for i < len(ins) && !seen[i] {
			seen[i] = true
			op := ins[i].OpCode
			jump := op.Class().IsJump() && op.JumpOp() != asm.Call && op.JumpOp() != asm.Exit
			if jump {
				work = append(work, labels[ins[i].Reference()])
			}
			if jump && op.JumpOp() == asm.Ja || op.Class().IsJump() && op.JumpOp() == asm.Exit {
				break
			}
			i++
		}
	}
	out := ins[:0]
	for i := range ins {
		if seen[i] {
			out = append(out, ins[i])
		}
	}
	return out
}

// checkJumps refuses instructions with a jump that is too long for its 16 bits: the assembler cuts it off.
func checkJumps(ins asm.Instructions) error {
	at := map[string]asm.RawInstructionOffset{}
	for it := ins.Iterate(); it.Next(); {
		if s := it.Ins.Symbol(); s != "" {
			at[s] = it.Offset
		}
	}
	for it := ins.Iterate(); it.Next(); {
		op := it.Ins.OpCode
		if !op.Class().IsJump() || op.JumpOp() == asm.Call || op.JumpOp() == asm.Exit {
			continue
		}
		far := int64(at[it.Ins.Reference()]) - int64(it.Offset) - 1
		if far != int64(int16(far)) {
			return fmt.Errorf("%w in the kernel: a program of %d instructions, with a jump over %d; at most %d are possible",
				program.ErrUnsupported, len(ins), far, 1<<15-1)
		}
	}
	return nil
}
