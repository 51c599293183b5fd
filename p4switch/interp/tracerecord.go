package interp

import (
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// traceRecorder records the path of one packet through ingress or egress as a trace.
type traceRecorder struct {
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

func (t *Traces) newRecorder(s *Switch, data []byte, at uint32) *traceRecorder {
	r := &traceRecorder{t: t, s: s, data: data, written: map[int]bool{}}
	r.slots = make([]int32, t.p.Slots)
	r.fixed = make([]bool, t.p.Slots)
	for i := range r.slots {
		r.slots[i] = -1
	}
	r.values = append(r.values, value{}) // 0 is the constant 0
	r.slots[program.SlotZero] = 0
	for _, c := range t.p.Constants {
		r.slots[c.Slot] = r.constantValue(c.Value)
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

// abandon ends the recording: this path cannot be traced.
func (r *traceRecorder) abandon(why string) {
	if r.bad == "" {
		r.bad = why
	}
}

// mayRecord reports whether more traces may be recorded.
func (t *Traces) mayRecord() bool {
	if len(t.code) > maxTraceCode || len(t.leaves) >= maxTraceLeaves {
		t.full = true
	}
	return !t.full && !t.broken
}

// recordIngress records the path that a packet will take through ingress.
func (t *Traces) recordIngress(s *Switch, data []byte, _ *HeldPacket) {
	if !t.mayRecord() {
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
	r.setStandard(std.IngressPort, r.inputValue(traceInput, inIngressPort, std.IngressPort.Mask))
	r.setStandard(std.PacketLength, r.inputValue(traceInput, inLength, std.PacketLength.Mask))
	r.setStandard(std.IngressTS, r.inputValue(traceInputUs, inIngressTS, std.IngressTS.Mask))
	leaf := traceLeaf{}
	if r.recordParser(); r.bad == "" {
		r.setStandard(std.ParserError, r.constantValue(p.Errors.None&std.ParserError.Mask))
		r.recordCode(p.Ingress)
	}
	if r.bad == "" {
		r.recordIngressEnd(&leaf)
	}
	r.endTrace(leaf)
}

// setStandard puts a value into a field of standard metadata.
func (r *traceRecorder) setStandard(f program.StdSlot, id int32) { r.slots[f.Slot] = id }

func (r *traceRecorder) standardField(f program.StdSlot) int32 {
	if !f.Has {
		return 0
	}
	return r.slotValue(f.Slot)
}

// guardOutcome records a guard on a condition, unless the condition is the same for all packets.
func (r *traceRecorder) guardOutcome(op traceOp, holds bool, a, b int32) bool {
	if !r.isConst(a) || !r.isConst(b) {
		r.guardCondition(op, holds, a, b)
	}
	return holds
}

// recordIngressEnd writes what follows the ingress pipeline.
func (r *traceRecorder) recordIngressEnd(l *traceLeaf) {
	p, std := r.t.p, &r.t.p.Standard
	group := r.standardField(std.Multicast)
	if r.guardOutcome(traceNonZero, r.valueOf(group) != 0, group, 0) {
		r.abandon("multicast")
		return
	}
	port := r.standardField(std.EgressSpec)
	drop := r.constantValue(r.s.dropSpec)
	if r.guardOutcome(traceEq, r.valueOf(port) == r.s.dropSpec, port, drop) {
		l.drop = true
		return
	}
	prio, queues := r.standardField(std.Priority), r.constantValue(uint64(r.s.cfg.QueuesPerPort))
	if r.guardOutcome(traceGeU, r.valueOf(prio) >= uint64(r.s.cfg.QueuesPerPort), prio, queues) {
		r.abandon("priority without a queue")
		return
	}
	high := r.constantValue(1 << 16)
	if r.guardOutcome(traceGeU, r.valueOf(port) >= 1<<16, port, high) {
		r.abandon("egress port above 65535")
		return
	}
	l.port, l.prio = r.inRegister(port), r.inRegister(prio)
	r.slots[std.InstanceType.Slot] = r.constantValue(instanceNormal)

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

// keepValue makes [HeldPacket] keep a value until egress.
func (r *traceRecorder) keepValue(l *traceLeaf, id int32) int {
	reg := r.inRegister(id)
	for i, s := range l.saves {
		if s == reg {
			return i
		}
	}
	if len(l.saves) == len(HeldPacket{})-1 {
		r.abandon("too much metadata between the pipelines")
		return 0
	}
	l.saves = append(l.saves, reg)
	return len(l.saves) - 1
}

// recordEgress records the path through egress from the end of an ingress path.
func (t *Traces) recordEgress(s *Switch, from int32, data []byte, h *HeldPacket) {
	if !t.mayRecord() {
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
			r.slots[slot] = r.fieldValue(e.parts)
		case valueHeld:
			r.slots[slot] = r.newValue(value{kind: valueHeld, index: uint32(e.c), c: h.values()[e.c], bits: ^uint64(0)})
		default:
			r.slots[slot] = r.constantValue(e.c)
		}
	}
	copy(r.hdrAt, begin.hdrAt)
	r.pos = begin.pos
	r.setStandard(std.EgressTS, r.inputValue(traceInputUs, inEgressTS, std.EgressTS.Mask))
	r.setStandard(std.EnqTS, r.inputValue(traceInputUs, inEnqTS, std.EnqTS.Mask))
	r.setStandard(std.EnqDepth, r.inputValue(traceInput, inEnqDepth, std.EnqDepth.Mask))
	r.setStandard(std.DeqDelta, r.inputValue(traceInput, inDeqDelta, std.DeqDelta.Mask))
	r.setStandard(std.DeqDepth, r.inputValue(traceInput, inDeqDepth, std.DeqDepth.Mask))
	r.setStandard(std.QueueID, r.inputValue(traceInput, inQid, std.QueueID.Mask))
	r.setStandard(std.EgressPort, r.inputValue(traceInput, inEgressPort, std.EgressPort.Mask))
	r.setStandard(std.EgressSpec, r.constantValue((s.dropSpec+1)&std.EgressSpec.Mask))
	r.setStandard(std.PacketLength, r.inputValue(traceInput, inLength, std.PacketLength.Mask))
	leaf := traceLeaf{}
	if r.recordCode(p.Egress); r.bad == "" {
		r.recordEgressEnd(&leaf)
	}
	r.endTrace(leaf)
}

func (r *traceRecorder) recordEgressEnd(l *traceLeaf) {
	p, s := r.t.p, r.s
	port, drop := r.standardField(p.Standard.EgressSpec), r.constantValue(s.dropSpec)
	if r.guardOutcome(traceEq, r.valueOf(port) == s.dropSpec, port, drop) {
		l.drop = true
		return
	}
	for i := range p.Checksums {
		if k := &p.Checksums[i]; k.Update && !k.Bytes && r.checksumApplies(k) {
			r.abandon("a checksum over more than its header")
			return
		}
	}
	// The packet must leave with the headers it came with, where they were.
	at := 0
	var sums []*program.DeparseStep
	for i := range p.Deparser {
		d := &p.Deparser[i]
		valid := r.slotValue(d.Valid)
		if r.guardOutcome(traceZero, r.valueOf(valid) == 0, valid, 0) {
			continue
		}
		if r.bad != "" || p.Headers[d.ID].Meta || int(r.hdrAt[d.ID]) != at {
			r.abandon("headers that come, go or move")
			return
		}
		at += d.Bytes
		if d.Sum != nil && r.checksumApplies(d.Sum) {
			sums = append(sums, d)
		}
	}
	if at != r.pos {
		r.abandon("headers that go")
		return
	}
	r.writeBack(l, false)
	for _, d := range sums {
		from := int(r.hdrAt[d.ID])
		l.sums = append(l.sums, traceChecksum{from, from + d.Bytes, d.Sum.At})
	}
}

// checksumApplies runs a checksum's condition.
func (r *traceRecorder) checksumApplies(k *program.Checksum) bool {
	if k.Cond != 0 {
		exit := r.exit
		r.recordCode(k.Cond)
		r.exit = exit
	}
	id := r.slotValue(k.Slot)
	return r.guardOutcome(traceNonZero, r.valueOf(id) != 0, id, 0)
}

// writeBack notes what is to be written to the packet: what the program changed
// in the headers that came with it. With keep, it saves what else egress reads.
func (r *traceRecorder) writeBack(l *traceLeaf, keep bool) {
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
		valid := r.slotValue(h.ValidSlot())
		if !r.isConst(valid) {
			r.abandon("a header whose validity is computed")
			return
		}
		if r.valueOf(valid) == 0 {
			continue
		}
		e := &p.Extractions[id]
		off := 0
		for i := range h.Type.Fields {
			f := &h.Type.Fields[i]
			ps := program.Parts(h.Base+f.Offset, off, f.Width)
			off += f.Width
			if e.Raw != 0 && (e.Patches[i] == nil || r.valueOf(r.slotValue(e.Dirty))>>i&1 == 0) {
				continue
			}
			for _, one := range bySlot(ps, r.hdrAt[id]) {
				if x := &r.values[r.slotValue(one[0].Slot)]; x.kind == valueField && sameParts(x.parts, one) {
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
		regs[i] = r.inRegister(r.slotValue(st.slot))
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
				clean = clean && disjointBits(x.parts, st.parts)
			}
			switch {
			case x.kind == valueConst || clean:
			case r.t.readByEgress[slot]:
				k := r.keepValue(l, id)
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
			l.stores = append(l.stores, traceStore{w, regs[k]})
		}
		r.slots[st.slot] = r.newValue(value{kind: valueField, parts: st.parts, c: r.t.slots[regs[k]]})
	}
}

// disjointBits reports whether two fields have no bit in common.
func disjointBits(a, b []program.Part) bool {
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

// endTrace writes the end of a trace.
func (r *traceRecorder) endTrace(l traceLeaf) {
	t := r.t
	if r.bad != "" {
		t.stats.Unfit[r.bad]++
		if !r.follow {
			unfit := execUnfit
			t.code = append(t.code, traceInst{op: traceLeafOp, imm: uint64(uint32(unfit))})
		}
		return
	}
	if r.follow { // the packet would have gone this way: it is recorded to its end
		t.broken = true
		return
	}
	l.effects = r.effects
	t.code = append(t.code, traceInst{op: traceLeafOp, imm: uint64(len(t.leaves))})
	t.leaves = append(t.leaves, l)
}
