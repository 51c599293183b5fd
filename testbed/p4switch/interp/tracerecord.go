package interp

// recorder follows one packet through one half of the program.
type recorder struct {
	t      *Traces
	s      *Switch
	data   []byte // with TraceSlack bytes behind
	values []value
	slots  []int32 // the value in each of the program's slots, -1: unknown
	fixed  []bool  // slots that hold constants of the program
	follow bool    // on a way that has been recorded, at pc
	pc     uint32
	regs   uint32 // next register
	bad    string // why this way cannot be traced

	steps   int
	exit    bool
	pos     int     // of the parser
	hdrAt   []int32 // where each header lies in the packet, -1: it does not
	effects []traceEffect
	written map[int]bool // register arrays

	egress bool
	path   []top // all instructions of the way, guards as they hold
}

func (t *Traces) newRecorder(s *Switch, data []byte, at uint32) *recorder {
	r := &recorder{t: t, s: s, data: data, written: map[int]bool{}}
	r.slots = make([]int32, t.p.slots)
	r.fixed = make([]bool, t.p.slots)
	for i := range r.slots {
		r.slots[i] = -1
	}
	r.values = append(r.values, value{}) // 0 is the constant 0
	r.slots[slotZero] = 0
	for _, c := range t.p.consts {
		r.slots[c.slot] = r.constant(c.v)
		r.fixed[c.slot] = true
	}
	r.regs = uint32(t.p.slots + maxTraceConsts)
	r.pc, r.follow = at, at != 0
	r.hdrAt = make([]int32, len(t.p.headers))
	for i := range r.hdrAt {
		r.hdrAt[i] = -1
	}
	return r
}

// unfit ends the recording: this way cannot be traced.
func (r *recorder) unfit(why string) {
	if r.bad == "" {
		r.bad = why
	}
}

// open says whether more may be recorded.
func (t *Traces) open() bool {
	if len(t.code) > maxTraceCode || len(t.leaves) >= maxTraceLeaves {
		t.closed = true
	}
	return !t.closed && !t.broken
}

// recordIngress records the way that a packet will take through ingress.
func (t *Traces) recordIngress(s *Switch, data []byte, _ *Held) {
	if !t.open() {
		return
	}
	if t.root == 0 {
		defer func(at int) { t.root = uint32(at) }(len(t.code))
	}
	r := t.newRecorder(s, data, t.root)
	p := t.p
	for i := p.phvLo; i < p.phvHi; i++ {
		r.slots[i] = 0
	}
	std := &p.std
	r.set(std.ingressPort, r.input(traceInput, inIngressPort, std.ingressPort.mask))
	r.set(std.packetLength, r.input(traceInput, inLength, std.packetLength.mask))
	r.set(std.ingressTS, r.input(traceInputUs, inIngressTS, std.ingressTS.mask))
	leaf := traceLeaf{}
	if r.parse(); r.bad == "" {
		r.set(std.parserError, r.constant(p.errs.none&std.parserError.mask))
		r.run(p.ingress)
	}
	if r.bad == "" {
		r.leaveIngress(&leaf)
	}
	r.end(leaf)
}

// set puts a value into a field of standard metadata.
func (r *recorder) set(f stdSlot, id int32) { r.slots[f.slot] = id }

func (r *recorder) std(f stdSlot) int32 {
	if !f.has {
		return 0
	}
	return r.get(f.slot)
}

// decide writes a guard, unless the outcome is the same for all packets.
func (r *recorder) decide(op traceOp, holds bool, a, b int32) bool {
	if !r.isConst(a) || !r.isConst(b) {
		r.truth(op, holds, a, b)
	}
	return holds
}

// leaveIngress writes what follows the ingress pipeline.
func (r *recorder) leaveIngress(l *traceLeaf) {
	p, std := r.t.p, &r.t.p.std
	group := r.std(std.mcast)
	if r.decide(traceNZ, r.c(group) != 0, group, 0) {
		r.unfit("multicast")
		return
	}
	port := r.std(std.egressSpec)
	drop := r.constant(r.s.dropSpec)
	if r.decide(traceEq, r.c(port) == r.s.dropSpec, port, drop) {
		l.drop = true
		return
	}
	prio, queues := r.std(std.priority), r.constant(uint64(r.s.cfg.QueuesPerPort))
	if r.decide(traceGeU, r.c(prio) >= uint64(r.s.cfg.QueuesPerPort), prio, queues) {
		r.unfit("priority without a queue")
		return
	}
	high := r.constant(1 << 16)
	if r.decide(traceGeU, r.c(port) >= 1<<16, port, high) {
		r.unfit("egress port above 65535")
		return
	}
	l.port, l.prio = r.place(port), r.place(prio)
	r.slots[std.instanceType.slot] = r.constant(instanceNormal)

	if r.writeBack(l, true); r.bad != "" {
		return
	}
	l.end = make([]endSlot, p.phvHi-p.phvLo)
	for slot := p.phvLo; slot < p.phvHi; slot++ {
		x := &r.values[r.slots[slot]]
		l.end[slot-p.phvLo] = endSlot{kind: x.kind, c: x.c, parts: x.parts}
		if x.kind == valueHeld {
			l.end[slot-p.phvLo].c = uint64(x.index)
		}
	}
	l.hdrAt, l.pos = r.hdrAt, r.pos
}

// save makes Held take a value along.
func (r *recorder) save(l *traceLeaf, id int32) int {
	reg := r.place(id)
	for i, s := range l.saves {
		if s == reg {
			return i
		}
	}
	if len(l.saves) == len(Held{})-1 {
		r.unfit("too much metadata between the pipelines")
		return 0
	}
	l.saves = append(l.saves, reg)
	return len(l.saves) - 1
}

// recordEgress records the way through egress from the end of an ingress way.
func (t *Traces) recordEgress(s *Switch, from int32, data []byte, h *Held) {
	if !t.open() {
		return
	}
	begin := &t.leaves[from]
	if begin.egress == 0 {
		defer func(at int) { t.leaves[from].egress = uint32(at) }(len(t.code))
	}
	r := t.newRecorder(s, data, begin.egress)
	r.egress = true
	p, std := t.p, &t.p.std
	for i := range begin.end {
		e := &begin.end[i]
		slot := p.phvLo + uint32(i)
		switch e.kind {
		case valueField:
			r.slots[slot] = r.field(e.parts)
		case valueHeld:
			r.slots[slot] = r.newValue(value{kind: valueHeld, index: uint32(e.c), c: h.numbers()[e.c], bits: ^uint64(0)})
		default:
			r.slots[slot] = r.constant(e.c)
		}
	}
	copy(r.hdrAt, begin.hdrAt)
	r.pos = begin.pos
	r.set(std.egressTS, r.input(traceInputUs, inEgressTS, std.egressTS.mask))
	r.set(std.enqTS, r.input(traceInputUs, inEnqTS, std.enqTS.mask))
	r.set(std.enqDepth, r.input(traceInput, inEnqDepth, std.enqDepth.mask))
	r.set(std.deqDelta, r.input(traceInput, inDeqDelta, std.deqDelta.mask))
	r.set(std.deqDepth, r.input(traceInput, inDeqDepth, std.deqDepth.mask))
	r.set(std.qid, r.input(traceInput, inQid, std.qid.mask))
	r.set(std.egressPort, r.input(traceInput, inEgressPort, std.egressPort.mask))
	r.set(std.egressSpec, r.constant((s.dropSpec+1)&std.egressSpec.mask))
	r.set(std.packetLength, r.input(traceInput, inLength, std.packetLength.mask))
	leaf := traceLeaf{}
	if r.run(p.egress); r.bad == "" {
		r.leaveEgress(&leaf)
	}
	r.end(leaf)
}

func (r *recorder) leaveEgress(l *traceLeaf) {
	p, s := r.t.p, r.s
	port, drop := r.std(p.std.egressSpec), r.constant(s.dropSpec)
	if r.decide(traceEq, r.c(port) == s.dropSpec, port, drop) {
		l.drop = true
		return
	}
	for i := range p.checks {
		if k := &p.checks[i]; k.update && !k.bytes && r.applies(k) {
			r.unfit("a checksum over more than its header")
			return
		}
	}
	// The packet must leave with the headers it came with, where they were.
	at := 0
	var sums []*deparseStep
	for i := range p.deparse {
		d := &p.deparse[i]
		valid := r.get(d.valid)
		if r.decide(traceZ, r.c(valid) == 0, valid, 0) {
			continue
		}
		if r.bad != "" || p.headers[d.id].meta || int(r.hdrAt[d.id]) != at {
			r.unfit("headers that come, go or move")
			return
		}
		at += d.bytes
		if d.sum != nil && r.applies(d.sum) {
			sums = append(sums, d)
		}
	}
	if at != r.pos {
		r.unfit("headers that go")
		return
	}
	r.writeBack(l, false)
	for _, d := range sums {
		from := int(r.hdrAt[d.id])
		l.sums = append(l.sums, traceSumming{from, from + d.bytes, d.sum.at})
	}
}

// applies runs a checksum's condition.
func (r *recorder) applies(k *checksum) bool {
	if k.cond != 0 {
		exit := r.exit
		r.run(k.cond)
		r.exit = exit
	}
	id := r.get(k.slot)
	return r.decide(traceNZ, r.c(id) != 0, id, 0)
}

// writeBack notes what is to be written to the packet: what the program changed
// in the headers that came with it. With keep, it saves what else egress reads.
func (r *recorder) writeBack(l *traceLeaf, keep bool) {
	p := r.t.p
	type store struct {
		slot  uint32
		parts []part
	}
	var stores []store
	for id := range r.hdrAt {
		h := &p.headers[id]
		if r.hdrAt[id] < 0 {
			continue
		}
		valid := r.get(h.validSlot())
		if !r.isConst(valid) {
			r.unfit("a header whose validity is computed")
			return
		}
		if r.c(valid) == 0 {
			continue
		}
		e := &p.extracts[id]
		off := 0
		for i := range h.typ.fields {
			f := &h.typ.fields[i]
			ps := parts(h.base+f.off, off, f.width)
			off += f.width
			if e.raw != 0 && (e.patches[i] == nil || r.c(r.get(e.dirty))>>i&1 == 0) {
				continue
			}
			for _, one := range bySlot(ps, r.hdrAt[id]) {
				if x := &r.values[r.get(one[0].slot)]; x.kind == valueField && sameParts(x.parts, one) {
					continue
				}
				stores = append(stores, store{one[0].slot, one})
			}
		}
	}
	// All that is to be written is computed first: it may come from bytes that
	// are overwritten.
	regs := make([]uint32, len(stores))
	for i, st := range stores {
		regs[i] = r.place(r.get(st.slot))
	}
	if keep {
		stored := map[uint32]bool{}
		for _, st := range stores {
			stored[st.slot] = true
		}
		for slot := p.phvLo; slot < p.phvHi; slot++ {
			if stored[slot] {
				continue
			}
			id := r.slots[slot]
			x := &r.values[id]
			clean := x.kind == valueField
			for _, st := range stores {
				clean = clean && apart(x.parts, st.parts)
			}
			switch {
			case x.kind == valueConst || clean:
			case r.t.live[slot]:
				k := r.save(l, id)
				r.slots[slot] = r.newValue(value{kind: valueHeld, index: uint32(k)})
			default:
				r.slots[slot] = 0 // nobody reads it
			}
		}
		if r.bad != "" {
			return
		}
	}
	for k, st := range stores {
		for _, w := range st.parts {
			l.stores = append(l.stores, traceStoring{w, regs[k]})
		}
		r.slots[st.slot] = r.newValue(value{kind: valueField, parts: st.parts, c: r.t.v[regs[k]]})
	}
}

// apart reports whether two fields have no bit in common.
func apart(a, b []part) bool {
	for i := range a {
		for k := range b {
			x, y := a[i].mask<<(a[i].shift&63), b[k].mask<<(b[k].shift&63)
			switch d := (int(b[k].byte) - int(a[i].byte)) * 8; {
			case d >= 64 || d <= -64:
				continue
			case d >= 0:
				y >>= uint(d)
			default:
				y <<= uint(-d)
			}
			if x&y != 0 {
				return false
			}
		}
	}
	return true
}

// bySlot splits the parts of a field by the slot they fill, and says where they
// are in the packet.
func bySlot(ps []part, at int32) [][]part {
	var out [][]part
	for _, p := range ps {
		p.byte += uint16(at)
		if k := len(out); k > 0 && out[k-1][0].slot == p.slot {
			out[k-1] = append(out[k-1], p)
		} else {
			out = append(out, []part{p})
		}
	}
	return out
}

func sameParts(a, b []part) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// end writes the end of a trace.
func (r *recorder) end(l traceLeaf) {
	t := r.t
	if r.bad != "" {
		t.stats.Unfit[r.bad]++
		if !r.follow {
			t.code = append(t.code, top{op: traceUnfit})
		}
		return
	}
	if r.follow { // the packet would have gone this way: it is recorded to its end
		t.broken = true
		return
	}
	l.effects = r.effects
	t.code = append(t.code, top{op: traceLeafOp, imm: uint64(len(t.leaves))})
	t.ways = append(t.ways, r.remember(&l))
	t.leaves = append(t.leaves, l)
}
