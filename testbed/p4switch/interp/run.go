package interp

import "math/bits"

// maxBackJumps bounds the jumps back that one run makes: code from p4c ends
// by itself, other code must too.
const maxBackJumps = 1 << 16

// run executes code from pc until it halts.
func (s *Switch) run(p *Packet, start uint32) {
	code, v := s.p.code, p.v
	pc, ret, loops := int(start), 0, 0
	for {
		in := &code[pc]
		pc++
		switch in.op {
		case opHalt:
			return
		case opRet:
			if p.exit {
				return
			}
			pc = ret
		case opMov:
			v[in.dst] = v[in.a] & in.imm
		case opAdd:
			v[in.dst] = (v[in.a] + v[in.b]) & in.imm
		case opSub:
			v[in.dst] = (v[in.a] - v[in.b]) & in.imm
		case opAnd:
			v[in.dst] = v[in.a] & v[in.b] & in.imm
		case opOr:
			v[in.dst] = (v[in.a] | v[in.b]) & in.imm
		case opXor:
			v[in.dst] = (v[in.a] ^ v[in.b]) & in.imm
		case opShl:
			v[in.dst] = v[in.a] << v[in.b] & in.imm
		case opShr:
			v[in.dst] = v[in.a] >> v[in.b] & in.imm
		case opEq:
			v[in.dst] = b2u(v[in.a] == v[in.b])
		case opNe:
			v[in.dst] = b2u(v[in.a] != v[in.b])
		case opLtU:
			v[in.dst] = b2u(v[in.a] < v[in.b])
		case opLeU:
			v[in.dst] = b2u(v[in.a] <= v[in.b])
		case opNonZ:
			v[in.dst] = b2u(v[in.a] != 0)
		case opJmp:
			pc = int(in.imm)
		case opJz:
			if v[in.a] == 0 {
				pc = int(in.imm)
			}
		case opJnz:
			if v[in.a] != 0 {
				pc = int(in.imm)
			}
		case opJEq:
			if v[in.a] == v[in.b] {
				pc = int(in.imm)
			}
		case opJNe:
			if v[in.a] != v[in.b] {
				pc = int(in.imm)
			}
		case opJLtU:
			if v[in.a] < v[in.b] {
				pc = int(in.imm)
			}
		case opJGeU:
			if v[in.a] >= v[in.b] {
				pc = int(in.imm)
			}
		case opJLeU:
			if v[in.a] <= v[in.b] {
				pc = int(in.imm)
			}
		case opJGtU:
			if v[in.a] > v[in.b] {
				pc = int(in.imm)
			}
		case opCheckExit:
			if p.exit {
				return
			}
		case opBack, opJzBack:
			if in.op == opJzBack && v[in.a] != 0 {
				break
			}
			if loops++; loops > maxBackJumps {
				p.fault, p.exit = DropActionLoop, true
				return
			}
			pc = int(in.imm)
		case opTable:
			if act, next := s.apply(p, int(in.imm)); act != 0 {
				pc, ret = int(act), int(next)
			} else {
				pc = int(next)
			}
		case opCallAction:
			pc, ret = int(in.a), int(in.imm)
		case opSetValid:
			s.setValid(v, int(in.imm))
		case opDirty:
			v[in.dst] |= in.imm
		case opSetInvalid:
			v[s.p.headers[in.imm].validSlot()] = 0
		case opCount:
			s.counters[in.imm].count(v[in.a], p.ingressLen)
		case opRegRead:
			s.registers[in.imm].read(v[in.dst:in.dst+uint32(in.n)], v[in.a], int(in.b))
		case opRegWrite:
			s.registers[in.imm].write(v[in.a], v[in.dst:in.dst+uint32(in.n)])
		case opExit:
			p.exit = true
		case opCall:
			if s.call(p, &s.p.calls[in.imm]); p.fault != 0 {
				return
			}
		default:
			s.rareOp(v, in)
		}
	}
}

// rareOp carries out an instruction that does not jump and that programs have few of.
func (s *Switch) rareOp(v []uint64, in *inst) {
	switch in.op {
	case opMul:
		v[in.dst] = (v[in.a] * v[in.b]) & in.imm
	case opSar:
		v[in.dst] = uint64(int64(v[in.a])>>v[in.b]) & in.imm
	case opDivU:
		if v[in.b] == 0 {
			v[in.dst] = 0
		} else {
			v[in.dst] = v[in.a] / v[in.b]
		}
	case opModU:
		if v[in.b] == 0 {
			v[in.dst] = 0
		} else {
			v[in.dst] = v[in.a] % v[in.b]
		}
	case opDivS:
		if v[in.b] == 0 {
			v[in.dst] = 0
		} else {
			v[in.dst] = uint64(int64(v[in.a]) / int64(v[in.b]))
		}
	case opModS:
		if v[in.b] == 0 {
			v[in.dst] = 0
		} else {
			v[in.dst] = uint64(int64(v[in.a]) % int64(v[in.b]))
		}
	case opLtS:
		v[in.dst] = b2u(int64(v[in.a]) < int64(v[in.b]))
	case opLeS:
		v[in.dst] = b2u(int64(v[in.a]) <= int64(v[in.b]))
	case opSext:
		v[in.dst] = uint64(int64(v[in.a]<<(in.imm&63)) >> (in.imm & 63))
	case opMinU:
		v[in.dst] = min(v[in.a], in.imm)
	case opClampS:
		x := max(int64(v[in.a]), 0)
		v[in.dst] = min(uint64(x), in.imm)
	case opClampB:
		v[in.dst] = uint64(min(max(int64(v[in.a]), -int64(in.imm)-1), int64(in.imm)))
	case opSel:
		if v[in.a] != 0 {
			v[in.dst] = v[in.b]
		} else {
			v[in.dst] = v[in.imm]
		}
	case opHdrID, opUnionID, opUnionHdr, opHdrLoad, opHdrStore, opHdrValid, opLast, opUnionValid, opEqHdr, opEqUnion:
		s.headerOp(v, in)
	case opDrop:
		v[in.dst] = s.dropSpec
		if in.a != slotZero {
			v[in.a] = 0
		}
	case opNot:
		v[in.dst] = ^v[in.a] & in.imm
	case opIsZ:
		v[in.dst] = b2u(v[in.a] == 0)
	default:
		s.wideOp(v, in)
	}
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// call executes the rarer primitives.
func (s *Switch) call(p *Packet, k *call) {
	v := p.v
	switch k.kind {
	case callAddHeader:
		if v[k.a] == none64 {
			return
		}
		h := &s.p.headers[v[k.a]]
		if h.meta || v[h.validSlot()] != 0 {
			return
		}
		clear(v[h.base : h.base+uint32(h.typ.size)])
		s.setValid(v, int(v[k.a]))
		p.pktLen += s.bytesOf(v, h)
	case callRemoveHeader:
		if v[k.a] == none64 {
			return
		}
		h := &s.p.headers[v[k.a]]
		if h.meta || v[h.validSlot()] == 0 {
			return
		}
		p.pktLen -= s.bytesOf(v, h)
		v[h.validSlot()] = 0
	case callAssignHeader:
		s.assignHeader(v, v[k.a], v[k.b])
	case callAssignUnion:
		s.assignUnion(v, v[k.a], v[k.b])
	case callAssignStack:
		d, c := &s.p.stacks[k.id], &s.p.stacks[k.id2]
		v[d.next] = v[c.next]
		for i := range d.headers {
			s.assignHeader(v, uint64(d.headers[i]), uint64(c.headers[i]))
		}
	case callAssignUnionStack:
		d, c := &s.p.unionStacks[k.id], &s.p.unionStacks[k.id2]
		v[d.next] = v[c.next]
		for i := range d.unions {
			s.assignUnion(v, uint64(d.unions[i]), uint64(c.unions[i]))
		}
	case callPush:
		st := &s.p.stacks[k.id]
		n := int(min(v[k.a], uint64(len(st.headers))))
		v[st.next] = min(v[st.next]+uint64(n), uint64(len(st.headers)))
		s.pushHeaders(v, st.headers, n)
	case callPop:
		st := &s.p.stacks[k.id]
		n := int(min(v[k.a], uint64(len(st.headers))))
		v[st.next] -= min(v[st.next], uint64(n))
		s.popHeaders(v, st.headers, n)
	case callPushUnion, callPopUnion:
		st := &s.p.unionStacks[k.id]
		size := uint64(len(st.unions))
		n := min(v[k.a], size)
		if k.kind == callPushUnion {
			v[st.next] = min(v[st.next]+n, size)
		} else {
			v[st.next] -= min(v[st.next], n)
		}
		if size > 0 {
			for m := range s.p.unions[st.unions[0]].headers {
				s.shiftUnions(v, st, m, int(n), k.kind == callPushUnion)
			}
		}
	case callHash:
		base, size := v[k.a], v[k.b]
		v[k.dst] = s.calculate(p, k.id)%max(size, 1) + base
	case callRandom:
		if lo, hi := v[k.a], v[k.b]; lo <= hi {
			v[k.dst] = lo + s.random(hi-lo)
		}
	case callMeter:
		if c, ok := s.meters[k.id].execute(v[k.a], p.ingressLen, s.now); ok {
			v[k.dst] = uint64(c)
		}
	case callDigest:
		p.learn = uint16(v[k.a])
	case callClone:
		p.clone = uint16(v[k.a]) | cloneFlag
		p.cloneList = uint16(v[k.b])
	case callResubmit:
		p.resubmit = uint16(v[k.a])
	case callRecirculate:
		p.recirculate = uint16(v[k.a])
	case callTruncate:
		p.truncate = int(min(uint64(p.truncate), v[k.a]))
	case callAssert, callAssume:
		if v[k.a] == 0 {
			p.fault, p.exit = DropAssert, true
			s.log(LogAssert+LogKind(k.kind-callAssert), k.text)
		}
	case callLog:
		s.logMessage(v, k)
	}
}

// random returns a number in 0..span.
func (s *Switch) random(span uint64) uint64 {
	s.rng += 0x9E3779B97F4A7C15 // splitmix64
	z := s.rng
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	z ^= z >> 31
	if span == none64 {
		return z
	}
	hi, _ := bits.Mul64(z, span+1)
	return hi
}
