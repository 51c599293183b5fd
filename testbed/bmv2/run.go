package bmv2

import "math/bits"

// maxBackJumps bounds the jumps back that one run makes: code from p4c ends
// by itself, other code must too.
const maxBackJumps = 1 << 16

// run executes code from pc until it halts.
func (s *Switch) run(p *Packet, start uint32) {
	code := s.p.code
	v := p.v
	pc := int(start)
	ret := 0
	loops := 0
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
		case opMul:
			v[in.dst] = (v[in.a] * v[in.b]) & in.imm
		case opAnd:
			v[in.dst] = v[in.a] & v[in.b] & in.imm
		case opOr:
			v[in.dst] = (v[in.a] | v[in.b]) & in.imm
		case opXor:
			v[in.dst] = (v[in.a] ^ v[in.b]) & in.imm
		case opNot:
			v[in.dst] = ^v[in.a] & in.imm
		case opShl:
			v[in.dst] = v[in.a] << v[in.b] & in.imm
		case opShr:
			v[in.dst] = v[in.a] >> v[in.b] & in.imm
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
		case opEq:
			v[in.dst] = b2u(v[in.a] == v[in.b])
		case opNe:
			v[in.dst] = b2u(v[in.a] != v[in.b])
		case opLtU:
			v[in.dst] = b2u(v[in.a] < v[in.b])
		case opLeU:
			v[in.dst] = b2u(v[in.a] <= v[in.b])
		case opLtS:
			v[in.dst] = b2u(int64(v[in.a]) < int64(v[in.b]))
		case opLeS:
			v[in.dst] = b2u(int64(v[in.a]) <= int64(v[in.b]))
		case opNonZ:
			v[in.dst] = b2u(v[in.a] != 0)
		case opIsZ:
			v[in.dst] = b2u(v[in.a] == 0)
		case opSext:
			v[in.dst] = uint64(int64(v[in.a]<<(in.imm&63)) >> (in.imm & 63))
		case opMinU:
			v[in.dst] = min(v[in.a], in.imm)
		case opClampS:
			x := int64(v[in.a])
			if x < 0 {
				x = 0
			}
			v[in.dst] = min(uint64(x), in.imm)
		case opClampB:
			v[in.dst] = uint64(min(max(int64(v[in.a]), -int64(in.imm)-1), int64(in.imm)))
		case opSel:
			if v[in.a] != 0 {
				v[in.dst] = v[in.b]
			} else {
				v[in.dst] = v[in.imm]
			}

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
				p.fault = DropActionLoop
				p.exit = true
				return
			}
			pc = int(in.imm)
		case opTable:
			act, next := s.apply(p, int(in.imm))
			if act != 0 {
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
		case opHdrID, opUnionID, opUnionHdr, opHdrLoad, opHdrStore, opHdrValid, opLast, opUnionValid, opEqHdr, opEqUnion:
			s.headerOp(v, in)

		case opCount:
			s.counters[in.imm].count(v[in.a], p.ingressLen)
		case opRegRead:
			s.registers[in.imm].read(v[in.dst:in.dst+uint32(in.n)], v[in.a], int(in.b))
		case opRegWrite:
			s.registers[in.imm].write(v[in.a], v[in.dst:in.dst+uint32(in.n)])
		case opDrop:
			v[in.dst] = s.dropSpec
			if in.a != slotZero {
				v[in.a] = 0
			}
		case opExit:
			p.exit = true
		case opCall:
			s.call(p, &s.p.calls[in.imm])
			if p.fault != 0 {
				return
			}
		default:
			s.wideOp(v, in)
		}
	}
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// setValid makes a header valid, and its siblings in a union invalid.
func (s *Switch) setValid(v []uint64, hid int) {
	h := &s.p.headers[hid]
	if h.union >= 0 {
		for _, o := range s.p.unions[h.union].headers {
			v[s.p.headers[o].validSlot()] = 0
		}
	}
	v[h.validSlot()] = 1
}

const none64 = ^uint64(0)

// headerOp executes the operations on headers that are known by id only.
func (s *Switch) headerOp(v []uint64, in *inst) {
	switch in.op {
	case opHdrID:
		k := &s.p.stacks[in.imm]
		v[in.dst] = none64
		if i := v[in.a]; i < uint64(len(k.headers)) {
			v[in.dst] = uint64(k.headers[i])
		}
	case opUnionID:
		k := &s.p.unionStacks[in.imm]
		v[in.dst] = none64
		if i := v[in.a]; i < uint64(len(k.unions)) {
			v[in.dst] = uint64(k.unions[i])
		}
	case opUnionHdr:
		id := none64
		if u := v[in.a]; u != none64 {
			id = uint64(s.p.unions[u].headers[in.imm])
		}
		v[in.dst] = id
	case opHdrLoad:
		d := v[in.dst : in.dst+uint32(in.n)]
		id := v[in.a]
		if id == none64 {
			clear(d)
			return
		}
		at := s.p.headers[id].base + uint32(in.imm)
		copy(d, v[at:at+uint32(in.n)])
	case opHdrStore:
		id := v[in.a]
		if id == none64 {
			return
		}
		at := s.p.headers[id].base + uint32(in.imm)
		d := v[at : at+uint32(in.n)]
		copy(d, v[in.dst:in.dst+uint32(in.n)])
		maskWords(d, int(in.b))
	case opHdrValid:
		id := v[in.a]
		v[in.dst] = b2u(id != none64 && (s.p.headers[id].meta || v[s.p.headers[id].validSlot()] != 0))
	case opLast:
		k := &s.p.stacks[in.imm]
		v[in.dst] = none64
		if n := v[k.next]; n > 0 && n <= uint64(len(k.headers)) {
			v[in.dst] = uint64(k.headers[n-1])
		}
	case opUnionValid:
		v[in.dst] = b2u(s.validMember(v, v[in.a]) >= 0)
	case opEqHdr:
		v[in.dst] = b2u(s.equalHeaders(v, v[in.a], v[in.b]))
	case opEqUnion:
		x, y := s.validMember(v, v[in.a]), s.validMember(v, v[in.b])
		eq := x >= 0 && x == y
		if eq {
			eq = s.equalHeaders(v, uint64(s.p.unions[v[in.a]].headers[x]), uint64(s.p.unions[v[in.b]].headers[y]))
		}
		v[in.dst] = b2u(eq)
	}
}

// validMember is the index of the valid header of union u, or -1.
func (s *Switch) validMember(v []uint64, u uint64) int {
	if u == none64 {
		return -1
	}
	for i, h := range s.p.unions[u].headers {
		if v[s.p.headers[h].validSlot()] != 0 {
			return i
		}
	}
	return -1
}

func (s *Switch) equalHeaders(v []uint64, a, b uint64) bool {
	if a == none64 || b == none64 {
		return false
	}
	x, y := &s.p.headers[a], &s.p.headers[b]
	if x.typ != y.typ {
		return false
	}
	if (!x.meta && v[x.validSlot()] == 0) || (!y.meta && v[y.validSlot()] == 0) {
		return false
	}
	n := x.typ.valid
	for i := range n {
		if v[x.base+i] != v[y.base+i] {
			return false
		}
	}
	return true
}

// bytesOf is the length of a header in bytes, with its varbit.
func (s *Switch) bytesOf(v []uint64, h *header) int {
	n := h.typ.fixed
	if h.typ.vl >= 0 {
		n += int(v[h.base+h.typ.varLen])
	}
	return n / 8
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

func (s *Switch) assignHeader(v []uint64, dst, src uint64) {
	if dst == none64 {
		return
	}
	d := &s.p.headers[dst]
	if src == none64 {
		v[d.validSlot()] = 0
		return
	}
	c := &s.p.headers[src]
	if !c.meta && v[c.validSlot()] == 0 {
		v[d.validSlot()] = 0
		return
	}
	n := min(d.typ.valid, c.typ.valid)
	copy(v[d.base:d.base+n], v[c.base:c.base+n])
	s.setValid(v, int(dst))
}

func (s *Switch) assignUnion(v []uint64, dst, src uint64) {
	if dst == none64 {
		return
	}
	for i, d := range s.p.unions[dst].headers {
		c := none64
		if src != none64 && i < len(s.p.unions[src].headers) {
			c = uint64(s.p.unions[src].headers[i])
		}
		if c == none64 || v[s.p.headers[c].validSlot()] == 0 {
			v[s.p.headers[d].validSlot()] = 0
		}
	}
	if m := s.validMember(v, src); m >= 0 && m < len(s.p.unions[dst].headers) {
		s.assignHeader(v, uint64(s.p.unions[dst].headers[m]), uint64(s.p.unions[src].headers[m]))
	}
}

// moveHeader copies a header with its validity.
func (s *Switch) moveHeader(v []uint64, dst, src int) {
	d, c := &s.p.headers[dst], &s.p.headers[src]
	copy(v[d.base:d.base+uint32(d.typ.size)], v[c.base:c.base+uint32(c.typ.size)])
}

func (s *Switch) pushHeaders(v []uint64, hs []int, n int) {
	for i := len(hs) - 1; i >= n; i-- {
		s.moveHeader(v, hs[i], hs[i-n])
	}
	for i := range n {
		v[s.p.headers[hs[i]].validSlot()] = 0
	}
}

func (s *Switch) popHeaders(v []uint64, hs []int, n int) {
	for i := 0; i+n < len(hs); i++ {
		s.moveHeader(v, hs[i], hs[i+n])
	}
	for i := len(hs) - n; i < len(hs); i++ {
		v[s.p.headers[hs[i]].validSlot()] = 0
	}
}

// shiftUnions shifts member m of every union of a stack.
func (s *Switch) shiftUnions(v []uint64, st *unionStack, m, n int, push bool) {
	at := func(i int) int { return s.p.unions[st.unions[i]].headers[m] }
	size := len(st.unions)
	if push {
		for i := size - 1; i >= n; i-- {
			s.moveHeader(v, at(i), at(i-n))
		}
		for i := range n {
			v[s.p.headers[at(i)].validSlot()] = 0
		}
		return
	}
	for i := 0; i+n < size; i++ {
		s.moveHeader(v, at(i), at(i+n))
	}
	for i := size - n; i < size; i++ {
		v[s.p.headers[at(i)].validSlot()] = 0
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
