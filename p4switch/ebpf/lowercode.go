package ebpf

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// span translates the code from pc to its halt, or to an action's return.
// Labels of the span start with prefix. A halt goes to the label end; a
// return, where ret is given, is what ret emits.
func (l *lowering) span(pc uint32, prefix, end string, ret func()) {
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
			l.at(fmt.Sprintf("%s%d", prefix, at))
		}
		in := &code[at]
		exits = exits || in.Op == program.OpExit
		switch {
		case in.Op == program.OpHalt:
			l.jump(end)
		case in.Op == program.OpRet && exits:
			l.get(asm.R0, l.isExit)
			l.emit(asm.JNE.Imm(asm.R0, 0, end))
			ret()
		case in.Op == program.OpRet:
			ret()
		default:
			l.inst(in, prefix, end)
		}
	}
}

func target(prefix string, in *program.Inst) string { return fmt.Sprintf("%s%d", prefix, in.Imm) }

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

// inst translates one instruction.
func (l *lowering) inst(in *program.Inst, prefix, end string) {
	switch in.Op {
	case program.OpMov, program.OpNot:
		l.load(asm.R0, in.A)
		if in.Op == program.OpNot {
			l.emit(asm.Xor.Imm(asm.R0, -1))
		}
		l.mask(asm.R0, in.Imm)
		l.store(in.Dst, asm.R0)
	case program.OpAdd, program.OpSub, program.OpMul, program.OpAnd, program.OpOr, program.OpXor:
		l.load(asm.R0, in.A)
		l.load(asm.R1, in.B)
		l.emit(lowerALU[in.Op].Reg(asm.R0, asm.R1))
		l.mask(asm.R0, in.Imm)
		l.store(in.Dst, asm.R0)
	case program.OpDivU, program.OpModU:
		zero := l.newLabel()
		l.load(asm.R1, in.B)
		l.emit(asm.Mov.Imm(asm.R0, 0), asm.JEq.Imm(asm.R1, 0, zero))
		l.load(asm.R0, in.A)
		l.emit(lowerALU[in.Op].Reg(asm.R0, asm.R1))
		l.at(zero)
		l.store(in.Dst, asm.R0)
	case program.OpShl, program.OpShr, program.OpSar:
		l.shift(in)
	case program.OpEq, program.OpNe, program.OpLtU, program.OpLeU, program.OpLtS, program.OpLeS:
		l.load(asm.R1, in.A)
		l.load(asm.R2, in.B)
		yes := l.newLabel()
		l.emit(asm.Mov.Imm(asm.R0, 1), lowerCompare[in.Op].Reg(asm.R1, asm.R2, yes), asm.Mov.Imm(asm.R0, 0))
		l.at(yes)
		l.store(in.Dst, asm.R0)
	case program.OpNonZ, program.OpIsZ:
		l.load(asm.R1, in.A)
		yes := l.newLabel()
		op := asm.JNE
		if in.Op == program.OpIsZ {
			op = asm.JEq
		}
		l.emit(asm.Mov.Imm(asm.R0, 1), op.Imm(asm.R1, 0, yes), asm.Mov.Imm(asm.R0, 0))
		l.at(yes)
		l.store(in.Dst, asm.R0)
	case program.OpSext:
		l.load(asm.R0, in.A)
		l.emit(asm.LSh.Imm(asm.R0, int32(in.Imm&63)), asm.ArSh.Imm(asm.R0, int32(in.Imm&63)))
		l.store(in.Dst, asm.R0)
	case program.OpMinU, program.OpClampS, program.OpClampB, program.OpSel:
		l.choose(in)
	case program.OpJmp:
		l.jump(target(prefix, in))
	case program.OpJz, program.OpJnz:
		l.load(asm.R0, in.A)
		op := asm.JEq
		if in.Op == program.OpJnz {
			op = asm.JNE
		}
		l.emit(op.Imm(asm.R0, 0, target(prefix, in)))
	case program.OpJEq, program.OpJNe, program.OpJLtU, program.OpJGeU, program.OpJLeU, program.OpJGtU:
		l.load(asm.R0, in.A)
		l.load(asm.R1, in.B)
		l.emit(lowerJump[in.Op].Reg(asm.R0, asm.R1, target(prefix, in)))
	default:
		l.stateInst(in, prefix, end)
	}
}

// stateInst translates what is not arithmetic.
func (l *lowering) stateInst(in *program.Inst, prefix, end string) {
	switch in.Op {
	case program.OpCheckExit:
		l.get(asm.R0, l.isExit)
		l.emit(asm.JNE.Imm(asm.R0, 0, end))
	case program.OpExit:
		l.putImm(l.isExit, 1)
	case program.OpSetValid:
		l.setValid(int(in.Imm))
	case program.OpSetInvalid:
		l.putImm(int(l.p.Headers[in.Imm].ValidSlot())*8, 0)
	case program.OpDirty:
		l.get(asm.R0, int(in.Dst)*8)
		if in.Imm <= 1<<31-1 {
			l.emit(asm.Or.Imm(asm.R0, int32(in.Imm)))
		} else {
			l.imm(asm.R1, in.Imm)
			l.emit(asm.Or.Reg(asm.R0, asm.R1))
		}
		l.store(in.Dst, asm.R0)
	case program.OpDrop:
		l.imm(asm.R0, l.drop)
		l.store(in.Dst, asm.R0)
		if in.A != program.SlotZero {
			l.putImm(int(in.A)*8, 0)
		}
	case program.OpCount:
		l.count(in)
	case program.OpRegRead:
		l.readRegister(in)
	case program.OpTable:
		l.table(int(in.Imm), prefix, end)
	case program.OpCallAction:
		what := l.what
		if i := l.actionAt(in.A); i >= 0 {
			l.what = fmt.Sprintf("action %q", l.p.Actions[i].Info.Name)
		}
		l.span(in.A, l.newLabel()+"_", end, func() { l.jump(target(prefix, in)) })
		l.what = what
	case program.OpCall:
		l.call(&l.p.Calls[in.Imm])
	default:
		if !l.wideInst(in) {
			l.up(nameOf(in.Op))
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

// shift translates shifts, whose counts may be 64 and more.
func (l *lowering) shift(in *program.Inst) {
	op := map[program.Opcode]asm.ALUOp{program.OpShl: asm.LSh, program.OpShr: asm.RSh, program.OpSar: asm.ArSh}[in.Op]
	l.load(asm.R0, in.A)
	if n, ok := l.konst[in.B]; ok && n < 64 {
		l.emit(op.Imm(asm.R0, int32(n)))
	} else {
		fits, done := l.newLabel(), l.newLabel()
		l.load(asm.R1, in.B)
		l.emit(asm.JLT.Imm(asm.R1, 64, fits))
		if in.Op == program.OpSar {
			l.emit(asm.ArSh.Imm(asm.R0, 63))
		} else {
			l.emit(asm.Mov.Imm(asm.R0, 0))
		}
		l.jump(done)
		l.at(fits)
		l.emit(op.Reg(asm.R0, asm.R1))
		l.at(done)
	}
	l.mask(asm.R0, in.Imm)
	l.store(in.Dst, asm.R0)
}

// choose translates minima, clamps and the conditional operator.
func (l *lowering) choose(in *program.Inst) {
	done := l.newLabel()
	l.load(asm.R0, in.A)
	switch in.Op {
	case program.OpMinU:
		l.imm(asm.R1, in.Imm)
		l.emit(asm.JLE.Reg(asm.R0, asm.R1, done), asm.Mov.Reg(asm.R0, asm.R1))
	case program.OpClampS:
		pos := l.newLabel()
		l.emit(asm.JSGE.Imm(asm.R0, 0, pos), asm.Mov.Imm(asm.R0, 0))
		l.at(pos)
		l.imm(asm.R1, in.Imm)
		l.emit(asm.JLE.Reg(asm.R0, asm.R1, done), asm.Mov.Reg(asm.R0, asm.R1))
	case program.OpClampB:
		low := l.newLabel()
		l.imm(asm.R1, in.Imm)
		l.emit(asm.JSLE.Reg(asm.R0, asm.R1, low), asm.Mov.Reg(asm.R0, asm.R1))
		l.at(low)
		l.imm(asm.R1, -in.Imm-1)
		l.emit(asm.JSGE.Reg(asm.R0, asm.R1, done), asm.Mov.Reg(asm.R0, asm.R1))
	case program.OpSel:
		other := l.newLabel()
		l.emit(asm.JEq.Imm(asm.R0, 0, other))
		l.load(asm.R0, in.B)
		l.jump(done)
		l.at(other)
		l.load(asm.R0, uint32(in.Imm))
	}
	l.at(done)
	l.store(in.Dst, asm.R0)
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

// count notes what to count when the packet is done with.
func (l *lowering) count(in *program.Inst) {
	j := journalSite{at: l.take(8), kind: fmt.Sprintf("c%d", in.Imm)}
	if !slices.Contains(l.out.Counted, program.CounterID(in.Imm)) {
		l.out.Counted = append(l.out.Counted, program.CounterID(in.Imm))
	}
	skip := l.newLabel()
	l.load(asm.R0, in.A)
	l.imm(asm.R1, uint64(l.p.Counters[in.Imm].Size))
	l.emit(asm.JGE.Reg(asm.R0, asm.R1, skip), asm.Add.Imm(asm.R0, 1))
	l.put(j.at, asm.R0)
	l.at(skip)
	l.journal = append(l.journal, j)
}

// readRegister reads the kernel's copy of a register.
func (l *lowering) readRegister(in *program.Inst) {
	r := &l.p.Registers[in.Imm]
	if r.Width > 64 || in.N != 1 || r.Size == 0 {
		l.up("a register of more than 64 bits")
		return
	}
	if !slices.Contains(l.out.Read, program.RegisterID(in.Imm)) {
		l.out.Read = append(l.out.Read, program.RegisterID(in.Imm))
	}
	skip := l.newLabel()
	l.load(asm.R0, in.A)
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
	l.mask(asm.R0, program.MaskOf(int(in.B)))
	l.store(in.Dst, asm.R0)
	l.at(skip)
}

var callNames = map[program.CallKind]string{
	program.CallAssignUnion: "an assignment of header unions", program.CallAssignUnionStack: "an assignment of header unions",
	program.CallAssignStack: "an assignment of header stacks",
	program.CallPush:        "push", program.CallPop: "pop", program.CallPushUnion: "push", program.CallPopUnion: "pop",
	program.CallRandom: "a random number", program.CallMeter: "a meter",
	program.CallDigest: "a digest", program.CallClone: "a clone", program.CallResubmit: "resubmit", program.CallRecirculate: "recirculate",
	program.CallTruncate: "truncate", program.CallLog: "log_msg",
}

// call translates the rarer primitives.
func (l *lowering) call(k *program.Call) {
	switch k.Kind {
	case program.CallAddHeader, program.CallRemoveHeader:
		id, ok := l.konst[k.A]
		if !ok || id >= uint64(len(l.p.Headers)) || l.p.Headers[id].Type.Varbit >= 0 {
			l.up("a header named at run time, or of variable length")
			return
		}
		members := []int{int(id)}
		if u := l.p.Headers[id].Union; u >= 0 && k.Kind == program.CallRemoveHeader {
			members = l.p.Unions[u].Headers
		}
		for _, m := range members {
			if l.p.Headers[m].Type.Varbit >= 0 {
				l.up("a header named at run time, or of variable length")
				return
			}
		}
		for _, m := range members {
			l.addHeader(m, k.Kind == program.CallAddHeader)
		}
	case program.CallAssignHeader:
		d, ok1 := l.konst[k.A]
		s, ok2 := l.konst[k.B]
		if n := uint64(len(l.p.Headers)); !ok1 || !ok2 || d >= n || s >= n {
			l.up("a header named at run time")
			return
		}
		l.assignHeader(int(d), int(s), k.ID != 0)
	case program.CallHash:
		l.hashCall(k)
	case program.CallRandom:
		if !l.cfg.Random {
			l.up(callNames[k.Kind])
			return
		}
		l.random(k)
	case program.CallAssert, program.CallAssume:
		l.load(asm.R0, k.A)
		l.emit(asm.JEq.Imm(asm.R0, 0, l.upLabel("a failed assert")))
	default:
		l.up(callNames[k.Kind])
	}
}

func (l *lowering) addHeader(id int, add bool) {
	h := &l.p.Headers[id]
	if h.Meta {
		return
	}
	done := l.newLabel()
	l.load(asm.R0, h.ValidSlot())
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
	l.get(asm.R0, l.pktLen)
	l.emit(asm.Add.Imm(asm.R0, n))
	l.put(l.pktLen, asm.R0)
	l.at(done)
}

func (l *lowering) assignHeader(dst, src int, alone bool) {
	d, c := &l.p.Headers[dst], &l.p.Headers[src]
	invalid, done := l.newLabel(), l.newLabel()
	if !c.Meta {
		l.load(asm.R0, c.ValidSlot())
		l.emit(asm.JEq.Imm(asm.R0, 0, invalid))
	}
	for i := range min(d.Type.Valid, c.Type.Valid) {
		l.get(asm.R0, int(c.Base+i)*8)
		l.put(int(d.Base+i)*8, asm.R0)
	}
	l.setValid(dst)
	l.jump(done)
	l.at(invalid)
	l.putImm(int(d.ValidSlot())*8, 0)
	if alone && d.Union >= 0 {
		for _, m := range l.p.Unions[d.Union].Headers {
			l.putImm(int(l.p.Headers[m].ValidSlot())*8, 0)
		}
	}
	l.at(done)
}
