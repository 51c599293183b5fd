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

// Traces holds the recorded paths through one program. Switches that share it,
// through [Config.Traces], must all belong to one goroutine.
type Traces struct {
	p      *program.Program
	fit    bool   // the program as a whole can be traced
	bound  bool   // the following are set
	drop   uint64 // dropSpec of all switches
	queues uint64 // their QueuesPerPort

	code   []top
	keys   []traceKey
	leaves []traceLeaf
	root   uint32
	live   []bool // slots that egress may read
	delta  bool   // it reads deq_timedelta
	closed bool   // no more is recorded: too many paths
	broken bool   // the recorder contradicted itself; a defect

	v      *[maxTraceSlots]uint64 // the program's slots, then constants, then registers
	consts map[uint64]traceSlot
	pkt    Packet // stands for the packet in calculations; its v is v
	in     [numTraceInputs]uint64

	stores []traceStoring // of the packet that ingress has just taken

	stats TraceStats
}

// TraceStats counts what became of packets.
type TraceStats struct {
	Ingress, Egress                       uint64 // halves that ran as a trace
	InterpretedIngress, InterpretedEgress uint64 // halves that were offered and went through the interpreter
	Paths                                 int    // recorded, both halves
	Unfit                                 map[string]int
}

// TraceSlack is how many bytes of capacity must follow the data handed to
// [Switch.TraceIngress] and [Switch.TraceEgress]; they may be read, and are
// left as they are.
const TraceSlack = 8

// Held is a packet that a trace took through ingress: all there is of it beside
// its bytes, which stay with the caller.
// The first word is the leaf (16 bits), the caller's (8), the priority (8),
// ingress and egress port (16 each), the others metadata that egress reads.
type Held [3]uint64

// SetOwner notes a number of the caller's.
func (h *Held) SetOwner(n uint8) { h[0] |= uint64(n) << 40 }

// Owner returns the caller's number.
func (h *Held) Owner() uint8 { return uint8(h[0] >> 40) }

func (h *Held) leaf() int32       { return int32(h[0] >> 48) }
func (h *Held) priority() uint8   { return uint8(h[0] >> 32) }
func (h *Held) ingress() uint32   { return uint32(h[0] >> 16 & 0xFFFF) }
func (h *Held) egress() uint32    { return uint32(h[0] & 0xFFFF) }
func (h *Held) numbers() []uint64 { return h[1:] }

const (
	maxTraceConsts = 256
	maxTraceRegs   = 768
	maxTraceSlots  = 1 << 16 // all that a traceSlot can name: an index needs no check
	maxTraceCode   = 1 << 16
	maxTraceLeaves = 1 << 12
	maxTracePath   = 1 << 12 // instructions of the program that one path follows
)

// traceSlot is an index into Traces.v.
type traceSlot uint16

// A top is one instruction of a trace, half a cache line.
type top struct {
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
	traceUnknown traceOp = iota + traceOp(program.OpSel) + 1 // nothing was recorded from here
	traceUnfit                                               // to the interpreter
	traceLeafOp                                              // the end, leaf imm

	traceLoad    // dst = the bits imm<<a of the eight bytes from n on, times 2^b
	traceLoadOr  // dst |= the same
	traceInput   // dst = input a & imm
	traceInputUs // the same, nanoseconds to microseconds
	traceHeld    // dst = number a of Held
	traceMove    // dst = a
	traceRead    // dst = register imm at index a, b bits
	traceHash    // dst = a + calculation imm modulo b
	traceRandom  // dst = a number from a to b
	traceTable   // look up table a with key imm; dst = entry + 1

	// Guards.
	traceZ
	traceNZ
	traceEq
	traceNe
	traceLtU
	traceGeU
	traceLeU
	traceGtU
	traceBits   // a & imm == imm2
	traceNoBits // a & imm != imm2
	traceLen    // at least imm bytes
	traceShort  // fewer
	traceTook   // the last table chose the action at imm and goes on at imm2
)

// negated pairs the guards that compare.
func (o traceOp) negated() traceOp { return (o - traceZ) ^ 1 + traceZ }

// Inputs: what the packet brings beside its bytes. Times are ns.
const (
	inIngressPort = iota
	inLength
	inIngressTS
	inEgressTS
	inEnqTS
	inEnqDepth
	inDeqDelta // us
	inDeqDepth
	inQid
	inEgressPort
	numTraceInputs
)

// traceKey says how a table's key is put together.
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
	stores     []traceStoring

	sums []traceSumming // after the stores of egress

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

// traceSumming puts the Internet checksum of a header at a byte of it.
type traceSumming struct{ from, to, at int }

// traceStoring writes a register to a place in the packet.
type traceStoring struct {
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

// endSlot is what a slot holds between the pipelines.
type endSlot struct {
	kind  valueKind
	c     uint64         // a constant, or the index of a held number
	parts []program.Part // of a field, places in the packet
}

// NewTraces returns an empty set of traces of p.
func NewTraces(p *program.Program) *Traces {
	t := &Traces{p: p, consts: map[uint64]traceSlot{}, code: make([]top, 1)}
	t.stats.Unfit = map[string]int{}
	t.fit = !p.Verifies && p.DeparsePC == 0 && p.Slots < maxTraceSlots/4 && len(p.Tables) <= maxTraceSlots
	t.v = new([maxTraceSlots]uint64)
	for _, c := range p.Constants {
		t.v[c.Slot] = c.Value
	}
	t.pkt.v = t.v[:]
	t.live = egressReads(p)
	t.delta = p.Standard.DeqDelta.Has && t.live[p.Standard.DeqDelta.Slot]
	return t
}

// Stats returns the counts so far.
func (t *Traces) Stats() TraceStats {
	st := t.stats
	st.Paths = len(t.leaves)
	return st
}

// Broken reports whether the recorder contradicted itself, upon which tracing
// stopped. Results are right all the same; it is a defect.
func (t *Traces) Broken() bool { return t.broken }

// bind makes a switch use t if it can.
func (s *Switch) bind(t *Traces) {
	if t == nil || t.p != s.p || !t.fit || s.cfg.Log != nil || s.cfg.Tracer != nil {
		return
	}
	if !t.bound {
		t.bound, t.drop, t.queues = true, s.dropSpec, uint64(s.cfg.QueuesPerPort)
	}
	if t.drop == s.dropSpec && t.queues == uint64(s.cfg.QueuesPerPort) {
		s.traces = t
	}
}

// Verdict is what a trace makes of a packet.
type Verdict struct {
	Drop     bool
	Port     uint32 // egress port
	Priority uint8
}

// TraceIngress is [Switch.Ingress] for a packet whose path has been recorded.
// Behind in.Data must be [TraceSlack] bytes of capacity; its bytes stay as they
// are, and what else there is of the packet goes to h. ok is false, and nothing
// has happened, when the packet must go through the interpreter. A packet that is not
// dropped goes to [Switch.TraceKeep], or to [Switch.TraceFree], before anything
// else is asked of a switch that shares the traces; a kept one goes to
// [Switch.TraceEgress] in the end.
func (s *Switch) TraceIngress(in Input, h *Held) (v Verdict, ok bool) {
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
	at := t.exec(s, t.root, data, h)
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
	t.effect(s, l.effects, length)
	if l.drop {
		s.drops[DropIngress]++
		return Verdict{Drop: true}, true
	}
	v.Port, v.Priority = uint32(t.v[l.port]), uint8(t.v[l.prio])
	h[0] = uint64(at)<<48 | uint64(v.Priority)<<32 | uint64(in.Port)<<16 | uint64(v.Port)
	for i, r := range l.saves {
		h[1+i] = t.v[r]
	}
	t.stores = l.stores
	return v, true
}

// TraceEgress is [Switch.Egress] for a packet that [Switch.TraceIngress] took
// through ingress. It writes the packet's changes to data, which keeps its
// length; length is the packet's on the wire. drop is set when the program
// dropped it. ok is false, and nothing has happened, when it must go through
// the interpreter: hand what [Switch.Unhold] makes of it to [Switch.Egress].
func (s *Switch) TraceEgress(data []byte, length int, h *Held, q QueueState) (drop, ok bool) {
	t := s.traces
	l := &t.leaves[h.leaf()]
	t.in[inIngressPort] = uint64(h.ingress())
	t.in[inLength] = uint64(length)
	t.in[inEgressTS], t.in[inEnqTS] = uint64(q.DeqTime), uint64(q.EnqTime)
	if t.delta {
		t.in[inDeqDelta] = uint64(q.DeqTime/1000 - q.EnqTime/1000)
	}
	t.in[inEnqDepth], t.in[inDeqDepth] = uint64(q.EnqDepth), uint64(q.DeqDepth)
	t.in[inQid], t.in[inEgressPort] = uint64(h.priority()), uint64(h.egress())
	data = data[:len(data)+TraceSlack]
	s.now = q.DeqTime
	rng, at := s.rng, execUnfit
	if !t.broken {
		at = t.exec(s, l.egress, data, h)
	}
	if at < 0 {
		s.rng = rng
		if at == execUnknown {
			t.recordEgress(s, h.leaf(), data, h)
			s.rng = rng
		}
		t.stats.InterpretedEgress++
		return false, false
	}
	s.beginCall(q.DeqTime)
	e := &t.leaves[at]
	t.stats.Egress++
	t.effect(s, e.effects, length)
	if e.drop {
		s.drops[DropEgress]++
		return true, true
	}
	for i := range e.stores {
		st := &e.stores[i]
		st.part.Store(data, t.v[st.reg])
	}
	for i := range e.sums {
		b := data[e.sums[i].from:e.sums[i].to]
		at := e.sums[i].at
		b[at], b[at+1] = 0, 0
		binary.BigEndian.PutUint16(b[at:], uint16(program.InternetChecksum(b)))
	}
	return false, true
}

// TraceKeep writes what ingress changed to the packet that TraceIngress has just
// taken.
func (s *Switch) TraceKeep(data []byte) {
	t := s.traces
	data = data[:len(data)+TraceSlack]
	for i := range t.stores {
		st := &t.stores[i]
		st.part.Store(data, t.v[st.reg])
	}
}

// Traced reports whether the switch has traces.
func (s *Switch) Traced() bool { return s.traces != nil }

// TraceFree says that the caller's traffic manager dropped the packet that
// TraceIngress has just taken.
func (s *Switch) TraceFree() { s.drops[DropTrafficManager]++ }

// Unhold makes a held packet a [Packet] again, as Ingress would have left it.
func (s *Switch) Unhold(data []byte, length int, h *Held) *Packet {
	t := s.traces
	l := &t.leaves[h.leaf()]
	p := s.newPacket()
	p.buf = s.newBuffer(len(data))
	p.start = headroom
	p.end = headroom + copy(p.buf.b[headroom:], data)
	clear(p.buf.b[p.end:])
	p.virtual = max(0, length-len(data))
	p.pktLen, p.ingressLen = len(data)+p.virtual, len(data)+p.virtual
	p.pos = headroom + l.pos
	p.IngressPort, p.EgressPort, p.Priority, p.Length = h.ingress(), h.egress(), h.priority(), p.pktLen
	p.Stage, p.queued = StageEgress, true
	bytes := data[:len(data)+TraceSlack]
	for i := range l.end {
		p.v[int(s.p.PHVLo)+i] = l.end[i].value(bytes, h)
	}
	return p
}

func (e *endSlot) value(data []byte, h *Held) uint64 {
	switch e.kind {
	case valueField:
		var x uint64
		for i := range e.parts {
			x |= e.parts[i].Load(data)
		}
		return x
	case valueHeld:
		return h.numbers()[e.c]
	}
	return e.c
}

// effect does what a trace found is to be done.
func (t *Traces) effect(s *Switch, effects []traceEffect, length int) {
	v := t.v
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
