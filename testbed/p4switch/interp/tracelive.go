package interp

// egressReads tells for every slot whether the egress pipeline, or what follows
// it, may read it before writing it: nothing else of a packet needs to be kept
// while it waits in its queue. Slots that are written first may be among them.
func (p *Program) egressReads() []bool {
	w := &liveWalk{p: p, live: make([]bool, p.slots), seen: make([]bool, len(p.code))}
	w.code(p.egress)
	for i := range p.checks {
		k := &p.checks[i]
		if k.cond != 0 {
			w.code(k.cond)
		}
		w.read(k.slot, 1)
		w.read(k.field.guard(), 1)
		w.calc(k.calc)
	}
	for i := range p.deparse {
		d := &p.deparse[i]
		w.read(d.valid, 1)
		w.read(d.raw, 1)
		w.read(d.dirty, 1)
		h := &p.headers[d.id]
		w.read(h.base, uint32(h.typ.size))
	}
	for _, refs := range p.fieldLists {
		for _, r := range refs {
			if w.lists {
				w.read(r.slot(), uint32(r.f.words))
			}
		}
	}
	return w.live
}

type liveWalk struct {
	p     *Program
	live  []bool
	seen  []bool
	lists bool // egress clones or recirculates
}

func (w *liveWalk) read(slot, n uint32) {
	for i := slot; i < slot+n && int(i) < len(w.live); i++ {
		w.live[i] = true
	}
}

func (w *liveWalk) all() { w.read(0, uint32(len(w.live))) }

func (w *liveWalk) calc(id int) {
	ca := &w.p.calcs[id]
	for i := range ca.steps {
		st := &ca.steps[i]
		w.read(st.guard, 1)
		w.read(st.slot, max(uint32(st.words), 1))
		w.read(st.lens, 1)
		if st.kind == emitHeader {
			h := &w.p.headers[st.hdr]
			w.read(h.base, uint32(h.typ.size))
		}
	}
}

// code follows all ways from pc on.
func (w *liveWalk) code(start uint32) {
	p := w.p
	todo := []uint32{start}
	for len(todo) > 0 {
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for int(pc) < len(p.code) && !w.seen[pc] {
			w.seen[pc] = true
			in := &p.code[pc]
			pc++
			op := in.op
			switch {
			case op == opHalt, op == opRet: // where it returns to is followed from the call
				pc = uint32(len(p.code))
			case op >= opMov && op <= opSel:
				w.read(in.a, 1)
				w.read(in.b, 1)
				if op == opSel {
					w.read(uint32(in.imm), 1)
				}
			case op == opJmp, op == opBack:
				pc = uint32(in.imm)
			case op >= opJz && op <= opJGtU, op == opJzBack:
				w.read(in.a, 1)
				w.read(in.b, 1)
				todo = append(todo, uint32(in.imm))
			case op == opCheckExit, op == opExit, op == opSetInvalid, op == opSetValid:
			case op == opDrop, op == opDirty:
			case op == opCallAction:
				todo = append(todo, uint32(in.imm))
				pc = in.a
			case op == opTable:
				pc = w.table(int(in.imm), &todo)
			case op == opCount:
				w.read(in.a, 1)
			case op == opRegRead:
				w.read(in.a, 1)
				w.read(in.dst, uint32(in.n)) // it stays when the index is out of range
			case op == opRegWrite:
				w.read(in.a, 1)
				w.read(in.dst, uint32(in.n))
			case op >= opWMov:
				w.wide(in)
			case op == opCall:
				w.call(&p.calls[in.imm])
			default:
				w.all()
			}
		}
	}
}

// wide notes what an operation on several words reads.
func (w *liveWalk) wide(in *inst) {
	n := uint32(in.n)
	switch in.op {
	case opWZext, opWSext:
		w.read(in.a, in.b)
	case opWMov, opWNot, opWNonZ, opWMask, opWSextAt, opWSat, opWSatS, opWCount:
		w.read(in.a, n)
	case opWShl, opWShr, opWSar:
		w.read(in.a, n)
		w.read(in.b, 1)
	case opWSel:
		w.read(in.a, 1)
		w.read(in.b, n)
		w.read(uint32(in.imm), n)
	case opWAdd, opWSub, opWMul, opWAnd, opWOr, opWXor, opWDiv, opWMod,
		opWEq, opWNe, opWLtU, opWLeU, opWLtS, opWLeS:
		w.read(in.a, n)
		w.read(in.b, n)
	default:
		w.all()
	}
}

func (w *liveWalk) table(id int, todo *[]uint32) uint32 {
	t := &w.p.tables[id]
	for i := range t.key {
		w.read(t.key[i].slot, max(uint32(t.key[i].words), 1))
		w.read(t.key[i].guard, 1)
	}
	if t.info.Profile >= 0 {
		if c := w.p.profiles[t.info.Profile].calc; c >= 0 {
			w.calc(c)
		}
	}
	for i := range t.acts {
		a := &t.acts[i]
		*todo = append(*todo, a.pc, uint32(a.hit), uint32(a.def))
	}
	return uint32(t.missPC)
}

func (w *liveWalk) call(k *call) {
	switch k.kind {
	case callHash:
		w.calc(k.id)
		w.read(k.a, 1)
		w.read(k.b, 1)
	case callRandom, callMeter, callDigest, callTruncate, callAssert, callAssume:
		w.read(k.a, 1)
		w.read(k.b, 1)
	case callClone, callRecirculate, callResubmit:
		w.read(k.a, 1)
		w.read(k.b, 1)
		w.lists = true
	case callLog:
		for _, a := range k.list {
			w.read(a.slot, uint32(a.words))
		}
	case callAddHeader, callRemoveHeader, callAssignHeader:
		w.read(k.a, 1)
		w.read(k.b, 1)
		for i := range w.p.headers {
			if h := &w.p.headers[i]; !h.meta {
				w.read(h.base, uint32(h.typ.size))
			}
		}
	default:
		w.all()
	}
}
