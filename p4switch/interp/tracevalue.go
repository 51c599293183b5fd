package interp

import (
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// The recorder follows one packet and keeps, for every slot, the value in it:
// what the value is for this packet, and how it comes about for any packet that
// goes the same way. Code for a value is written when something needs it, so
// what nobody needs costs nothing.

type valueKind uint8

const (
	valueConst valueKind = iota // the same for all packets of this path
	valueField                  // bits of the packet's bytes
	valueInput
	valueHeld     // a value kept in [HeldPacket] between ingress and egress
	valueComputed // arithmetic on others, or a register read
	valueReg      // made by an instruction that has been written already
)

type value struct {
	kind  valueKind
	c     uint64    // for the packet at hand
	bits  uint64    // the bits that can be other than 0
	reg   traceSlot // where the trace has it; 0: nowhere yet
	op    traceOp
	args  [3]int32
	n     int // how many args
	imm   uint64
	index uint32 // of an input or held number; the width of a register read
	parts []program.Part
}

// newValue adds a value and returns its index.
func (r *traceRecorder) newValue(x value) int32 {
	r.values = append(r.values, x)
	return int32(len(r.values) - 1)
}

func (r *traceRecorder) constantValue(c uint64) int32 {
	return r.newValue(value{kind: valueConst, c: c, bits: c})
}

// fieldValue returns a value that consists of bits of the packet.
func (r *traceRecorder) fieldValue(ps []program.Part) int32 {
	x := value{kind: valueField, parts: ps}
	for i := range ps {
		x.c |= ps[i].Load(r.data)
		x.bits |= ps[i].Mask << (ps[i].Right & 63)
	}
	return r.newValue(x)
}

func (r *traceRecorder) inputValue(op traceOp, index uint32, mask uint64) int32 {
	c := r.t.in[index]
	if op == traceInputUs {
		c /= 1000
	}
	return r.newValue(value{kind: valueInput, op: op, index: index, imm: mask, c: c & mask, bits: mask})
}

// slotValue returns the value in a slot. Reading a slot that nothing was written to
// ends the recording.
func (r *traceRecorder) slotValue(slot uint32) int32 {
	if id := r.slots[slot]; id >= 0 {
		return id
	}
	r.abandon("a slot read before it is written")
	return r.constantValue(0)
}

func (r *traceRecorder) isConst(id int32) bool { return r.values[id].kind == valueConst }

func (r *traceRecorder) valueOf(id int32) uint64 { return r.values[id].c }

// pureValue is the value of a pure operation.
func (r *traceRecorder) pureValue(op program.Opcode, imm uint64, args ...int32) int32 {
	x := value{kind: valueComputed, op: traceOp(op), imm: imm, bits: ^uint64(0), n: len(args)}
	var c [3]uint64
	same := true
	for i, a := range args {
		x.args[i], c[i] = a, r.valueOf(a)
		same = same && r.isConst(a)
	}
	x.c = evalPure(op, c[0], c[1], c[2], imm)
	if same {
		return r.constantValue(x.c)
	}
	switch {
	case op == program.OpMov && r.values[args[0]].bits&^imm == 0:
		return args[0]
	case op == program.OpAnd:
		x.bits = r.values[args[0]].bits & r.values[args[1]].bits & imm
	case op <= program.LastMasked:
		x.bits = imm
	case op >= program.OpEq && op <= program.OpIsZ:
		x.bits = 1
	}
	if x.bits == 0 {
		return r.constantValue(0)
	}
	return r.newValue(x)
}

// inRegister returns the register in which the trace has a value, and takes one for it first if it has none.
func (r *traceRecorder) inRegister(id int32) traceSlot {
	x := &r.values[id]
	if x.reg != 0 {
		return x.reg
	}
	switch x.kind {
	case valueConst:
		x.reg = r.t.constantReg(x.c)
		if x.reg == 0 {
			r.abandon("too many constants")
		}
		return x.reg
	case valueComputed:
		var regs [3]traceSlot
		args, n := x.args, x.n
		for i := range n {
			regs[i] = r.inRegister(args[i])
		}
		x = &r.values[id]
		if x.op == traceRead {
			x.reg = r.emitTo(traceInst{op: x.op, a: regs[0], b: traceSlot(x.index), imm: x.imm}, 1)
		} else {
			x.reg = r.emitTo(traceInst{op: x.op, a: regs[0], b: regs[1], n: uint16(regs[2]), imm: x.imm}, 1)
		}
	case valueInput:
		x.reg = r.emitTo(traceInst{op: x.op, a: traceSlot(x.index), imm: x.imm}, 1)
	case valueHeld:
		x.reg = r.emitTo(traceInst{op: traceHeld, a: traceSlot(x.index)}, 1)
	case valueField:
		for i := range x.parts {
			p := &x.parts[i]
			in := traceInst{op: traceLoad, n: p.Byte, a: traceSlot(p.Shift), b: traceSlot(p.Right), imm: p.Mask}
			if i == 0 {
				x.reg = r.emitTo(in, 1)
				continue
			}
			in.op, in.dst = traceLoadOr, x.reg
			r.emitInst(in)
		}
	}
	r.t.slots[x.reg] = x.c
	return x.reg
}

// registerValue returns the value that the previous instruction left in a register.
func (r *traceRecorder) registerValue(reg traceSlot, bits uint64) int32 {
	return r.newValue(value{kind: valueReg, reg: reg, c: r.t.slots[reg], bits: bits})
}

// storeInSlot stores a slot's value into the slot itself, for code that reads the slot.
func (r *traceRecorder) storeInSlot(slot uint32) {
	if slot == program.SlotZero || slot == program.SlotOne || r.fixed[slot] {
		return
	}
	from := r.inRegister(r.slotValue(slot))
	r.emitInst(traceInst{op: traceMove, dst: traceSlot(slot), a: from})
	r.t.slots[slot] = r.t.slots[from]
}

// constantReg returns a register that always holds c, 0 when there is no room.
func (t *Traces) constantReg(c uint64) traceSlot {
	if c == 1 {
		return program.SlotOne
	}
	if reg, ok := t.consts[c]; ok {
		return reg
	}
	if len(t.consts) == maxTraceConsts {
		return 0
	}
	reg := traceSlot(t.p.Slots + len(t.consts))
	t.consts[c] = reg
	t.slots[reg] = c
	return reg
}

// emitTo gives an instruction the next n registers as its destination.
func (r *traceRecorder) emitTo(in traceInst, n int) traceSlot {
	first := r.t.p.Slots + maxTraceConsts
	if r.regs+n > first+maxTraceRegs {
		r.abandon("too many registers")
		r.regs = first
	}
	in.dst = traceSlot(r.regs)
	r.regs += n
	r.emitInst(in)
	return in.dst
}

// emitInst records an instruction, or checks that an existing trace has the same one here.
func (r *traceRecorder) emitInst(in traceInst) {
	t := r.t
	if !r.follow {
		t.code = append(t.code, in)
		return
	}
	have := t.code[r.pc]
	r.pc++
	have.alt = 0
	if have.op == traceTable {
		in.imm = have.imm // the key was put together by the first
	}
	if have != in {
		t.broken = true
		r.abandon("contradiction")
	}
}

// emitGuard records a check that holds for this packet, or finds the same check in the trace.
func (r *traceRecorder) emitGuard(in traceInst) {
	t := r.t
	if !r.follow {
		t.code = append(t.code, in)
		return
	}
	have := &t.code[r.pc]
	other := *have
	other.alt = 0
	if other == in {
		r.pc++
		return
	}
	opposite := in
	opposite.op = in.op.negated()
	if other != opposite && (in.op != traceActionChosen || other.op != traceActionChosen) {
		t.broken = true
		r.abandon("contradiction")
		return
	}
	if have.alt != 0 {
		r.pc = have.alt
		if in.op == traceActionChosen {
			r.emitGuard(in)
		}
		return
	}
	have.alt = uint32(len(t.code))
	r.follow = false
	if in.op == traceActionChosen {
		t.code = append(t.code, in)
	}
}

// guardCondition writes the guard that a condition comes out as it does: op on a and b,
// or its negation.
func (r *traceRecorder) guardCondition(op traceOp, holds bool, a, b int32) {
	in := traceInst{op: op}
	if !holds {
		in.op = op.negated()
	}
	in.a = r.inRegister(a)
	if op != traceZero && op != traceNonZero {
		in.b = r.inRegister(b)
	}
	r.emitGuard(in)
}
