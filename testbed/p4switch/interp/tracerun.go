package interp

// parse follows the packet through the parser.
func (r *recorder) parse() {
	pr := &r.t.p.parser
	for st := pr.init; st >= 0 && r.bad == ""; {
		state := &pr.states[st]
		for i := range state.ops {
			op := &state.ops[i]
			switch {
			case op.kind == parseExtract && !op.sized && op.pc == 0:
				r.extract(op.id)
			case op.kind == parseRun:
				r.run(op.pc)
			default:
				r.unfit("a parser operation")
			}
			if r.bad != "" {
				return
			}
		}
		if r.steps++; r.steps > maxTracePath {
			r.unfit("a long way")
			return
		}
		if state.words == 0 {
			st = state.next
			continue
		}
		st = r.selectNext(state)
	}
}

func (r *recorder) extract(hid int) {
	e := &r.t.p.extracts[hid]
	if e.varbit || e.union {
		r.unfit("a varbit or a union")
		return
	}
	need := top{op: traceLen, imm: uint64(r.pos + e.bytes)}
	if len(r.data)-TraceSlack < r.pos+e.bytes {
		need.op = traceShort
		r.guard(need)
		r.unfit("a packet that is too short")
		return
	}
	r.guard(need)
	for _, ps := range bySlot(e.fields, int32(r.pos)) {
		r.slots[ps[0].slot] = r.field(ps)
	}
	if e.raw != 0 {
		r.slots[e.raw], r.slots[e.dirty] = r.constant(uint64(headroom+r.pos)+1), 0
	}
	r.hdrAt[hid] = int32(r.pos)
	r.pos += e.bytes
	r.slots[e.valid] = r.constant(1)
}

// selectNext writes the guards of the select that lead to the next state.
func (r *recorder) selectNext(state *parseState) int32 {
	if state.words != 1 {
		r.unfit("a select of more than 64 bits")
		return -1
	}
	if state.keyPC != 0 {
		r.run(state.keyPC)
	}
	key := int32(0)
	for i := range state.key {
		k := &state.key[i]
		if k.lookahead {
			r.unfit("a lookahead")
			return -1
		}
		key = r.or(key, r.get(k.slot), k.shift)
	}
	x := r.c(key)
	for i := range state.cases {
		c := &state.cases[i]
		if c.vset >= 0 {
			r.unfit("a value set")
			return -1
		}
		hit := x&c.mask[0] == c.val[0]
		if !r.isConst(key) {
			in := top{op: traceBits, imm: c.mask[0], imm2: c.val[0]}
			if !hit {
				in.op = traceNoBits
			}
			in.a = r.place(key)
			r.guard(in)
		}
		if hit {
			return c.next
		}
	}
	return state.next
}

// or is key | piece << shift.
func (r *recorder) or(key, piece int32, shift uint8) int32 {
	if shift != 0 {
		piece = r.arith(opShl, ^uint64(0), piece, r.constant(uint64(shift)))
	}
	if key == 0 {
		return piece
	}
	return r.arith(opOr, ^uint64(0), key, piece)
}

// run follows the packet through code, as Switch.run executes it.
func (r *recorder) run(start uint32) {
	p := r.t.p
	pc, ret := int(start), 0
	for r.bad == "" {
		if r.steps++; r.steps > maxTracePath {
			r.unfit("a long way")
			return
		}
		in := &p.code[pc]
		pc++
		switch {
		case in.op == opHalt:
			return
		case in.op == opRet:
			if r.exit {
				return
			}
			pc = ret
		case in.op >= opMov && in.op <= opSel:
			r.pure(in)
		case in.op == opJmp || in.op == opBack:
			pc = int(in.imm)
		case in.op >= opJz && in.op <= opJGtU || in.op == opJzBack:
			if r.jumps(in) {
				pc = int(in.imm)
			}
		case in.op == opCheckExit:
			if r.exit {
				return
			}
		case in.op == opExit:
			r.exit = true
		case in.op == opCallAction:
			pc, ret = int(in.a), int(in.imm)
		case in.op == opTable:
			act, next := r.table(int(in.imm))
			if act != 0 {
				pc, ret = int(act), int(next)
			} else {
				pc = int(next)
			}
		default:
			r.other(in)
		}
	}
}

// pure follows an operation on single words.
func (r *recorder) pure(in *inst) {
	switch in.op {
	case opMov, opNot, opNonZ, opIsZ, opSext, opMinU, opClampS, opClampB:
		r.slots[in.dst] = r.arith(in.op, in.imm, r.get(in.a))
	case opSel:
		r.slots[in.dst] = r.arith(in.op, 0, r.get(in.a), r.get(in.b), r.get(uint32(in.imm)))
	default:
		r.slots[in.dst] = r.arith(in.op, in.imm, r.get(in.a), r.get(in.b))
	}
}

// jumps follows a conditional jump and reports whether it is taken.
func (r *recorder) jumps(in *inst) bool {
	a, b := r.get(in.a), int32(0)
	if in.op >= opJEq && in.op <= opJGtU {
		b = r.get(in.b)
	}
	x, y := r.c(a), r.c(b)
	switch in.op {
	case opJz, opJzBack:
		return r.decide(traceZ, x == 0, a, 0)
	case opJnz:
		return r.decide(traceNZ, x != 0, a, 0)
	case opJEq:
		return r.decide(traceEq, x == y, a, b)
	case opJNe:
		return r.decide(traceNe, x != y, a, b)
	case opJLtU:
		return r.decide(traceLtU, x < y, a, b)
	case opJGeU:
		return r.decide(traceGeU, x >= y, a, b)
	case opJLeU:
		return r.decide(traceLeU, x <= y, a, b)
	case opJGtU:
		return r.decide(traceGtU, x > y, a, b)
	}
	r.unfit("a jump")
	return false
}

// table follows the application of a table.
func (r *recorder) table(id int) (act, next uint32) {
	t := r.t
	ts := &r.s.tables[id]
	tab := ts.t
	if tab.meterTo.f != nil {
		r.unfit("a direct meter")
		return 0, 0
	}
	if tab.info.Profile >= 0 {
		if calc := t.p.profiles[tab.info.Profile].calc; calc >= 0 {
			r.inputsOf(calc)
		}
	}
	key := traceKey{base: make([]uint64, tab.words)}
	for i := range tab.key {
		k := &tab.key[i]
		guard := r.get(k.guard)
		if !r.isConst(guard) {
			r.unfit("a table key from a header whose validity is computed")
			return 0, 0
		}
		if r.c(guard) == 0 {
			continue
		}
		for w := range max(k.words, 1) {
			shift := k.shift
			if k.words > 1 {
				shift = 0
			}
			x := r.get(k.slot + uint32(w))
			if r.isConst(x) {
				key.base[k.word+w] |= r.c(x) << (shift & 63)
				continue
			}
			key.pieces = append(key.pieces, tracePiece{r.place(x), k.word + w, shift})
		}
	}
	if r.bad != "" {
		return 0, 0
	}
	if !r.follow {
		t.keys = append(t.keys, key)
	}
	reg := r.emitTo(top{op: traceTable, a: uint32(id), imm: uint64(len(t.keys) - 1)}, 1+tab.argMax)
	hit := t.find(r.s, ts, &key)
	t.outcome(r.s, ts, hit)
	t.v[reg] = uint64(hit + 1)
	copy(t.v[reg+1:], t.args)
	act, next = t.act, t.next
	words := min(len(t.args), tab.argMax)
	r.guard(top{op: traceTook, a: act, b: next})
	for i := range words {
		r.slots[t.p.args+uint32(i)] = r.made(reg+1+uint32(i), ^uint64(0))
	}
	if tab.timeout {
		r.effects = append(r.effects, traceEffect{kind: effectHit, id: id, a: reg})
	}
	if tab.info.HasDirectCounter {
		r.effects = append(r.effects, traceEffect{kind: effectDirect, id: id, a: reg})
	}
	return act, next
}

// inputsOf puts what a calculation reads where it reads it.
func (r *recorder) inputsOf(calc int) {
	ca := &r.t.p.calcs[calc]
	if ca.payload || ca.algo.kind == hashRoundRobin {
		r.unfit("a hash over the payload, or round robin")
		return
	}
	for i := range ca.steps {
		st := &ca.steps[i]
		switch st.kind {
		case emitField, emitWide:
			r.natural(st.guard)
			for w := range max(uint32(st.words), 1) {
				r.natural(st.slot + w)
			}
		case emitHeader:
			h := &r.t.p.headers[st.hdr]
			if !h.meta {
				r.natural(h.validSlot())
			}
			for _, e := range r.t.p.emits[st.hdr] {
				for w := range max(uint32(e.words), 1) {
					r.natural(e.slot + w)
				}
				if e.kind == emitVar {
					r.unfit("a hash over a varbit")
				}
			}
		default:
			r.unfit("a hash over a varbit")
		}
	}
}

// other follows the remaining instructions.
func (r *recorder) other(in *inst) {
	t := r.t
	switch in.op {
	case opSetValid:
		h := &t.p.headers[in.imm]
		if h.union >= 0 {
			r.unfit("a union")
			return
		}
		r.slots[h.validSlot()] = r.constant(1)
	case opSetInvalid:
		r.slots[t.p.headers[in.imm].validSlot()] = 0
	case opDirty:
		r.slots[in.dst] = r.arith(opOr, ^uint64(0), r.get(in.dst), r.constant(in.imm))
	case opDrop:
		r.slots[in.dst] = r.constant(r.s.dropSpec)
		if in.a != slotZero {
			r.slots[in.a] = 0
		}
	case opCount:
		r.effects = append(r.effects, traceEffect{kind: effectCount, id: int(in.imm), a: r.place(r.get(in.a))})
	case opRegRead:
		r.registerRead(in)
	case opRegWrite:
		if in.n != 1 || t.p.registers[in.imm].Width > 64 {
			r.unfit("a register of more than 64 bits")
			return
		}
		r.written[int(in.imm)] = true
		r.effects = append(r.effects, traceEffect{
			kind: effectWrite, id: int(in.imm), a: r.place(r.get(in.a)), b: r.place(r.get(in.dst)),
		})
	case opWMov:
		ids := make([]int32, in.n)
		for i := range ids {
			ids[i] = r.get(in.a + uint32(i))
		}
		copy(r.slots[in.dst:], ids)
	case opCall:
		r.call(&t.p.calls[in.imm])
	default:
		r.unfit("an instruction")
	}
}

func (r *recorder) registerRead(in *inst) {
	t := r.t
	if in.n != 1 || t.p.registers[in.imm].Width > 64 {
		r.unfit("a register of more than 64 bits")
		return
	}
	if r.written[int(in.imm)] {
		r.unfit("a register read after it is written")
		return
	}
	index := r.get(in.a)
	size := r.constant(uint64(t.p.registers[in.imm].Size))
	if !r.decide(traceLtU, r.c(index) < r.c(size), index, size) {
		return // out of range: the destination stays as it is
	}
	x := value{kind: valueOp, op: traceRead, imm: in.imm, index: in.b, n: 1, bits: maskOf(int(in.b))}
	x.args[0] = index
	var c [1]uint64
	r.s.registers[in.imm].read(c[:], r.c(index), int(in.b))
	x.c = c[0]
	r.slots[in.dst] = r.newValue(x)
}

func (r *recorder) call(k *call) {
	t := r.t
	switch k.kind {
	case callHash:
		r.inputsOf(k.id)
		base, size := r.place(r.get(k.a)), r.place(r.get(k.b))
		reg := r.emitTo(top{op: traceHash, a: base, b: size, imm: uint64(k.id)}, 1)
		if r.bad != "" {
			return
		}
		t.v[reg] = r.s.calculate(&t.pkt, k.id)%max(t.v[size], 1) + t.v[base]
		r.slots[k.dst] = r.made(reg, ^uint64(0))
	case callRandom:
		lo, hi := r.get(k.a), r.get(k.b)
		if !r.decide(traceLeU, r.c(lo) <= r.c(hi), lo, hi) {
			return
		}
		a, b := r.place(lo), r.place(hi)
		reg := r.emitTo(top{op: traceRandom, a: a, b: b}, 1)
		t.v[reg] = t.v[a] + r.s.random(t.v[b]-t.v[a])
		r.slots[k.dst] = r.made(reg, ^uint64(0))
	case callLog: // traces are only for switches without a log
	default:
		r.unfit("a primitive")
	}
}
