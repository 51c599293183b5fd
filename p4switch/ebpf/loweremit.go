package ebpf

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

func (l *lowering) take(n int) int {
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

// at names the next instruction.
func (l *lowering) at(label string) {
	if l.label != "" {
		l.emit(asm.Mov.Reg(regCtx, regCtx))
	}
	l.label = label
}

func (l *lowering) newLabel() string {
	l.labels++
	return fmt.Sprintf("l%d", l.labels)
}

func (l *lowering) jump(label string) { l.emit(asm.Ja.Label(label)) }

// up lets the packet through for the interpreter.
func (l *lowering) up(construct string) { l.jump(l.upLabel(construct)) }

func (l *lowering) upLabel(construct string) string {
	if l.what != "" {
		construct += " in " + l.what
	}
	i, ok := l.upOf[construct]
	if !ok {
		i = len(l.out.Up)
		l.upOf[construct] = i
		l.out.Up = append(l.out.Up, construct)
	}
	return fmt.Sprintf("up%d", i)
}

// get and put move between a register and an offset of scratch.
func (l *lowering) get(r asm.Register, off int) {
	l.loaded[uint32(off/8)] = true
	l.emit(asm.LoadMem(r, regScratch, int16(off), asm.DWord))
}

func (l *lowering) put(off int, r asm.Register) {
	l.emit(asm.StoreMem(regScratch, int16(off), r, asm.DWord))
}

func (l *lowering) putImm(off int, v int32) {
	l.emit(storeImm(off, v))
}

// storeImm writes a constant as eight bytes, which the assembler has no function for.
func storeImm(off int, v int32) asm.Instruction {
	return asm.Instruction{OpCode: asm.StoreImmOp(asm.DWord), Dst: regScratch, Offset: int16(off), Constant: int64(v)}
}

func (l *lowering) imm(r asm.Register, v uint64) {
	if v <= 1<<31-1 {
		l.emit(asm.Mov.Imm(r, int32(v)))
	} else {
		l.emit(asm.LoadImm(r, int64(v), asm.DWord))
	}
}

// load brings a slot into a register.
func (l *lowering) load(r asm.Register, slot uint32) {
	if v, ok := l.konst[slot]; ok {
		l.imm(r, v)
		return
	}
	l.get(r, int(slot)*8)
}

func (l *lowering) store(slot uint32, r asm.Register) { l.put(int(slot)*8, r) }

// mask keeps bits of a register; it may use R2.
func (l *lowering) mask(r asm.Register, m uint64) {
	switch {
	case m == ^uint64(0):
	case m <= 1<<31-1:
		l.emit(asm.And.Imm(r, int32(m)))
	case m == 1<<32-1:
		l.emit(asm.Mov.Reg32(r, r))
	default:
		l.imm(asm.R2, m)
		l.emit(asm.And.Reg(r, asm.R2))
	}
}

// jumpIfEq compares a register with a constant; it may use R2.
func (l *lowering) jumpIfEq(r asm.Register, v uint64, label string) {
	if v <= 1<<31-1 {
		l.emit(asm.JEq.Imm(r, int32(v), label))
		return
	}
	l.imm(asm.R2, v)
	l.emit(asm.JEq.Reg(r, asm.R2, label))
}

func (l *lowering) setStd(s program.StdSlot, r asm.Register) {
	if s.Has {
		l.mask(r, s.Mask)
		l.store(s.Slot, r)
	}
}

// mapValue leaves the value of an array's only cell in R0; it leaves the program when there is none.
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

// now leaves the switch's time in microseconds in a register: the kernel's
// clock, unless control stops it, less the switch's start.
func (l *lowering) now(r asm.Register) {
	l.clock()
	l.emit(asm.Div.Imm(asm.R0, 1000))
	if r != asm.R0 {
		l.emit(asm.Mov.Reg(r, asm.R0))
	}
}

// clock leaves the same in nanoseconds in R0.
func (l *lowering) clock() {
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
