package interp

import "encoding/binary"

// What exec returns instead of a leaf.
const (
	execUnknown int32 = -1 // this way has not been recorded
	execUnfit   int32 = -2 // it cannot be
)

func (p *part) load(data []byte) uint64 {
	return binary.BigEndian.Uint64(data[p.byte:]) >> (p.shift & 63) & p.mask << (p.right & 63)
}

func (p *part) store(data []byte, x uint64) {
	b := data[p.byte : int(p.byte)+8]
	o := binary.BigEndian.Uint64(b)
	n := x >> (p.right & 63) & p.mask
	binary.BigEndian.PutUint64(b, o&^(p.mask<<(p.shift&63))|n<<(p.shift&63))
}

// exec runs trace code until its end. It changes the switch's random numbers,
// nothing else.
func (t *Traces) exec(s *Switch, pc uint32, data []byte, h *Held) int32 {
	if pc == 0 {
		return execUnknown
	}
	v := t.v
	code := t.code
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
		case traceZ:
			hold = v[in.a] == 0
		case traceNZ:
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
		case traceShort:
			hold = uint64(len(data)-TraceSlack) < in.imm
		case traceTable:
			ts := &s.tables[in.a]
			hit := t.find(s, ts, &t.keys[in.imm])
			t.outcome(s, ts, hit)
			v[in.dst] = uint64(hit + 1)
			copy(v[in.dst+1:], t.args)
			continue
		case traceTook:
			hold = t.act == in.a && t.next == in.b
		case traceRead:
			s.registers[in.imm].read(v[in.dst:in.dst+1], v[in.a], int(in.b))
			continue
		case traceOp(opAdd):
			v[in.dst] = (v[in.a] + v[in.b]) & in.imm
			continue
		case traceOp(opMov):
			v[in.dst] = v[in.a] & in.imm
			continue
		case traceOp(opShr):
			v[in.dst] = v[in.a] >> v[in.b] & in.imm
			continue
		case traceOp(opAnd):
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
			v[in.dst] = h.numbers()[in.a]
			continue
		case traceMove:
			v[in.dst] = v[in.a]
			continue
		case traceHash:
			v[in.dst] = s.calculate(&t.pkt, int(in.imm))%max(v[in.b], 1) + v[in.a]
			continue
		case traceRandom:
			v[in.dst] = v[in.a] + s.random(v[in.b]-v[in.a])
			continue
		case traceUnknown:
			return execUnknown
		case traceUnfit:
			return execUnfit
		default:
			x := arith(opcode(in.op), v[in.a], v[in.b], v[in.n], in.imm)
			v[in.dst] = x
			continue
		}
		if !hold {
			if pc = in.alt; pc == 0 {
				return execUnknown
			}
		}
	}
}

// find puts a key together and looks it up.
func (t *Traces) find(s *Switch, ts *tableState, k *traceKey) int32 {
	if len(ts.groups) == 0 {
		return -1
	}
	v := t.v
	if len(k.base) == 1 {
		key := k.base[0]
		for i := range k.pieces {
			p := &k.pieces[i]
			key |= v[p.reg] << (p.shift & 63)
		}
		if ts.t.big != nil {
			key &= ts.t.big[0]
		}
		return ts.lookup1(key)
	}
	n := len(k.base)
	buf := s.keyBuf(2 * n)
	key, masked := buf[:n], buf[n:]
	copy(key, k.base)
	for i := range k.pieces {
		p := &k.pieces[i]
		key[p.word] |= v[p.reg] << (p.shift & 63)
	}
	if ts.t.big != nil {
		for i := range key {
			key[i] &= ts.t.big[i]
		}
	}
	return ts.lookup(key, masked)
}

// outcome is what apply does with an entry, -1 for none, without its effects.
func (t *Traces) outcome(s *Switch, ts *tableState, hit int32) {
	tab := ts.t
	if hit >= 0 {
		e := &ts.entries[hit]
		if e.kind == ByAction {
			a := &tab.acts[e.target]
			at := int(hit) * tab.argMax
			t.act, t.next, t.args = a.pc, uint32(a.hit), ts.args[at:at+int(a.words)]
			return
		}
		if m := s.member(&t.pkt, tab, e.kind, e.target); m != nil {
			t.act, t.next, t.args = s.p.actions[m.act].pc, uint32(tab.acts[tab.local[m.act]].hit), m.args
			return
		}
	}
	d := &ts.def
	if !d.set {
		t.act, t.next, t.args = 0, uint32(tab.missPC), nil
		return
	}
	if d.kind == ByAction {
		a := &tab.acts[d.target]
		t.act, t.next, t.args = a.pc, uint32(a.def), d.args
		return
	}
	if m := s.member(&t.pkt, tab, d.kind, d.target); m != nil {
		t.act, t.next, t.args = s.p.actions[m.act].pc, uint32(tab.acts[tab.local[m.act]].def), m.args
		return
	}
	t.act, t.next, t.args = 0, uint32(tab.missPC), nil
}

// arith computes one of the pure operations on single words, opMov to opSel.
func arith(op opcode, x, y, z, imm uint64) uint64 {
	switch op {
	case opMov:
		return x & imm
	case opAdd:
		return (x + y) & imm
	case opSub:
		return (x - y) & imm
	case opMul:
		return x * y & imm
	case opAnd:
		return x & y & imm
	case opOr:
		return (x | y) & imm
	case opXor:
		return (x ^ y) & imm
	case opNot:
		return ^x & imm
	case opShl:
		return x << y & imm
	case opShr:
		return x >> y & imm
	case opSar:
		return uint64(int64(x)>>y) & imm
	case opDivU:
		if y == 0 {
			return 0
		}
		return x / y
	case opModU:
		if y == 0 {
			return 0
		}
		return x % y
	case opDivS:
		if y == 0 {
			return 0
		}
		return uint64(int64(x) / int64(y))
	case opModS:
		if y == 0 {
			return 0
		}
		return uint64(int64(x) % int64(y))
	case opEq:
		return b2u(x == y)
	case opNe:
		return b2u(x != y)
	case opLtU:
		return b2u(x < y)
	case opLeU:
		return b2u(x <= y)
	case opLtS:
		return b2u(int64(x) < int64(y))
	case opLeS:
		return b2u(int64(x) <= int64(y))
	case opNonZ:
		return b2u(x != 0)
	case opIsZ:
		return b2u(x == 0)
	case opSext:
		return uint64(int64(x<<(imm&63)) >> (imm & 63))
	case opMinU:
		return min(x, imm)
	case opClampS:
		return min(uint64(max(int64(x), 0)), imm)
	case opClampB:
		return uint64(min(max(int64(x), -int64(imm)-1), int64(imm)))
	}
	// opSel
	if x != 0 {
		return y
	}
	return z
}
