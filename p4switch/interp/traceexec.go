package interp

import (
	"encoding/binary"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// What exec returns instead of a leaf.
const (
	execUnknown int32 = -1 // this path has not been recorded
	execUnfit   int32 = -2 // the packet's path cannot be traced
)

// runTrace runs trace code until its end. It changes the switch's random numbers,
// nothing else.
func (t *Traces) runTrace(s *Switch, pc uint32, data []byte, h *HeldPacket) int32 {
	if pc == 0 {
		return execUnknown
	}
	v := t.slots
	code := t.code
	var act, next uint32 // of the last table looked up
	for {
		in := &code[pc]
		pc++
		var hold bool
		switch in.op {
		case traceLoad:
			v[in.dst] = binary.BigEndian.Uint64(data[in.n:]) >> (in.a & 63) & in.imm << (in.b & 63)
			continue
		case traceEq:
			hold = v[in.a] == v[in.b]
		case traceNe:
			hold = v[in.a] != v[in.b]
		case traceBits:
			hold = v[in.a]&in.imm == in.imm2
		case traceNoBits:
			hold = v[in.a]&in.imm != in.imm2
		case traceZero:
			hold = v[in.a] == 0
		case traceNonZero:
			hold = v[in.a] != 0
		case traceLtU:
			hold = v[in.a] < v[in.b]
		case traceGeU:
			hold = v[in.a] >= v[in.b]
		case traceLeU:
			hold = v[in.a] <= v[in.b]
		case traceGtU:
			hold = v[in.a] > v[in.b]
		case traceLen:
			hold = uint64(len(data)-TraceSlack) >= in.imm
		case traceShorterThan:
			hold = uint64(len(data)-TraceSlack) < in.imm
		case traceTable:
			ts := &s.tables[in.a]
			hit := t.lookupKey(s, ts, &t.keys[in.imm])
			var args []uint64
			act, next, args = t.tableResult(s, ts, hit)
			v[in.dst] = uint64(hit + 1)
			for i, x := range args {
				v[in.dst+1+traceSlot(i)] = x
			}
			continue
		case traceActionChosen:
			hold = uint64(act) == in.imm && uint64(next) == in.imm2
		case traceRead:
			s.registers[in.imm].read(v[in.dst:in.dst+1], v[in.a], int(in.b))
			continue
		case traceOp(program.OpAdd):
			v[in.dst] = (v[in.a] + v[in.b]) & in.imm
			continue
		case traceOp(program.OpMov):
			v[in.dst] = v[in.a] & in.imm
			continue
		case traceOp(program.OpShr):
			v[in.dst] = v[in.a] >> v[in.b] & in.imm
			continue
		case traceOp(program.OpAnd):
			v[in.dst] = v[in.a] & v[in.b] & in.imm
			continue
		case traceLeafOp:
			return int32(in.imm)
		case traceLoadOr:
			v[in.dst] |= binary.BigEndian.Uint64(data[in.n:]) >> (in.a & 63) & in.imm << (in.b & 63)
			continue
		case traceInput:
			v[in.dst] = t.in[in.a] & in.imm
			continue
		case traceInputUs:
			v[in.dst] = t.in[in.a] / 1000 & in.imm
			continue
		case traceHeld:
			v[in.dst] = h.values()[in.a]
			continue
		case traceMove:
			v[in.dst] = v[in.a]
			continue
		case traceHash:
			v[in.dst] = s.runCalculation(&t.pkt, int(in.imm))%max(v[in.b], 1) + v[in.a]
			continue
		case traceRandom:
			v[in.dst] = v[in.a] + s.randomTo(v[in.b]-v[in.a])
			continue
		default:
			v[in.dst] = evalPure(program.Opcode(in.op), v[in.a], v[in.b], v[in.n], in.imm)
			continue
		}
		if !hold {
			if pc = in.alt; pc == 0 {
				return execUnknown
			}
		}
	}
}

// lookupKey assembles a key and looks it up.
func (t *Traces) lookupKey(s *Switch, ts *tableState, k *traceKey) int32 {
	if len(ts.groups) == 0 {
		return -1
	}
	v := t.slots
	if len(k.base) == 1 {
		key := k.base[0]
		for i := range k.pieces {
			p := &k.pieces[i]
			key |= v[p.reg] << (p.shift & 63)
		}
		if ts.t.KeyMask != nil {
			key &= ts.t.KeyMask[0]
		}
		return ts.lookupWord(key)
	}
	n := len(k.base)
	buf := s.keyBuf(2 * n)
	key, masked := buf[:n], buf[n:]
	copy(key, k.base)
	for i := range k.pieces {
		p := &k.pieces[i]
		key[p.word] |= v[p.reg] << (p.shift & 63)
	}
	if ts.t.KeyMask != nil {
		for i := range key {
			key[i] &= ts.t.KeyMask[i]
		}
	}
	return ts.lookup(key, masked)
}

// tableResult returns the result of applying a table with an entry (-1: none), without its side effects.
func (t *Traces) tableResult(s *Switch, ts *tableState, hit int32) (act, next uint32, args []uint64) {
	tab := ts.t
	if hit >= 0 {
		e := &ts.entries[hit]
		if e.kind == ByAction {
			a := &tab.Actions[e.target]
			at := int(hit) * tab.ArgMax
			return a.PC, uint32(a.Hit), ts.args[at : at+int(a.Words)]
		}
		if m := s.resolveMember(&t.pkt, tab, e.kind, e.target); m != nil {
			return s.p.Actions[m.act].PC, uint32(tab.Actions[tab.Local[m.act]].Hit), m.args
		}
	}
	d := &ts.def
	if !d.set {
		return 0, uint32(tab.MissPC), nil
	}
	if d.kind == ByAction {
		a := &tab.Actions[d.target]
		return a.PC, uint32(a.Miss), d.args
	}
	if m := s.resolveMember(&t.pkt, tab, d.kind, d.target); m != nil {
		return s.p.Actions[m.act].PC, uint32(tab.Actions[tab.Local[m.act]].Miss), m.args
	}
	return 0, uint32(tab.MissPC), nil
}

// evalPure computes one of the pure operations on single words, OpMov to OpSel.
func evalPure(op program.Opcode, x, y, z, imm uint64) uint64 {
	switch op {
	case program.OpMov:
		return x & imm
	case program.OpAdd:
		return (x + y) & imm
	case program.OpSub:
		return (x - y) & imm
	case program.OpMul:
		return x * y & imm
	case program.OpAnd:
		return x & y & imm
	case program.OpOr:
		return (x | y) & imm
	case program.OpXor:
		return (x ^ y) & imm
	case program.OpNot:
		return ^x & imm
	case program.OpShl:
		return x << y & imm
	case program.OpShr:
		return x >> y & imm
	case program.OpSar:
		return uint64(int64(x)>>y) & imm
	case program.OpDivU:
		if y == 0 {
			return 0
		}
		return x / y
	case program.OpModU:
		if y == 0 {
			return 0
		}
		return x % y
	case program.OpDivS:
		if y == 0 {
			return 0
		}
		return uint64(int64(x) / int64(y))
	case program.OpModS:
		if y == 0 {
			return 0
		}
		return uint64(int64(x) % int64(y))
	case program.OpEq:
		return boolToUint(x == y)
	case program.OpNe:
		return boolToUint(x != y)
	case program.OpLtU:
		return boolToUint(x < y)
	case program.OpLeU:
		return boolToUint(x <= y)
	case program.OpLtS:
		return boolToUint(int64(x) < int64(y))
	case program.OpLeS:
		return boolToUint(int64(x) <= int64(y))
	case program.OpNonZ:
		return boolToUint(x != 0)
	case program.OpIsZ:
		return boolToUint(x == 0)
	case program.OpSext:
		return uint64(int64(x<<(imm&63)) >> (imm & 63))
	case program.OpMinU:
		return min(x, imm)
	case program.OpClampS:
		return min(uint64(max(int64(x), 0)), imm)
	case program.OpClampB:
		return uint64(min(max(int64(x), -int64(imm)-1), int64(imm)))
	}
	// OpSel
	if x != 0 {
		return y
	}
	return z
}
