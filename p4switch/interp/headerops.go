package interp

import (
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// setValid makes a header valid, and its siblings in a union invalid.
func (s *Switch) setValid(v []uint64, hid int) {
	h := &s.p.Headers[hid]
	if h.Union >= 0 {
		for _, o := range s.p.Unions[h.Union].Headers {
			v[s.p.Headers[o].ValidSlot()] = 0
		}
	}
	v[h.ValidSlot()] = 1
}

// setInvalid makes a header invalid, and with a member the whole union (P4-16, section 8.20). It returns the bytes that
// this takes from the packet.
func (s *Switch) setInvalid(v []uint64, hid int) (n int) {
	members := []int{hid}
	if u := s.p.Headers[hid].Union; u >= 0 {
		members = s.p.Unions[u].Headers
	}
	for _, m := range members {
		if h := &s.p.Headers[m]; v[h.ValidSlot()] != 0 {
			n += s.bytesOf(v, h)
			v[h.ValidSlot()] = 0
		}
	}
	return n
}

const allOnes = ^uint64(0)

// headerOp executes the operations on headers that are known by id only.
func (s *Switch) headerOp(v []uint64, in *program.Inst) {
	switch in.Op {
	case program.OpHdrID:
		k := &s.p.Stacks[in.Imm]
		v[in.Dst] = allOnes
		if i := v[in.A]; i < uint64(len(k.Headers)) {
			v[in.Dst] = uint64(k.Headers[i])
		}
	case program.OpUnionID:
		k := &s.p.UnionStacks[in.Imm]
		v[in.Dst] = allOnes
		if i := v[in.A]; i < uint64(len(k.Unions)) {
			v[in.Dst] = uint64(k.Unions[i])
		}
	case program.OpUnionHdr:
		id := allOnes
		if u := v[in.A]; u != allOnes {
			id = uint64(s.p.Unions[u].Headers[in.Imm])
		}
		v[in.Dst] = id
	case program.OpHdrLoad:
		d := v[in.Dst : in.Dst+uint32(in.N)]
		id := v[in.A]
		if id == allOnes {
			clear(d)
			return
		}
		at := s.p.Headers[id].Base + uint32(in.Imm)
		copy(d, v[at:at+uint32(in.N)])
	case program.OpHdrStore:
		id := v[in.A]
		if id == allOnes {
			return
		}
		at := s.p.Headers[id].Base + uint32(in.Imm)
		d := v[at : at+uint32(in.N)]
		copy(d, v[in.Dst:in.Dst+uint32(in.N)])
		maskWords(d, int(in.B))
	case program.OpHdrValid:
		id := v[in.A]
		v[in.Dst] = boolToUint(id != allOnes && (s.p.Headers[id].Meta || v[s.p.Headers[id].ValidSlot()] != 0))
	case program.OpLast:
		k := &s.p.Stacks[in.Imm]
		v[in.Dst] = allOnes
		if n := v[k.Next]; n > 0 && n <= uint64(len(k.Headers)) {
			v[in.Dst] = uint64(k.Headers[n-1])
		}
	case program.OpUnionValid:
		v[in.Dst] = boolToUint(s.validMember(v, v[in.A]) >= 0)
	case program.OpEqHdr:
		v[in.Dst] = boolToUint(s.equalHeaders(v, v[in.A], v[in.B]))
	case program.OpEqUnion:
		x, y := s.validMember(v, v[in.A]), s.validMember(v, v[in.B])
		eq := x >= 0 && x == y
		if eq {
			eq = s.equalHeaders(v, uint64(s.p.Unions[v[in.A]].Headers[x]), uint64(s.p.Unions[v[in.B]].Headers[y]))
		}
		v[in.Dst] = boolToUint(eq)
	}
}

// validMember is the index of the valid header of union u, or -1.
func (s *Switch) validMember(v []uint64, u uint64) int {
	if u == allOnes {
		return -1
	}
	for i, h := range s.p.Unions[u].Headers {
		if v[s.p.Headers[h].ValidSlot()] != 0 {
			return i
		}
	}
	return -1
}

func (s *Switch) equalHeaders(v []uint64, a, b uint64) bool {
	if a == allOnes || b == allOnes {
		return false
	}
	x, y := &s.p.Headers[a], &s.p.Headers[b]
	if x.Type != y.Type {
		return false
	}
	if (!x.Meta && v[x.ValidSlot()] == 0) || (!y.Meta && v[y.ValidSlot()] == 0) {
		return false
	}
	n := x.Type.Valid
	for i := range n {
		if v[x.Base+i] != v[y.Base+i] {
			return false
		}
	}
	return true
}

// bytesOf is the length of a header in bytes, with its varbit, as it leaves the switch.
func (s *Switch) bytesOf(v []uint64, h *program.Header) int {
	n := h.Type.Fixed
	if h.Type.Varbit >= 0 {
		n += int(v[h.Base+h.Type.VarLen])
	}
	return (n + 7) / 8
}

// assignHeader copies a header. alone: an invalid one makes the whole union of dst invalid, as setInvalid does; else it
// is a member's part in the copy of a union.
func (s *Switch) assignHeader(v []uint64, dst, src uint64, alone bool) {
	if dst == allOnes {
		return
	}
	d := &s.p.Headers[dst]
	if src == allOnes || !s.p.Headers[src].Meta && v[s.p.Headers[src].ValidSlot()] == 0 {
		if alone {
			s.setInvalid(v, int(dst))
		} else {
			v[d.ValidSlot()] = 0
		}
		return
	}
	c := &s.p.Headers[src]
	n := min(d.Type.Valid, c.Type.Valid)
	copy(v[d.Base:d.Base+n], v[c.Base:c.Base+n])
	s.setValid(v, int(dst))
}

func (s *Switch) assignUnion(v []uint64, dst, src uint64) {
	if dst == allOnes {
		return
	}
	for i, d := range s.p.Unions[dst].Headers {
		c := allOnes
		if src != allOnes && i < len(s.p.Unions[src].Headers) {
			c = uint64(s.p.Unions[src].Headers[i])
		}
		if c == allOnes || v[s.p.Headers[c].ValidSlot()] == 0 {
			v[s.p.Headers[d].ValidSlot()] = 0
		}
	}
	if m := s.validMember(v, src); m >= 0 && m < len(s.p.Unions[dst].Headers) {
		s.assignHeader(v, uint64(s.p.Unions[dst].Headers[m]), uint64(s.p.Unions[src].Headers[m]), false)
	}
}

// moveHeader copies a header with its validity.
func (s *Switch) moveHeader(v []uint64, dst, src int) {
	d, c := &s.p.Headers[dst], &s.p.Headers[src]
	copy(v[d.Base:d.Base+uint32(d.Type.Size)], v[c.Base:c.Base+uint32(c.Type.Size)])
}

func (s *Switch) pushHeaders(v []uint64, hs []int, n int) {
	for i := len(hs) - 1; i >= n; i-- {
		s.moveHeader(v, hs[i], hs[i-n])
	}
	for i := range n {
		v[s.p.Headers[hs[i]].ValidSlot()] = 0
	}
}

func (s *Switch) popHeaders(v []uint64, hs []int, n int) {
	for i := 0; i+n < len(hs); i++ {
		s.moveHeader(v, hs[i], hs[i+n])
	}
	for i := len(hs) - n; i < len(hs); i++ {
		v[s.p.Headers[hs[i]].ValidSlot()] = 0
	}
}

// shiftUnions shifts member m of every union of a stack.
func (s *Switch) shiftUnions(v []uint64, st *program.UnionStack, m, n int, push bool) {
	at := func(i int) int { return s.p.Unions[st.Unions[i]].Headers[m] }
	size := len(st.Unions)
	if push {
		for i := size - 1; i >= n; i-- {
			s.moveHeader(v, at(i), at(i-n))
		}
		for i := range n {
			v[s.p.Headers[at(i)].ValidSlot()] = 0
		}
		return
	}
	for i := 0; i+n < size; i++ {
		s.moveHeader(v, at(i), at(i+n))
	}
	for i := size - n; i < size; i++ {
		v[s.p.Headers[at(i)].ValidSlot()] = 0
	}
}
