package interp

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
