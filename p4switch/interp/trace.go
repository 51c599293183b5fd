package interp

import (
	"encoding/binary"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Most packets take one of few paths through a program: the branches go the same
// way, the tables choose the same actions, only the numbers differ. A trace is
// such a path, written down once: straight-line code without the program's
// branches, without headers to extract that nobody reads, without metadata that
// is the same for every packet of that path. What decided the path is checked as
// the trace runs (a guard); tables are looked up, registers read and hashes
// computed each time, so a trace holds nothing of a switch's state: it never
// goes stale, and all switches of a program share their traces.
//
// What a packet changes (counters, registers, its own bytes) is done at the end
// of a trace, after the last guard. A packet for which a guard does not hold,
// and for which no other trace branches off there, has therefore changed
// nothing: the interpreter processes it, and its path is
// recorded for those that follow.
//
// Paths that traces cannot express always go through the interpreter: clones, multicast,
// resubmission, recirculation, digests, meters, headers that come and go,
// varbits, unions, stacks, verified checksums. The recorder knows what it can
// express, not what it cannot: an instruction it has not been taught ends a
// trace.

// Traces is a cache of compiled paths through one program: straight-line code, recorded as packets take a path for the
// first time. Switches that share it ([Config].Traces) must belong to one goroutine.
type Traces struct {
	p         *program.Program
	traceable bool   // the program as a whole can be traced
	isBound   bool   // the following are set
	drop      uint64 // dropSpec of all switches
	queues    uint64 // their QueuesPerPort

	code          []traceInst
	keys          []traceKey
	leaves        []traceLeaf
	root          uint32
	readByEgress  []bool // slots that egress may read
	readsDeqDelta bool   // it reads deq_timedelta
	full          bool   // no more is recorded: too many paths
	broken        bool   // the recorder contradicted itself; a defect

	slots  *[maxTraceSlots]uint64 // the program's slots, then constants, then registers
	consts map[uint64]traceSlot
	pkt    Packet // stands for the packet in calculations; its v is v
	in     [numTraceInputs]uint64

	stores []traceStore // of the packet that ingress has just taken

	stats TraceStats
}

// TraceStats counts packets that ran as compiled paths, and those that did not.
type TraceStats struct {
	Ingress, Egress uint64 // Ingress and Egress: times that the pipeline ran as a compiled path
	// InterpretedIngress and InterpretedEgress: times that the pipeline had to be interpreted, as the packet's path was
	// not recorded
	InterpretedIngress, InterpretedEgress uint64
	Paths                                 int // recorded paths, of ingress and egress
	Unfit                                 map[string]int
}

// TraceSlack is the number of bytes of capacity that must follow the data passed to [Switch.TraceIngress] and
// [Switch.TraceEgress]. They may be read, and are not changed.
const TraceSlack = 8

// HeldPacket is the state of a packet between [Switch.TraceIngress] and [Switch.TraceEgress], beside its bytes, which
// the caller keeps. The first word has the recorded path (16 bits), a number of the caller's (8), the priority (8), and
// ingress and egress port (16 each); the others have metadata for egress.
type HeldPacket [3]uint64

// SetOwner stores a number of the caller's, which Owner returns.
func (h *HeldPacket) SetOwner(n uint8) { h[0] |= uint64(n) << 40 }

// Owner returns the number that [HeldPacket.SetOwner] stored with the packet.
func (h *HeldPacket) Owner() uint8 { return uint8(h[0] >> 40) }

func (h *HeldPacket) leafIndex() int32 { return int32(h[0] >> 48) }
func (h *HeldPacket) priority() uint8  { return uint8(h[0] >> 32) }
func (h *HeldPacket) ingress() uint32  { return uint32(h[0] >> 16 & 0xFFFF) }
func (h *HeldPacket) egress() uint32   { return uint32(h[0] & 0xFFFF) }
func (h *HeldPacket) values() []uint64 { return h[1:] }

const (
	maxTraceConsts = 256
	maxTraceRegs   = 768
	maxTraceSlots  = 1 << 16 // all that a traceSlot can name: an index needs no check
	maxTraceCode   = 1 << 16
	maxTraceLeaves = 1 << 12
	maxTracePath   = 1 << 12 // instructions of the program that one path follows
)

// traceSlot is an index into Traces.slots.
type traceSlot uint16

// A is one instruction of a trace, half a cache line.
type traceInst struct {
	op   traceOp
	n    uint16
	dst  traceSlot
	a, b traceSlot
	alt  uint32 // where to go on when a guard does not hold; 0: unknown
	imm  uint64
	imm2 uint64
}

// traceOp extends the opcodes of pure arithmetic, which traces share: one dense
// range, so that one jump table serves.
type traceOp uint16

const (
	traceLeafOp traceOp = iota + traceOp(program.OpSel) + 1 // the end: leaf imm, or execUnfit

	traceLoad    // dst = the bits imm<<a of the eight bytes from n on, times 2^b
	traceLoadOr  // dst |= the same
	traceInput   // dst = input a & imm
	traceInputUs // the same, nanoseconds to microseconds
	traceHeld    // dst = value number a of [HeldPacket]
	traceMove    // dst = a
	traceRead    // dst = register imm at index a, b bits
	traceHash    // dst = a + calculation imm modulo b
	traceRandom  // dst = a number from a to b
	traceTable   // look up table a with key imm; dst = entry + 1

	// Guards.
	traceZero
	traceNonZero
	traceEq
	traceNe
	traceLtU
	traceGeU
	traceLeU
	traceGtU
	traceBits         // guard: a & imm == imm2
	traceNoBits       // guard: a & imm != imm2
	traceLen          // guard: the packet has at least imm bytes
	traceShorterThan  // guard: the packet has fewer than imm bytes
	traceActionChosen // the last table chose the action at imm and goes on at imm2
)

// negated pairs the guards that compare.
func (o traceOp) negated() traceOp { return (o - traceZero) ^ 1 + traceZero }

// Inputs: what the packet brings beside its bytes. Times are ns.
const (
	inIngressPort = iota
	inLength
	inIngressTS
	inEgressTS
	inEnqTS
	inEnqDepth
	inDeqDelta // time in the queue (deq_timedelta), in us
	inDeqDepth
	inQid
	inEgressPort
	numTraceInputs
)

// traceKey describes how a table's key is assembled.
type traceKey struct {
	base   []uint64 // what is the same for all packets
	pieces []tracePiece
}

type tracePiece struct {
	reg   traceSlot
	word  uint16
	shift uint8
}

// traceLeaf is the end of a trace.
type traceLeaf struct {
	drop       bool
	port, prio traceSlot
	effects    []traceEffect
	saves      []traceSlot // what Held takes along
	stores     []traceStore

	sums []traceChecksum // after the stores of egress

	// Where egress starts.
	egress uint32 // its code; 0: none yet
	end    []endSlot
	hdrAt  []int32
	pos    int
}

type traceEffect struct {
	kind effectKind
	id   int
	a, b traceSlot
}

// traceChecksum describes an Internet checksum to be written into a header.
type traceChecksum struct{ from, to, at int }

// traceStore writes a register to a place in the packet.
type traceStore struct {
	part program.Part
	reg  traceSlot
}

type effectKind uint8

const (
	effectCount  effectKind = iota // counter id at index a
	effectDirect                   // direct counter of table id, entry a-1; 0: of its default entry
	effectHit                      // time of the last hit, the same
	effectWrite                    // register id at index a = b
)

// endSlot is a slot's value between the pipelines.
type endSlot struct {
	kind  valueKind
	c     uint64         // a constant, or the index of a held number
	parts []program.Part // of a field, places in the packet
}

// NewTraces returns an empty cache of compiled paths of p.
func NewTraces(p *program.Program) *Traces {
	t := &Traces{p: p, consts: map[uint64]traceSlot{}, code: make([]traceInst, 1)}
	t.stats.Unfit = map[string]int{}
	t.traceable = !p.Verifies && p.DeparsePC == 0 && p.Slots < maxTraceSlots/4 && len(p.Tables) <= maxTraceSlots
	t.slots = new([maxTraceSlots]uint64)
	for _, c := range p.Constants {
		t.slots[c.Slot] = c.Value
	}
	t.pkt.v = t.slots[:]
	t.readByEgress = egressReads(p)
	t.readsDeqDelta = p.Standard.DeqDelta.Has && t.readByEgress[p.Standard.DeqDelta.Slot]
	return t
}

// Stats returns the counts so far.
func (t *Traces) Stats() TraceStats {
	st := t.stats
	st.Paths = len(t.leaves)
	return st
}

// Broken reports whether the recording found an inconsistency, and tracing has stopped. That is a defect, but results
// are right.
func (t *Traces) Broken() bool { return t.broken }

// bindTraces makes a switch use the trace cache t, if possible.
func (s *Switch) bindTraces(t *Traces) {
	if t == nil || t.p != s.p || !t.traceable || s.cfg.Log != nil || s.cfg.Tracer != nil {
		return
	}
	if !t.isBound {
		t.isBound, t.drop, t.queues = true, s.dropSpec, uint64(s.cfg.QueuesPerPort)
	}
	if t.drop == s.dropSpec && t.queues == uint64(s.cfg.QueuesPerPort) {
		s.traces = t
	}
}

// IngressVerdict is what the ingress pipeline decides about a packet in [Switch.TraceIngress]: drop it, or send it by
// a port with a priority.
type IngressVerdict struct {
	Drop     bool
	Port     uint32 // egress port
	Priority uint8
}

// TraceIngress is [Switch.Ingress] for a packet whose path has been recorded. [TraceSlack] bytes of capacity must
// follow in.Data. The bytes do not change; the rest of the packet's state goes to h. ok is false, and nothing has
// happened, if the packet must be interpreted. For a packet that is not dropped, call [Switch.TraceKeep] or
// [Switch.TraceFree] before any other call of a switch with the same traces; after TraceKeep call [Switch.TraceEgress].
func (s *Switch) TraceIngress(in Input, h *HeldPacket) (v IngressVerdict, ok bool) {
	t := s.traces
	n := len(in.Data)
	if t == nil || t.broken || cap(in.Data)-n < TraceSlack || in.Port > 0xFFFF {
		return v, false
	}
	data := in.Data[:n+TraceSlack]
	t.in[inIngressPort] = uint64(in.Port)
	length := max(in.Length, n)
	t.in[inLength] = uint64(length)
	t.in[inIngressTS] = uint64(in.Now)
	s.now = in.Now
	rng := s.rng
	at := t.runTrace(s, t.root, data, h)
	if at < 0 {
		s.rng = rng
		if at == execUnknown {
			t.recordIngress(s, data, h)
			s.rng = rng
		}
		t.stats.InterpretedIngress++
		return v, false
	}
	l := &t.leaves[at]
	s.beginCall(in.Now)
	t.stats.Ingress++
	t.applyEffects(s, l.effects, length)
	if l.drop {
		s.drops[DropIngress]++
		return IngressVerdict{Drop: true}, true
	}
	v.Port, v.Priority = uint32(t.slots[l.port]), uint8(t.slots[l.prio])
	h[0] = uint64(at)<<48 | uint64(v.Priority)<<32 | uint64(in.Port)<<16 | uint64(v.Port)
	for i, r := range l.saves {
		h[1+i] = t.slots[r]
	}
	t.stores = l.stores
	return v, true
}

// TraceEgress is [Switch.Egress] for a packet of [Switch.TraceIngress]. It writes the packet's changes to data, whose
// length stays the same; length is the packet's on the wire. drop is true if the program dropped it. ok is false, and
// nothing has happened, if the packet must be interpreted: pass the result of [Switch.PacketFromHeld] to
// [Switch.Egress].
func (s *Switch) TraceEgress(data []byte, length int, h *HeldPacket, q QueueState) (drop, ok bool) {
	t := s.traces
	l := &t.leaves[h.leafIndex()]
	t.in[inIngressPort] = uint64(h.ingress())
	t.in[inLength] = uint64(length)
	t.in[inEgressTS], t.in[inEnqTS] = uint64(q.DeqTime), uint64(q.EnqTime)
	if t.readsDeqDelta {
		t.in[inDeqDelta] = uint64(q.DeqTime/1000 - q.EnqTime/1000)
	}
	t.in[inEnqDepth], t.in[inDeqDepth] = uint64(q.EnqDepth), uint64(q.DeqDepth)
	t.in[inQid], t.in[inEgressPort] = uint64(h.priority()), uint64(h.egress())
	data = data[:len(data)+TraceSlack]
	s.now = q.DeqTime
	rng, at := s.rng, execUnfit
	if !t.broken {
		at = t.runTrace(s, l.egress, data, h)
	}
	if at < 0 {
		s.rng = rng
		if at == execUnknown {
			t.recordEgress(s, h.leafIndex(), data, h)
			s.rng = rng
		}
		t.stats.InterpretedEgress++
		return false, false
	}
	s.beginCall(q.DeqTime)
	e := &t.leaves[at]
	t.stats.Egress++
	t.applyEffects(s, e.effects, length)
	if e.drop {
		s.drops[DropEgress]++
		return true, true
	}
	for i := range e.stores {
		st := &e.stores[i]
		st.part.Store(data, t.slots[st.reg])
	}
	for i := range e.sums {
		b := data[e.sums[i].from:e.sums[i].to]
		at := e.sums[i].at
		b[at], b[at+1] = 0, 0
		binary.BigEndian.PutUint16(b[at:], uint16(program.InternetChecksum(b)))
	}
	return false, true
}

// TraceKeep writes the changes that ingress made to the bytes of the packet of the last [Switch.TraceIngress].
func (s *Switch) TraceKeep(data []byte) {
	t := s.traces
	data = data[:len(data)+TraceSlack]
	for i := range t.stores {
		st := &t.stores[i]
		st.part.Store(data, t.slots[st.reg])
	}
}

// Traced reports whether the switch uses compiled paths.
func (s *Switch) Traced() bool { return s.traces != nil }

// TraceFree reports that the caller's traffic manager dropped the packet of the last [Switch.TraceIngress].
func (s *Switch) TraceFree() { s.drops[DropTrafficManager]++ }

// PacketFromHeld returns the packet of a [Switch.TraceIngress] whose state is in h, as [Switch.Ingress] would have
// returned it.
func (s *Switch) PacketFromHeld(data []byte, length int, h *HeldPacket) *Packet {
	t := s.traces
	l := &t.leaves[h.leafIndex()]
	p := s.newPacket()
	p.buf = s.newBuffer(len(data))
	p.start = headroom
	p.end = headroom + copy(p.buf.b[headroom:], data)
	clear(p.buf.b[p.end:])
	p.virtualBytes = max(0, length-len(data))
	p.pktLen, p.ingressLen = len(data)+p.virtualBytes, len(data)+p.virtualBytes
	p.pos = headroom + l.pos
	p.IngressPort, p.EgressPort, p.Priority, p.Length = h.ingress(), h.egress(), h.priority(), p.pktLen
	p.Stage, p.queued = StageEgress, true
	bytes := data[:len(data)+TraceSlack]
	for i := range l.end {
		p.v[int(s.p.PHVLo)+i] = l.end[i].value(bytes, h)
	}
	return p
}

func (e *endSlot) value(data []byte, h *HeldPacket) uint64 {
	switch e.kind {
	case valueField:
		var x uint64
		for i := range e.parts {
			x |= e.parts[i].Load(data)
		}
		return x
	case valueHeld:
		return h.values()[e.c]
	}
	return e.c
}

// applyEffects executes the side effects that a trace has collected.
func (t *Traces) applyEffects(s *Switch, effects []traceEffect, length int) {
	v := t.slots
	for i := range effects {
		e := &effects[i]
		switch e.kind {
		case effectCount:
			s.counters[e.id].count(v[e.a], length)
		case effectDirect:
			c := s.tables[e.id].countOf(int32(v[e.a]) - 1)
			c[0]++
			c[1] += uint64(length)
		case effectHit:
			if hit := v[e.a]; hit != 0 {
				s.tables[e.id].entries[hit-1].lastHit = s.now
			}
		case effectWrite:
			s.registers[e.id].write(v[e.a], v[e.b:e.b+1])
		}
	}
}
