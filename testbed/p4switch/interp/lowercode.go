package interp

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// span translates the code from pc to its halt, or to an action's return.
// Labels of the span start with prefix. A halt goes to the label end; a
// return, where ret is given, is what ret emits.
func (l *lowering) span(pc uint32, prefix, end string, ret func()) {
	code := l.p.code
	last := int(pc)
	targets := map[int]bool{}
	for ; ; last++ {
		in := &code[last]
		switch in.op {
		case opJmp, opJz, opJnz, opJEq, opJNe, opJLtU, opJGeU, opJLeU, opJGtU, opCallAction:
			targets[int(in.imm)] = true
		case opTable:
			t := &l.p.tables[in.imm]
			for k := range t.acts {
				targets[int(t.acts[k].hit)], targets[int(t.acts[k].def)] = true, true
			}
			targets[int(t.missPC)] = true
		}
		if in.op == opHalt && ret == nil || in.op == opRet && ret != nil {
			break
		}
	}
	exits := false
	for at := int(pc); at <= last; at++ {
		if targets[at] {
			l.at(fmt.Sprintf("%s%d", prefix, at))
		}
		in := &code[at]
		exits = exits || in.op == opExit
		switch {
		case in.op == opHalt:
			l.jump(end)
		case in.op == opRet && exits:
			l.get(asm.R0, l.isExit)
			l.emit(asm.JNE.Imm(asm.R0, 0, end))
			ret()
		case in.op == opRet:
			ret()
		default:
			l.inst(in, prefix, end)
		}
	}
}

func target(prefix string, in *inst) string { return fmt.Sprintf("%s%d", prefix, in.imm) }

var lowerALU = map[opcode]asm.ALUOp{
	opAdd: asm.Add, opSub: asm.Sub, opMul: asm.Mul,
	opAnd: asm.And, opOr: asm.Or, opXor: asm.Xor, opDivU: asm.Div, opModU: asm.Mod,
}

var lowerCompare = map[opcode]asm.JumpOp{
	opEq: asm.JEq, opNe: asm.JNE, opLtU: asm.JLT, opLeU: asm.JLE, opLtS: asm.JSLT, opLeS: asm.JSLE,
}

var lowerJump = map[opcode]asm.JumpOp{
	opJEq: asm.JEq, opJNe: asm.JNE, opJLtU: asm.JLT, opJGeU: asm.JGE, opJLeU: asm.JLE, opJGtU: asm.JGT,
}

// inst translates one instruction.
func (l *lowering) inst(in *inst, prefix, end string) {
	switch in.op {
	case opMov, opNot:
		l.load(asm.R0, in.a)
		if in.op == opNot {
			l.emit(asm.Xor.Imm(asm.R0, -1))
		}
		l.mask(asm.R0, in.imm)
		l.store(in.dst, asm.R0)
	case opAdd, opSub, opMul, opAnd, opOr, opXor:
		l.load(asm.R0, in.a)
		l.load(asm.R1, in.b)
		l.emit(lowerALU[in.op].Reg(asm.R0, asm.R1))
		l.mask(asm.R0, in.imm)
		l.store(in.dst, asm.R0)
	case opDivU, opModU:
		zero := l.newLabel()
		l.load(asm.R1, in.b)
		l.emit(asm.Mov.Imm(asm.R0, 0), asm.JEq.Imm(asm.R1, 0, zero))
		l.load(asm.R0, in.a)
		l.emit(lowerALU[in.op].Reg(asm.R0, asm.R1))
		l.at(zero)
		l.store(in.dst, asm.R0)
	case opShl, opShr, opSar:
		l.shift(in)
	case opEq, opNe, opLtU, opLeU, opLtS, opLeS:
		l.load(asm.R1, in.a)
		l.load(asm.R2, in.b)
		yes := l.newLabel()
		l.emit(asm.Mov.Imm(asm.R0, 1), lowerCompare[in.op].Reg(asm.R1, asm.R2, yes), asm.Mov.Imm(asm.R0, 0))
		l.at(yes)
		l.store(in.dst, asm.R0)
	case opNonZ, opIsZ:
		l.load(asm.R1, in.a)
		yes := l.newLabel()
		op := asm.JNE
		if in.op == opIsZ {
			op = asm.JEq
		}
		l.emit(asm.Mov.Imm(asm.R0, 1), op.Imm(asm.R1, 0, yes), asm.Mov.Imm(asm.R0, 0))
		l.at(yes)
		l.store(in.dst, asm.R0)
	case opSext:
		l.load(asm.R0, in.a)
		l.emit(asm.LSh.Imm(asm.R0, int32(in.imm&63)), asm.ArSh.Imm(asm.R0, int32(in.imm&63)))
		l.store(in.dst, asm.R0)
	case opMinU, opClampS, opClampB, opSel:
		l.choose(in)
	case opJmp:
		l.jump(target(prefix, in))
	case opJz, opJnz:
		l.load(asm.R0, in.a)
		op := asm.JEq
		if in.op == opJnz {
			op = asm.JNE
		}
		l.emit(op.Imm(asm.R0, 0, target(prefix, in)))
	case opJEq, opJNe, opJLtU, opJGeU, opJLeU, opJGtU:
		l.load(asm.R0, in.a)
		l.load(asm.R1, in.b)
		l.emit(lowerJump[in.op].Reg(asm.R0, asm.R1, target(prefix, in)))
	default:
		l.stateInst(in, prefix, end)
	}
}

// stateInst translates what is not arithmetic.
func (l *lowering) stateInst(in *inst, prefix, end string) {
	switch in.op {
	case opCheckExit:
		l.get(asm.R0, l.isExit)
		l.emit(asm.JNE.Imm(asm.R0, 0, end))
	case opExit:
		l.putImm(l.isExit, 1)
	case opSetValid:
		l.setValid(int(in.imm))
	case opSetInvalid:
		l.putImm(int(l.p.headers[in.imm].validSlot())*8, 0)
	case opDirty:
		l.get(asm.R0, int(in.dst)*8)
		if in.imm <= 1<<31-1 {
			l.emit(asm.Or.Imm(asm.R0, int32(in.imm)))
		} else {
			l.imm(asm.R1, in.imm)
			l.emit(asm.Or.Reg(asm.R0, asm.R1))
		}
		l.store(in.dst, asm.R0)
	case opDrop:
		l.imm(asm.R0, l.drop)
		l.store(in.dst, asm.R0)
		if in.a != slotZero {
			l.putImm(int(in.a)*8, 0)
		}
	case opCount:
		l.count(in)
	case opRegRead:
		l.readRegister(in)
	case opTable:
		l.table(int(in.imm), prefix, end)
	case opCallAction:
		what := l.what
		if i := l.actionAt(in.a); i >= 0 {
			l.what = fmt.Sprintf("action %q", l.p.actions[i].info.Name)
		}
		l.span(in.a, l.newLabel()+"_", end, func() { l.jump(target(prefix, in)) })
		l.what = what
	case opCall:
		l.call(&l.p.calls[in.imm])
	default:
		if !l.wideInst(in) {
			l.up(nameOf(in.op))
		}
	}
}

func (l *lowering) actionAt(pc uint32) int {
	for i := range l.p.actions {
		if l.p.actions[i].pc == pc {
			return i
		}
	}
	return -1
}

// nameOf names the constructs that are not translated.
func nameOf(op opcode) string {
	switch op {
	case opRegWrite:
		return "a write to a register"
	case opBack, opJzBack:
		return "a loop"
	case opDivS, opModS:
		return "a signed division"
	case opHdrID, opHdrLoad, opHdrStore, opHdrValid, opLast, opEqHdr:
		return "a header named at run time, or a comparison of headers"
	case opUnionID, opUnionHdr, opUnionValid, opEqUnion:
		return "a header union as a whole"
	}
	return "an operand of more than 64 bits"
}

// shift translates shifts, whose counts may be 64 and more.
func (l *lowering) shift(in *inst) {
	op := map[opcode]asm.ALUOp{opShl: asm.LSh, opShr: asm.RSh, opSar: asm.ArSh}[in.op]
	l.load(asm.R0, in.a)
	if n, ok := l.konst[in.b]; ok && n < 64 {
		l.emit(op.Imm(asm.R0, int32(n)))
	} else {
		fits, done := l.newLabel(), l.newLabel()
		l.load(asm.R1, in.b)
		l.emit(asm.JLT.Imm(asm.R1, 64, fits))
		if in.op == opSar {
			l.emit(asm.ArSh.Imm(asm.R0, 63))
		} else {
			l.emit(asm.Mov.Imm(asm.R0, 0))
		}
		l.jump(done)
		l.at(fits)
		l.emit(op.Reg(asm.R0, asm.R1))
		l.at(done)
	}
	l.mask(asm.R0, in.imm)
	l.store(in.dst, asm.R0)
}

// choose translates minima, clamps and the conditional operator.
func (l *lowering) choose(in *inst) {
	done := l.newLabel()
	l.load(asm.R0, in.a)
	switch in.op {
	case opMinU:
		l.imm(asm.R1, in.imm)
		l.emit(asm.JLE.Reg(asm.R0, asm.R1, done), asm.Mov.Reg(asm.R0, asm.R1))
	case opClampS:
		pos := l.newLabel()
		l.emit(asm.JSGE.Imm(asm.R0, 0, pos), asm.Mov.Imm(asm.R0, 0))
		l.at(pos)
		l.imm(asm.R1, in.imm)
		l.emit(asm.JLE.Reg(asm.R0, asm.R1, done), asm.Mov.Reg(asm.R0, asm.R1))
	case opClampB:
		low := l.newLabel()
		l.imm(asm.R1, in.imm)
		l.emit(asm.JSLE.Reg(asm.R0, asm.R1, low), asm.Mov.Reg(asm.R0, asm.R1))
		l.at(low)
		l.imm(asm.R1, -in.imm-1)
		l.emit(asm.JSGE.Reg(asm.R0, asm.R1, done), asm.Mov.Reg(asm.R0, asm.R1))
	case opSel:
		other := l.newLabel()
		l.emit(asm.JEq.Imm(asm.R0, 0, other))
		l.load(asm.R0, in.b)
		l.jump(done)
		l.at(other)
		l.load(asm.R0, uint32(in.imm))
	}
	l.at(done)
	l.store(in.dst, asm.R0)
}

// setValid makes a header valid, and its siblings in a union invalid.
func (l *lowering) setValid(id int) {
	h := &l.p.headers[id]
	if h.union >= 0 {
		for _, o := range l.p.unions[h.union].headers {
			l.putImm(int(l.p.headers[o].validSlot())*8, 0)
		}
	}
	l.putImm(int(h.validSlot())*8, 1)
}

// count notes what to count when the packet is done with.
func (l *lowering) count(in *inst) {
	j := journalSite{at: l.take(8), kind: fmt.Sprintf("c%d", in.imm)}
	if !slices.Contains(l.out.Counted, CounterID(in.imm)) {
		l.out.Counted = append(l.out.Counted, CounterID(in.imm))
	}
	skip := l.newLabel()
	l.load(asm.R0, in.a)
	l.imm(asm.R1, uint64(l.p.counters[in.imm].Size))
	l.emit(asm.JGE.Reg(asm.R0, asm.R1, skip), asm.Add.Imm(asm.R0, 1))
	l.put(j.at, asm.R0)
	l.at(skip)
	l.journal = append(l.journal, j)
}

// readRegister reads the kernel's copy of a register.
func (l *lowering) readRegister(in *inst) {
	r := &l.p.registers[in.imm]
	if r.Width > 64 || in.n != 1 || r.Size == 0 {
		l.up("a register of more than 64 bits")
		return
	}
	if !slices.Contains(l.out.Read, RegisterID(in.imm)) {
		l.out.Read = append(l.out.Read, RegisterID(in.imm))
	}
	skip := l.newLabel()
	l.load(asm.R0, in.a)
	l.emit(
		asm.JGE.Imm(asm.R0, int32(r.Size), skip),
		asm.StoreMem(asm.R10, -4, asm.R0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, 0).WithReference(fmt.Sprintf("r%d", in.imm)),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, skip),
		asm.LoadMem(asm.R0, asm.R0, 0, asm.DWord),
	)
	l.mask(asm.R0, maskOf(int(in.b)))
	l.store(in.dst, asm.R0)
	l.at(skip)
}

var callNames = map[callKind]string{
	callAssignUnion: "an assignment of header unions", callAssignUnionStack: "an assignment of header unions",
	callAssignStack: "an assignment of header stacks",
	callPush:        "push", callPop: "pop", callPushUnion: "push", callPopUnion: "pop",
	callRandom: "a random number", callMeter: "a meter",
	callDigest: "a digest", callClone: "a clone", callResubmit: "resubmit", callRecirculate: "recirculate",
	callTruncate: "truncate", callLog: "log_msg",
}

// call translates the rarer primitives.
func (l *lowering) call(k *call) {
	switch k.kind {
	case callAddHeader, callRemoveHeader:
		id, ok := l.konst[k.a]
		if !ok || id >= uint64(len(l.p.headers)) || l.p.headers[id].typ.vl >= 0 {
			l.up("a header named at run time, or of variable length")
			return
		}
		l.addHeader(int(id), k.kind == callAddHeader)
	case callAssignHeader:
		d, ok1 := l.konst[k.a]
		s, ok2 := l.konst[k.b]
		if n := uint64(len(l.p.headers)); !ok1 || !ok2 || d >= n || s >= n {
			l.up("a header named at run time")
			return
		}
		l.assignHeader(int(d), int(s))
	case callHash:
		l.hashCall(k)
	case callRandom:
		if !l.cfg.Random {
			l.up(callNames[k.kind])
			return
		}
		l.random(k)
	case callAssert, callAssume:
		l.load(asm.R0, k.a)
		l.emit(asm.JEq.Imm(asm.R0, 0, l.upLabel("a failed assert")))
	default:
		l.up(callNames[k.kind])
	}
}

func (l *lowering) addHeader(id int, add bool) {
	h := &l.p.headers[id]
	if h.meta {
		return
	}
	done := l.newLabel()
	l.load(asm.R0, h.validSlot())
	if add {
		l.emit(asm.JNE.Imm(asm.R0, 0, done))
		for i := range h.typ.size {
			l.putImm(int(h.base)*8+8*i, 0)
		}
		l.setValid(id)
	} else {
		l.emit(asm.JEq.Imm(asm.R0, 0, done))
		l.putImm(int(h.validSlot())*8, 0)
	}
	n := int32(h.typ.fixed / 8)
	if !add {
		n = -n
	}
	l.get(asm.R0, l.pktLen)
	l.emit(asm.Add.Imm(asm.R0, n))
	l.put(l.pktLen, asm.R0)
	l.at(done)
}

func (l *lowering) assignHeader(dst, src int) {
	d, c := &l.p.headers[dst], &l.p.headers[src]
	invalid, done := l.newLabel(), l.newLabel()
	if !c.meta {
		l.load(asm.R0, c.validSlot())
		l.emit(asm.JEq.Imm(asm.R0, 0, invalid))
	}
	for i := range min(d.typ.valid, c.typ.valid) {
		l.get(asm.R0, int(c.base+i)*8)
		l.put(int(d.base+i)*8, asm.R0)
	}
	l.setValid(dst)
	l.jump(done)
	l.at(invalid)
	l.putImm(int(d.validSlot())*8, 0)
	l.at(done)
}
