package interp

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// recordParser follows the packet through the parser.
func (r *traceRecorder) recordParser() {
	pr := &r.t.p.Parser
	for st := pr.Init; st >= 0 && r.bad == ""; {
		state := &pr.States[st]
		for i := range state.Ops {
			op := &state.Ops[i]
			switch {
			case op.Kind == program.ParseExtract && !op.Sized && op.PC == 0:
				r.recordExtract(op.ID)
			case op.Kind == program.ParseRun:
				r.recordCode(op.PC)
			default:
				r.abandon("a parser operation")
			}
			if r.bad != "" {
				return
			}
		}
		if r.steps++; r.steps > maxTracePath {
			r.abandon("a long path")
			return
		}
		if state.Words == 0 {
			st = state.Next
			continue
		}
		st = r.selectNext(state)
	}
}

func (r *traceRecorder) recordExtract(hid int) {
	e := &r.t.p.Extractions[hid]
	if e.Varbit || e.Union {
		r.abandon("a varbit or a union")
		return
	}
	need := traceInst{op: traceLen, imm: uint64(r.pos + e.Bytes)}
	if len(r.data)-TraceSlack < r.pos+e.Bytes {
		need.op = traceShorterThan
		r.emitGuard(need)
		r.abandon("a packet that is too short")
		return
	}
	r.emitGuard(need)
	for _, ps := range bySlot(e.Fields, int32(r.pos)) {
		r.slots[ps[0].Slot] = r.fieldValue(ps)
	}
	if e.Raw != 0 {
		r.slots[e.Raw], r.slots[e.Dirty] = r.constantValue(uint64(headroom+r.pos)+1), 0
	}
	r.hdrAt[hid] = int32(r.pos)
	r.pos += e.Bytes
	r.slots[e.Valid] = r.constantValue(1)
}

// selectNext writes the guards of the select that lead to the next state.
func (r *traceRecorder) selectNext(state *program.ParseState) int32 {
	if state.Words != 1 {
		r.abandon("a select of more than 64 bits")
		return -1
	}
	if state.KeyPC != 0 {
		r.recordCode(state.KeyPC)
	}
	for i := range state.Key {
		if state.Key[i].Lookahead {
			r.abandon("a lookahead")
			return -1
		}
	}
	for i := range state.Cases {
		c := &state.Cases[i]
		if c.ValueSetUse >= 0 {
			r.abandon("a value set")
			return -1
		}
		if r.caseHolds(state, c) {
			return c.Next
		}
	}
	return state.Next
}

// caseHolds writes the guards that a select's case holds, a field after the other, or that its first field that does
// not hold does not.
func (r *traceRecorder) caseHolds(state *program.ParseState, c *program.ParseCase) bool {
	for i := range state.Key {
		k := &state.Key[i]
		mask := c.Mask[0] >> (k.Shift & 63) & program.MaskOf(k.Width)
		want := c.Value[0] >> (k.Shift & 63) & mask
		if mask == 0 {
			continue
		}
		x := r.slotValue(k.Slot)
		hit := r.valueOf(x)&mask == want
		if !r.isConst(x) {
			in := traceInst{op: traceBits, a: r.inRegister(x), imm: mask, imm2: want}
			if !hit {
				in.op = traceNoBits
			}
			r.emitGuard(in)
		}
		if !hit {
			return false
		}
	}
	return true
}

// recordCode follows the packet through code, as Switch.run executes it.
func (r *traceRecorder) recordCode(start uint32) {
	p := r.t.p
	pc, ret := int(start), 0
	for r.bad == "" {
		if r.steps++; r.steps > maxTracePath {
			r.abandon("a long path")
			return
		}
		in := &p.Code[pc]
		pc++
		switch {
		case in.Op == program.OpHalt:
			return
		case in.Op == program.OpRet:
			if r.exit {
				return
			}
			pc = ret
		case in.Op >= program.OpMov && in.Op <= program.OpSel:
			r.recordPure(in)
		case in.Op == program.OpJmp || in.Op == program.OpBack:
			pc = int(in.Imm)
		case in.Op >= program.OpJz && in.Op <= program.OpJGtU || in.Op == program.OpJzBack:
			if r.recordJump(in) {
				pc = int(in.Imm)
			}
		case in.Op == program.OpCheckExit:
			if r.exit {
				return
			}
		case in.Op == program.OpExit:
			r.exit = true
		case in.Op == program.OpCallAction:
			pc, ret = int(in.A), int(in.Imm)
		case in.Op == program.OpTable:
			act, next := r.recordTable(int(in.Imm))
			if act != 0 {
				pc, ret = int(act), int(next)
			} else {
				pc = int(next)
			}
		default:
			r.recordOther(in)
		}
	}
}

// recordPure records an operation on single words.
func (r *traceRecorder) recordPure(in *program.Inst) {
	switch in.Op {
	case program.OpMov, program.OpNot, program.OpNonZ, program.OpIsZ, program.OpSext, program.OpMinU, program.OpClampS, program.OpClampB:
		r.slots[in.Dst] = r.pureValue(in.Op, in.Imm, r.slotValue(in.A))
	case program.OpSel:
		r.slots[in.Dst] = r.pureValue(in.Op, 0, r.slotValue(in.A), r.slotValue(in.B), r.slotValue(uint32(in.Imm)))
	default:
		r.slots[in.Dst] = r.pureValue(in.Op, in.Imm, r.slotValue(in.A), r.slotValue(in.B))
	}
}

// recordJump follows a conditional jump and reports whether it is taken.
func (r *traceRecorder) recordJump(in *program.Inst) bool {
	a, b := r.slotValue(in.A), int32(0)
	if in.Op >= program.OpJEq && in.Op <= program.OpJGtU {
		b = r.slotValue(in.B)
	}
	x, y := r.valueOf(a), r.valueOf(b)
	switch in.Op {
	case program.OpJz, program.OpJzBack:
		return r.guardOutcome(traceZero, x == 0, a, 0)
	case program.OpJnz:
		return r.guardOutcome(traceNonZero, x != 0, a, 0)
	case program.OpJEq:
		return r.guardOutcome(traceEq, x == y, a, b)
	case program.OpJNe:
		return r.guardOutcome(traceNe, x != y, a, b)
	case program.OpJLtU:
		return r.guardOutcome(traceLtU, x < y, a, b)
	case program.OpJGeU:
		return r.guardOutcome(traceGeU, x >= y, a, b)
	case program.OpJLeU:
		return r.guardOutcome(traceLeU, x <= y, a, b)
	case program.OpJGtU:
		return r.guardOutcome(traceGtU, x > y, a, b)
	}
	r.abandon("a jump")
	return false
}

// recordTable follows the application of a table.
func (r *traceRecorder) recordTable(id int) (act, next uint32) {
	t := r.t
	ts := &r.s.tables[id]
	tab := ts.t
	if tab.MeterTo.Field != nil {
		r.abandon("a direct meter")
		return 0, 0
	}
	if tab.Info.Profile >= 0 {
		if calc := t.p.Profiles[tab.Info.Profile].Calculation; calc >= 0 {
			r.inputsOf(calc)
		}
	}
	key := traceKey{base: make([]uint64, tab.Words)}
	for i := range tab.Key {
		k := &tab.Key[i]
		guard := r.slotValue(k.Guard)
		if !r.isConst(guard) {
			r.abandon("a table key from a header whose validity is computed")
			return 0, 0
		}
		if r.valueOf(guard) == 0 {
			continue
		}
		for w := range max(k.Words, 1) {
			shift := k.Shift
			if k.Words > 1 {
				shift = 0
			}
			x := r.slotValue(k.Slot + uint32(w))
			if r.isConst(x) {
				key.base[k.Word+w] |= r.valueOf(x) << (shift & 63)
				continue
			}
			key.pieces = append(key.pieces, tracePiece{r.inRegister(x), k.Word + w, shift})
		}
	}
	if r.bad != "" {
		return 0, 0
	}
	if !r.follow {
		t.keys = append(t.keys, key)
	}
	reg := r.emitTo(traceInst{op: traceTable, a: traceSlot(id), imm: uint64(len(t.keys) - 1)}, 1+tab.ArgMax)
	hit := t.lookupKey(r.s, ts, &key)
	act, next, args := t.tableResult(r.s, ts, hit)
	t.slots[reg] = uint64(hit + 1)
	copy(t.slots[reg+1:], args)
	words, widths := min(len(args), tab.ArgMax), t.argMasks(act)
	r.emitGuard(traceInst{op: traceActionChosen, imm: uint64(act), imm2: uint64(next)})
	for i := range words {
		r.slots[t.p.Args+uint32(i)] = r.registerValue(reg+1+traceSlot(i), widths[i])
	}
	if tab.Timeout {
		r.effects = append(r.effects, traceEffect{kind: effectHit, id: id, a: reg})
	}
	if tab.Info.HasDirectCounter {
		r.effects = append(r.effects, traceEffect{kind: effectDirect, id: id, a: reg})
	}
	return act, next
}

// argMasks returns the bits that the words of an action's arguments can have.
func (t *Traces) argMasks(pc uint32) (masks []uint64) {
	i := slices.IndexFunc(t.p.Actions, func(a program.Action) bool { return a.PC == pc })
	if i < 0 {
		return nil
	}
	for _, p := range t.p.Actions[i].Params {
		for w := range p.Words {
			masks = append(masks, program.MaskOf(min(64, p.Width-64*w)))
		}
	}
	return masks
}

// inputsOf puts what a calculation reads where it reads it.
func (r *traceRecorder) inputsOf(calc int) {
	ca := &r.t.p.Calculations[calc]
	if ca.Payload || ca.Hash.Kind == program.HashRoundRobin {
		r.abandon("a hash over the payload, or round robin")
		return
	}
	for i := range ca.Steps {
		st := &ca.Steps[i]
		switch st.Kind {
		case program.EmitField, program.EmitWide:
			r.storeInSlot(st.Guard)
			for w := range max(uint32(st.Words), 1) {
				r.storeInSlot(st.Slot + w)
			}
		case program.EmitHeader:
			h := &r.t.p.Headers[st.Header]
			if !h.Meta {
				r.storeInSlot(h.ValidSlot())
			}
			for _, e := range r.t.p.Emits[st.Header] {
				for w := range max(uint32(e.Words), 1) {
					r.storeInSlot(e.Slot + w)
				}
				if e.Kind == program.EmitVar {
					r.abandon("a hash over a varbit")
				}
			}
		default:
			r.abandon("a hash over a varbit")
		}
	}
}

// recordOther records the remaining instructions.
func (r *traceRecorder) recordOther(in *program.Inst) {
	t := r.t
	switch in.Op {
	case program.OpSetValid:
		h := &t.p.Headers[in.Imm]
		if h.Union >= 0 {
			r.abandon("a union")
			return
		}
		r.slots[h.ValidSlot()] = r.constantValue(1)
	case program.OpSetInvalid:
		r.slots[t.p.Headers[in.Imm].ValidSlot()] = 0
	case program.OpDirty:
		r.slots[in.Dst] = r.pureValue(program.OpOr, ^uint64(0), r.slotValue(in.Dst), r.constantValue(in.Imm))
	case program.OpDrop:
		r.slots[in.Dst] = r.constantValue(r.s.dropSpec)
		if in.A != program.SlotZero {
			r.slots[in.A] = 0
		}
	case program.OpCount:
		r.effects = append(r.effects, traceEffect{kind: effectCount, id: int(in.Imm), a: r.inRegister(r.slotValue(in.A))})
	case program.OpRegRead:
		r.registerRead(in)
	case program.OpRegWrite:
		if in.N != 1 || t.p.Registers[in.Imm].Width > 64 {
			r.abandon("a register of more than 64 bits")
			return
		}
		r.written[int(in.Imm)] = true
		r.effects = append(r.effects, traceEffect{
			kind: effectWrite, id: int(in.Imm), a: r.inRegister(r.slotValue(in.A)), b: r.inRegister(r.slotValue(in.Dst)),
		})
	case program.OpCall:
		r.recordCall(&t.p.Calls[in.Imm])
	default:
		if !r.recordWide(in) {
			r.abandon("an instruction")
		}
	}
}

func (r *traceRecorder) registerRead(in *program.Inst) {
	t := r.t
	if in.N != 1 || t.p.Registers[in.Imm].Width > 64 {
		r.abandon("a register of more than 64 bits")
		return
	}
	if r.written[int(in.Imm)] {
		r.abandon("a register read after it is written")
		return
	}
	index := r.slotValue(in.A)
	size := r.constantValue(uint64(t.p.Registers[in.Imm].Size))
	if !r.guardOutcome(traceLtU, r.valueOf(index) < r.valueOf(size), index, size) {
		return // out of range: the destination stays as it is
	}
	x := value{kind: valueComputed, op: traceRead, imm: in.Imm, index: in.B, n: 1, bits: program.MaskOf(int(in.B))}
	x.args[0] = index
	var c [1]uint64
	r.s.registers[in.Imm].read(c[:], r.valueOf(index), int(in.B))
	x.c = c[0]
	r.slots[in.Dst] = r.newValue(x)
}

func (r *traceRecorder) recordCall(k *program.Call) {
	t := r.t
	switch k.Kind {
	case program.CallHash:
		r.inputsOf(k.ID)
		base, size := r.inRegister(r.slotValue(k.A)), r.inRegister(r.slotValue(k.B))
		reg := r.emitTo(traceInst{op: traceHash, a: base, b: size, imm: uint64(k.ID)}, 1)
		if r.bad != "" {
			return
		}
		t.slots[reg] = r.s.runCalculation(&t.pkt, k.ID)%max(t.slots[size], 1) + t.slots[base]
		r.slots[k.Dst] = r.registerValue(reg, ^uint64(0))
	case program.CallRandom:
		lo, hi := r.slotValue(k.A), r.slotValue(k.B)
		if !r.guardOutcome(traceLeU, r.valueOf(lo) <= r.valueOf(hi), lo, hi) {
			return
		}
		a, b := r.inRegister(lo), r.inRegister(hi)
		reg := r.emitTo(traceInst{op: traceRandom, a: a, b: b}, 1)
		t.slots[reg] = t.slots[a] + r.s.randomTo(t.slots[b]-t.slots[a])
		r.slots[k.Dst] = r.registerValue(reg, ^uint64(0))
	case program.CallLog: // traces are only for switches without a log
	default:
		r.abandon("a primitive")
	}
}
