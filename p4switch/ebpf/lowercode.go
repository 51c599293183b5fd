package ebpf

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// lowerSpan compiles the code from pc to its halt, or to an action's return. Labels of the span start with prefix. A
// halt jumps to the label end; a return executes the code that ret emits, if ret is given.
func (l *lowering) lowerSpan(pc uint32, prefix, end string, ret func()) {
	code := l.p.Code
	last := int(pc)
	targets := map[int]bool{}
	for ; ; last++ {
		in := &code[last]
		switch in.Op {
		case program.OpJmp, program.OpJz, program.OpJnz, program.OpJEq, program.OpJNe, program.OpJLtU, program.OpJGeU, program.OpJLeU, program.OpJGtU, program.OpCallAction:
			targets[int(in.Imm)] = true
		case program.OpTable:
			t := &l.p.Tables[in.Imm]
			for k := range t.Actions {
				targets[int(t.Actions[k].Hit)], targets[int(t.Actions[k].Miss)] = true, true
			}
			targets[int(t.MissPC)] = true
		}
		if in.Op == program.OpHalt && ret == nil || in.Op == program.OpRet && ret != nil {
			break
		}
	}
	exits := false
	for at := int(pc); at <= last; at++ {
		if targets[at] {
			l.placeLabel(fmt.Sprintf("%s%d", prefix, at))
		}
		in := &code[at]
		exits = exits || in.Op == program.OpExit
		switch {
		case in.Op == program.OpHalt:
			l.emitJump(end)
		case in.Op == program.OpRet && exits:
			l.loadScratch(asm.R0, l.isExit)
			l.emit(asm.JNE.Imm(asm.R0, 0, end))
			ret()
		case in.Op == program.OpRet:
			ret()
		default:
			l.lowerInst(in, prefix, end)
		}
	}
}

func jumpLabel(prefix string, in *program.Inst) string { return fmt.Sprintf("%s%d", prefix, in.Imm) }

var lowerALU = map[program.Opcode]asm.ALUOp{
	program.OpAdd: asm.Add, program.OpSub: asm.Sub, program.OpMul: asm.Mul,
	program.OpAnd: asm.And, program.OpOr: asm.Or, program.OpXor: asm.Xor, program.OpDivU: asm.Div, program.OpModU: asm.Mod,
}

var lowerCompare = map[program.Opcode]asm.JumpOp{
	program.OpEq: asm.JEq, program.OpNe: asm.JNE, program.OpLtU: asm.JLT, program.OpLeU: asm.JLE, program.OpLtS: asm.JSLT, program.OpLeS: asm.JSLE,
}

var lowerJump = map[program.Opcode]asm.JumpOp{
	program.OpJEq: asm.JEq, program.OpJNe: asm.JNE, program.OpJLtU: asm.JLT, program.OpJGeU: asm.JGE, program.OpJLeU: asm.JLE, program.OpJGtU: asm.JGT,
}

// lowerInst translates one instruction.
func (l *lowering) lowerInst(in *program.Inst, prefix, end string) {
	switch in.Op {
	case program.OpMov, program.OpNot:
		l.loadSlot(asm.R0, in.A)
		if in.Op == program.OpNot {
			l.emit(asm.Xor.Imm(asm.R0, -1))
		}
		l.maskRegister(asm.R0, in.Imm)
		l.storeSlot(in.Dst, asm.R0)
	case program.OpAdd, program.OpSub, program.OpMul, program.OpAnd, program.OpOr, program.OpXor:
		l.loadSlot(asm.R0, in.A)
		l.loadSlot(asm.R1, in.B)
		l.emit(lowerALU[in.Op].Reg(asm.R0, asm.R1))
		l.maskRegister(asm.R0, in.Imm)
		l.storeSlot(in.Dst, asm.R0)
	case program.OpDivU, program.OpModU:
		zero := l.newLabel()
		l.loadSlot(asm.R1, in.B)
		l.emit(asm.Mov.Imm(asm.R0, 0), asm.JEq.Imm(asm.R1, 0, zero))
		l.loadSlot(asm.R0, in.A)
		l.emit(lowerALU[in.Op].Reg(asm.R0, asm.R1))
		l.placeLabel(zero)
		l.storeSlot(in.Dst, asm.R0)
	case program.OpShl, program.OpShr, program.OpSar:
		l.lowerShift(in)
	case program.OpEq, program.OpNe, program.OpLtU, program.OpLeU, program.OpLtS, program.OpLeS:
		l.loadSlot(asm.R1, in.A)
		l.loadSlot(asm.R2, in.B)
		yes := l.newLabel()
		l.emit(asm.Mov.Imm(asm.R0, 1), lowerCompare[in.Op].Reg(asm.R1, asm.R2, yes), asm.Mov.Imm(asm.R0, 0))
		l.placeLabel(yes)
		l.storeSlot(in.Dst, asm.R0)
	case program.OpNonZ, program.OpIsZ:
		l.loadSlot(asm.R1, in.A)
		yes := l.newLabel()
		op := asm.JNE
		if in.Op == program.OpIsZ {
			op = asm.JEq
		}
		l.emit(asm.Mov.Imm(asm.R0, 1), op.Imm(asm.R1, 0, yes), asm.Mov.Imm(asm.R0, 0))
		l.placeLabel(yes)
		l.storeSlot(in.Dst, asm.R0)
	case program.OpSext:
		l.loadSlot(asm.R0, in.A)
		l.emit(asm.LSh.Imm(asm.R0, int32(in.Imm&63)), asm.ArSh.Imm(asm.R0, int32(in.Imm&63)))
		l.storeSlot(in.Dst, asm.R0)
	case program.OpMinU, program.OpClampS, program.OpClampB, program.OpSel:
		l.lowerSelect(in)
	case program.OpJmp:
		l.emitJump(jumpLabel(prefix, in))
	case program.OpJz, program.OpJnz:
		l.loadSlot(asm.R0, in.A)
		op := asm.JEq
		if in.Op == program.OpJnz {
			op = asm.JNE
		}
		l.emit(op.Imm(asm.R0, 0, jumpLabel(prefix, in)))
	case program.OpJEq, program.OpJNe, program.OpJLtU, program.OpJGeU, program.OpJLeU, program.OpJGtU:
		l.loadSlot(asm.R0, in.A)
		l.loadSlot(asm.R1, in.B)
		l.emit(lowerJump[in.Op].Reg(asm.R0, asm.R1, jumpLabel(prefix, in)))
	default:
		l.stateInst(in, prefix, end)
	}
}

// stateInst compiles instructions on state: headers, tables, registers, counters.
func (l *lowering) stateInst(in *program.Inst, prefix, end string) {
	switch in.Op {
	case program.OpCheckExit:
		l.loadScratch(asm.R0, l.isExit)
		l.emit(asm.JNE.Imm(asm.R0, 0, end))
	case program.OpExit:
		l.putImm(l.isExit, 1)
	case program.OpSetValid:
		l.setValid(int(in.Imm))
	case program.OpSetInvalid:
		l.putImm(int(l.p.Headers[in.Imm].ValidSlot())*8, 0)
	case program.OpDirty:
		l.loadScratch(asm.R0, int(in.Dst)*8)
		if in.Imm <= 1<<31-1 {
			l.emit(asm.Or.Imm(asm.R0, int32(in.Imm)))
		} else {
			l.loadImmediate(asm.R1, in.Imm)
			l.emit(asm.Or.Reg(asm.R0, asm.R1))
		}
		l.storeSlot(in.Dst, asm.R0)
	case program.OpDrop:
		l.loadImmediate(asm.R0, l.drop)
		l.storeSlot(in.Dst, asm.R0)
		if in.A != program.SlotZero {
			l.putImm(int(in.A)*8, 0)
		}
	case program.OpCount:
		l.noteCount(in)
	case program.OpRegRead:
		l.readRegister(in)
	case program.OpTable:
		l.lowerTable(int(in.Imm), prefix, end)
	case program.OpCallAction:
		what := l.what
		if i := l.actionAt(in.A); i >= 0 {
			l.what = fmt.Sprintf("action %q", l.p.Actions[i].Info.Name)
		}
		l.lowerSpan(in.A, l.newLabel()+"_", end, func() { l.emitJump(jumpLabel(prefix, in)) })
		l.what = what
	case program.OpCall:
		l.lowerCall(&l.p.Calls[in.Imm])
	default:
		if !l.wideInst(in) {
			l.passToInterpreter(nameOf(in.Op))
		}
	}
}

func (l *lowering) actionAt(pc uint32) int {
	for i := range l.p.Actions {
		if l.p.Actions[i].PC == pc {
			return i
		}
	}
	return -1
}

// nameOf names the constructs that are not translated.
func nameOf(op program.Opcode) string {
	switch op {
	case program.OpRegWrite:
		return "a write to a register"
	case program.OpBack, program.OpJzBack:
		return "a loop"
	case program.OpDivS, program.OpModS:
		return "a signed division"
	case program.OpHdrID, program.OpHdrLoad, program.OpHdrStore, program.OpHdrValid, program.OpLast, program.OpEqHdr:
		return "a header named at run time, or a comparison of headers"
	case program.OpUnionID, program.OpUnionHdr, program.OpUnionValid, program.OpEqUnion:
		return "a header union as a whole"
	}
	return "an operand of more than 64 bits"
}

// lowerShift translates shifts, whose counts may be 64 and more.
func (l *lowering) lowerShift(in *program.Inst) {
	op := map[program.Opcode]asm.ALUOp{program.OpShl: asm.LSh, program.OpShr: asm.RSh, program.OpSar: asm.ArSh}[in.Op]
	l.loadSlot(asm.R0, in.A)
	if n, ok := l.constants[in.B]; ok && n < 64 {
		l.emit(op.Imm(asm.R0, int32(n)))
	} else {
		fits, done := l.newLabel(), l.newLabel()
		l.loadSlot(asm.R1, in.B)
		l.emit(asm.JLT.Imm(asm.R1, 64, fits))
		if in.Op == program.OpSar {
			l.emit(asm.ArSh.Imm(asm.R0, 63))
		} else {
			l.emit(asm.Mov.Imm(asm.R0, 0))
		}
		l.emitJump(done)
		l.placeLabel(fits)
		l.emit(op.Reg(asm.R0, asm.R1))
		l.placeLabel(done)
	}
	l.maskRegister(asm.R0, in.Imm)
	l.storeSlot(in.Dst, asm.R0)
}

// lowerSelect compiles minima, clamps and the conditional operator.
func (l *lowering) lowerSelect(in *program.Inst) {
	done := l.newLabel()
	l.loadSlot(asm.R0, in.A)
	switch in.Op {
	case program.OpMinU:
		l.loadImmediate(asm.R1, in.Imm)
		l.emit(asm.JLE.Reg(asm.R0, asm.R1, done), asm.Mov.Reg(asm.R0, asm.R1))
	case program.OpClampS:
		pos := l.newLabel()
		l.emit(asm.JSGE.Imm(asm.R0, 0, pos), asm.Mov.Imm(asm.R0, 0))
		l.placeLabel(pos)
		l.loadImmediate(asm.R1, in.Imm)
		l.emit(asm.JLE.Reg(asm.R0, asm.R1, done), asm.Mov.Reg(asm.R0, asm.R1))
	case program.OpClampB:
		low := l.newLabel()
		l.loadImmediate(asm.R1, in.Imm)
		l.emit(asm.JSLE.Reg(asm.R0, asm.R1, low), asm.Mov.Reg(asm.R0, asm.R1))
		l.placeLabel(low)
		l.loadImmediate(asm.R1, -in.Imm-1)
		l.emit(asm.JSGE.Reg(asm.R0, asm.R1, done), asm.Mov.Reg(asm.R0, asm.R1))
	case program.OpSel:
		other := l.newLabel()
		l.emit(asm.JEq.Imm(asm.R0, 0, other))
		l.loadSlot(asm.R0, in.B)
		l.emitJump(done)
		l.placeLabel(other)
		l.loadSlot(asm.R0, uint32(in.Imm))
	}
	l.placeLabel(done)
	l.storeSlot(in.Dst, asm.R0)
}

// setValid makes a header valid, and its siblings in a union invalid.
func (l *lowering) setValid(id int) {
	h := &l.p.Headers[id]
	if h.Union >= 0 {
		for _, o := range l.p.Unions[h.Union].Headers {
			l.putImm(int(l.p.Headers[o].ValidSlot())*8, 0)
		}
	}
	l.putImm(int(h.ValidSlot())*8, 1)
}

// noteCount records a counter increment, which is added when the packet is finished.
func (l *lowering) noteCount(in *program.Inst) {
	j := journalSite{at: l.takeScratch(8), kind: fmt.Sprintf("c%d", in.Imm)}
	if !slices.Contains(l.out.Counted, program.CounterID(in.Imm)) {
		l.out.Counted = append(l.out.Counted, program.CounterID(in.Imm))
	}
	skip := l.newLabel()
	l.loadSlot(asm.R0, in.A)
	l.loadImmediate(asm.R1, uint64(l.p.Counters[in.Imm].Size))
	l.emit(asm.JGE.Reg(asm.R0, asm.R1, skip), asm.Add.Imm(asm.R0, 1))
	l.storeScratch(j.at, asm.R0)
	l.placeLabel(skip)
	l.journal = append(l.journal, j)
}

// readRegister reads the kernel's copy of a register.
func (l *lowering) readRegister(in *program.Inst) {
	r := &l.p.Registers[in.Imm]
	if r.Width > 64 || in.N != 1 || r.Size == 0 {
		l.passToInterpreter("a register of more than 64 bits")
		return
	}
	if !slices.Contains(l.out.Read, program.RegisterID(in.Imm)) {
		l.out.Read = append(l.out.Read, program.RegisterID(in.Imm))
	}
	skip := l.newLabel()
	l.loadSlot(asm.R0, in.A)
	l.emit(
		asm.JGE.Imm(asm.R0, int32(r.Size), skip),
		asm.StoreMem(asm.R10, -4, asm.R0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, 0).WithReference(fmt.Sprintf("r%d", in.Imm)),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, skip),
		asm.LoadMem(asm.R0, asm.R0, 0, asm.DWord),
	)
	l.maskRegister(asm.R0, program.MaskOf(int(in.B)))
	l.storeSlot(in.Dst, asm.R0)
	l.placeLabel(skip)
}

var callNames = map[program.CallKind]string{
	program.CallAssignUnion: "an assignment of header unions", program.CallAssignUnionStack: "an assignment of header unions",
	program.CallAssignStack: "an assignment of header stacks",
	program.CallPush:        "push", program.CallPop: "pop", program.CallPushUnion: "push", program.CallPopUnion: "pop",
	program.CallRandom: "a random number", program.CallMeter: "a meter",
	program.CallDigest: "a digest", program.CallClone: "a clone", program.CallResubmit: "resubmit", program.CallRecirculate: "recirculate",
	program.CallTruncate: "truncate", program.CallLog: "log_msg",
}

// lowerCall compiles a primitive without an opcode of its own.
func (l *lowering) lowerCall(k *program.Call) {
	switch k.Kind {
	case program.CallAddHeader, program.CallRemoveHeader:
		id, ok := l.constants[k.A]
		if !ok || id >= uint64(len(l.p.Headers)) || l.p.Headers[id].Type.Varbit >= 0 {
			l.passToInterpreter("a header named at run time, or of variable length")
			return
		}
		members := []int{int(id)}
		if u := l.p.Headers[id].Union; u >= 0 && k.Kind == program.CallRemoveHeader {
			members = l.p.Unions[u].Headers
		}
		for _, m := range members {
			if l.p.Headers[m].Type.Varbit >= 0 {
				l.passToInterpreter("a header named at run time, or of variable length")
				return
			}
		}
		for _, m := range members {
			l.addHeader(m, k.Kind == program.CallAddHeader)
		}
	case program.CallAssignHeader:
		d, ok1 := l.constants[k.A]
		s, ok2 := l.constants[k.B]
		if n := uint64(len(l.p.Headers)); !ok1 || !ok2 || d >= n || s >= n {
			l.passToInterpreter("a header named at run time")
			return
		}
		l.assignHeader(int(d), int(s), k.ID != 0)
	case program.CallHash:
		l.hashCall(k)
	case program.CallRandom:
		if !l.cfg.Random {
			l.passToInterpreter(callNames[k.Kind])
			return
		}
		l.lowerRandom(k)
	case program.CallAssert, program.CallAssume:
		l.loadSlot(asm.R0, k.A)
		l.emit(asm.JEq.Imm(asm.R0, 0, l.interpreterLabel("a failed assert")))
	default:
		l.passToInterpreter(callNames[k.Kind])
	}
}

func (l *lowering) addHeader(id int, add bool) {
	h := &l.p.Headers[id]
	if h.Meta {
		return
	}
	done := l.newLabel()
	l.loadSlot(asm.R0, h.ValidSlot())
	if add {
		l.emit(asm.JNE.Imm(asm.R0, 0, done))
		for i := range h.Type.Size {
			l.putImm(int(h.Base)*8+8*i, 0)
		}
		l.setValid(id)
	} else {
		l.emit(asm.JEq.Imm(asm.R0, 0, done))
		l.putImm(int(h.ValidSlot())*8, 0)
	}
	n := int32(h.Type.Fixed / 8)
	if !add {
		n = -n
	}
	l.loadScratch(asm.R0, l.pktLen)
	l.emit(asm.Add.Imm(asm.R0, n))
	l.storeScratch(l.pktLen, asm.R0)
	l.placeLabel(done)
}

func (l *lowering) assignHeader(dst, src int, alone bool) {
	d, c := &l.p.Headers[dst], &l.p.Headers[src]
	invalid, done := l.newLabel(), l.newLabel()
	if !c.Meta {
		l.loadSlot(asm.R0, c.ValidSlot())
		l.emit(asm.JEq.Imm(asm.R0, 0, invalid))
	}
	for i := range min(d.Type.Valid, c.Type.Valid) {
		l.loadScratch(asm.R0, int(c.Base+i)*8)
		l.storeScratch(int(d.Base+i)*8, asm.R0)
	}
	l.setValid(dst)
	l.emitJump(done)
	l.placeLabel(invalid)
	l.putImm(int(d.ValidSlot())*8, 0)
	if alone && d.Union >= 0 {
		for _, m := range l.p.Unions[d.Union].Headers {
			l.putImm(int(l.p.Headers[m].ValidSlot())*8, 0)
		}
	}
	l.placeLabel(done)
}
