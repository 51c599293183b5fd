package interp

import (
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// recorder follows one packet through one half of the program.
type recorder struct {
	t      *Traces
	s      *Switch
	data   []byte // with TraceSlack bytes behind
	values []value
	slots  []int32 // the value in each of the program's slots, -1: unknown
	fixed  []bool  // slots that hold constants of the program
	follow bool    // on a path that has been recorded, at pc
	pc     uint32
	regs   int    // next register
	bad    string // why this path cannot be traced

	steps   int
	exit    bool
	pos     int     // of the parser
	hdrAt   []int32 // where each header lies in the packet, -1: it does not
	effects []traceEffect
	written map[int]bool // register arrays
}

func (t *Traces) newRecorder(s *Switch, data []byte, at uint32) *recorder {
	r := &recorder{t: t, s: s, data: data, written: map[int]bool{}}
	r.slots = make([]int32, t.p.Slots)
	r.fixed = make([]bool, t.p.Slots)
	for i := range r.slots {
		r.slots[i] = -1
	}
	r.values = append(r.values, value{}) // 0 is the constant 0
	r.slots[program.SlotZero] = 0
	for _, c := range t.p.Constants {
		r.slots[c.Slot] = r.constant(c.Value)
		r.fixed[c.Slot] = true
	}
	r.regs = t.p.Slots + maxTraceConsts
	r.pc, r.follow = at, at != 0
	r.hdrAt = make([]int32, len(t.p.Headers))
	for i := range r.hdrAt {
		r.hdrAt[i] = -1
	}
	return r
}

// unfit ends the recording: this path cannot be traced.
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

// recordIngress records the path that a packet will take through ingress.
func (t *Traces) recordIngress(s *Switch, data []byte, _ *Held) {
	if !t.open() {
		return
	}
	if t.root == 0 {
		defer func(at int) { t.root = uint32(at) }(len(t.code))
	}
	r := t.newRecorder(s, data, t.root)
	p := t.p
	for i := p.PHVLo; i < p.PHVHi; i++ {
		r.slots[i] = 0
	}
	std := &p.Standard
	r.set(std.IngressPort, r.input(traceInput, inIngressPort, std.IngressPort.Mask))
	r.set(std.PacketLength, r.input(traceInput, inLength, std.PacketLength.Mask))
	r.set(std.IngressTS, r.input(traceInputUs, inIngressTS, std.IngressTS.Mask))
	leaf := traceLeaf{}
	if r.parse(); r.bad == "" {
		r.set(std.ParserError, r.constant(p.Errors.None&std.ParserError.Mask))
		r.run(p.Ingress)
	}
	if r.bad == "" {
		r.leaveIngress(&leaf)
	}
	r.end(leaf)
}

// set puts a value into a field of standard metadata.
func (r *recorder) set(f program.StdSlot, id int32) { r.slots[f.Slot] = id }

func (r *recorder) std(f program.StdSlot) int32 {
	if !f.Has {
		return 0
	}
	return r.get(f.Slot)
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
	p, std := r.t.p, &r.t.p.Standard
	group := r.std(std.Multicast)
	if r.decide(traceNZ, r.c(group) != 0, group, 0) {
		r.unfit("multicast")
		return
	}
	port := r.std(std.EgressSpec)
	drop := r.constant(r.s.dropSpec)
	if r.decide(traceEq, r.c(port) == r.s.dropSpec, port, drop) {
		l.drop = true
		return
	}
	prio, queues := r.std(std.Priority), r.constant(uint64(r.s.cfg.QueuesPerPort))
	if r.decide(traceGeU, r.c(prio) >= uint64(r.s.cfg.QueuesPerPort), prio, queues) {
		r.unfit("priority without a queue")
		return
	}
	high := r.constant(1 << 16)
	if r.decide(traceGeU, r.c(port) >= 1<<16, port, high) {
		r.unfit("egress port above 65535")
		return
	}
	l.port, l.prio = r.inRegister(port), r.inRegister(prio)
	r.slots[std.InstanceType.Slot] = r.constant(instanceNormal)

	if r.writeBack(l, true); r.bad != "" {
		return
	}
	l.end = make([]endSlot, p.PHVHi-p.PHVLo)
	for slot := p.PHVLo; slot < p.PHVHi; slot++ {
		x := &r.values[r.slots[slot]]
		l.end[slot-p.PHVLo] = endSlot{kind: x.kind, c: x.c, parts: x.parts}
		if x.kind == valueHeld {
			l.end[slot-p.PHVLo].c = uint64(x.index)
		}
	}
	l.hdrAt, l.pos = r.hdrAt, r.pos
}

// save makes Held take a value along.
func (r *recorder) save(l *traceLeaf, id int32) int {
	reg := r.inRegister(id)
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

// recordEgress records the path through egress from the end of an ingress path.
func (t *Traces) recordEgress(s *Switch, from int32, data []byte, h *Held) {
	if !t.open() {
		return
	}
	begin := &t.leaves[from]
	if begin.egress == 0 {
		defer func(at int) { t.leaves[from].egress = uint32(at) }(len(t.code))
	}
	r := t.newRecorder(s, data, begin.egress)
	p, std := t.p, &t.p.Standard
	for i := range begin.end {
		e := &begin.end[i]
		slot := p.PHVLo + uint32(i)
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
	r.set(std.EgressTS, r.input(traceInputUs, inEgressTS, std.EgressTS.Mask))
	r.set(std.EnqTS, r.input(traceInputUs, inEnqTS, std.EnqTS.Mask))
	r.set(std.EnqDepth, r.input(traceInput, inEnqDepth, std.EnqDepth.Mask))
	r.set(std.DeqDelta, r.input(traceInput, inDeqDelta, std.DeqDelta.Mask))
	r.set(std.DeqDepth, r.input(traceInput, inDeqDepth, std.DeqDepth.Mask))
	r.set(std.QueueID, r.input(traceInput, inQid, std.QueueID.Mask))
	r.set(std.EgressPort, r.input(traceInput, inEgressPort, std.EgressPort.Mask))
	r.set(std.EgressSpec, r.constant((s.dropSpec+1)&std.EgressSpec.Mask))
	r.set(std.PacketLength, r.input(traceInput, inLength, std.PacketLength.Mask))
	leaf := traceLeaf{}
	if r.run(p.Egress); r.bad == "" {
		r.leaveEgress(&leaf)
	}
	r.end(leaf)
}

func (r *recorder) leaveEgress(l *traceLeaf) {
	p, s := r.t.p, r.s
	port, drop := r.std(p.Standard.EgressSpec), r.constant(s.dropSpec)
	if r.decide(traceEq, r.c(port) == s.dropSpec, port, drop) {
		l.drop = true
		return
	}
	for i := range p.Checksums {
		if k := &p.Checksums[i]; k.Update && !k.Bytes && r.applies(k) {
			r.unfit("a checksum over more than its header")
			return
		}
	}
	// The packet must leave with the headers it came with, where they were.
	at := 0
	var sums []*program.DeparseStep
	for i := range p.Deparser {
		d := &p.Deparser[i]
		valid := r.get(d.Valid)
		if r.decide(traceZ, r.c(valid) == 0, valid, 0) {
			continue
		}
		if r.bad != "" || p.Headers[d.ID].Meta || int(r.hdrAt[d.ID]) != at {
			r.unfit("headers that come, go or move")
			return
		}
		at += d.Bytes
		if d.Sum != nil && r.applies(d.Sum) {
			sums = append(sums, d)
		}
	}
	if at != r.pos {
		r.unfit("headers that go")
		return
	}
	r.writeBack(l, false)
	for _, d := range sums {
		from := int(r.hdrAt[d.ID])
		l.sums = append(l.sums, traceSumming{from, from + d.Bytes, d.Sum.At})
	}
}

// applies runs a checksum's condition.
func (r *recorder) applies(k *program.Checksum) bool {
	if k.Cond != 0 {
		exit := r.exit
		r.run(k.Cond)
		r.exit = exit
	}
	id := r.get(k.Slot)
	return r.decide(traceNZ, r.c(id) != 0, id, 0)
}

// writeBack notes what is to be written to the packet: what the program changed
// in the headers that came with it. With keep, it saves what else egress reads.
func (r *recorder) writeBack(l *traceLeaf, keep bool) {
	p := r.t.p
	type store struct {
		slot  uint32
		parts []program.Part
	}
	var stores []store
	for id := range r.hdrAt {
		h := &p.Headers[id]
		if r.hdrAt[id] < 0 {
			continue
		}
		valid := r.get(h.ValidSlot())
		if !r.isConst(valid) {
			r.unfit("a header whose validity is computed")
			return
		}
		if r.c(valid) == 0 {
			continue
		}
		e := &p.Extractions[id]
		off := 0
		for i := range h.Type.Fields {
			f := &h.Type.Fields[i]
			ps := program.Parts(h.Base+f.Offset, off, f.Width)
			off += f.Width
			if e.Raw != 0 && (e.Patches[i] == nil || r.c(r.get(e.Dirty))>>i&1 == 0) {
				continue
			}
			for _, one := range bySlot(ps, r.hdrAt[id]) {
				if x := &r.values[r.get(one[0].Slot)]; x.kind == valueField && sameParts(x.parts, one) {
					continue
				}
				stores = append(stores, store{one[0].Slot, one})
			}
		}
	}
	// All that is to be written is computed first: it may come from bytes that
	// are overwritten.
	regs := make([]traceSlot, len(stores))
	for i, st := range stores {
		regs[i] = r.inRegister(r.get(st.slot))
	}
	if keep {
		stored := map[uint32]bool{}
		for _, st := range stores {
			stored[st.slot] = true
		}
		for slot := p.PHVLo; slot < p.PHVHi; slot++ {
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
func apart(a, b []program.Part) bool {
	for i := range a {
		for k := range b {
			x, y := a[i].Mask<<(a[i].Shift&63), b[k].Mask<<(b[k].Shift&63)
			switch d := (int(b[k].Byte) - int(a[i].Byte)) * 8; {
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
func bySlot(ps []program.Part, at int32) [][]program.Part {
	var out [][]program.Part
	for _, p := range ps {
		p.Byte += uint16(at)
		if k := len(out); k > 0 && out[k-1][0].Slot == p.Slot {
			out[k-1] = append(out[k-1], p)
		} else {
			out = append(out, []program.Part{p})
		}
	}
	return out
}

func sameParts(a, b []program.Part) bool {
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
	t.leaves = append(t.leaves, l)
}
