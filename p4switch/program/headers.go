package program

import (
	"fmt"
	"slices"
)

func (c *compiler) headerPrimitive(op string, e *jVal) error {
	h, err := c.headerOperand(e)
	if err != nil {
		return err
	}
	if op == "add_header_fast" && !h.dynamic {
		c.noteWholeHeader(h.id)
		c.emitInst(Inst{Op: OpSetValid, Imm: uint64(h.id)})
		return nil
	}
	s := h.slot
	if !h.dynamic {
		s = c.constantSlot(uint64(h.id))
	}
	k := Call{Kind: CallAddHeader, A: s}
	if op == "remove_header" {
		k.Kind = CallRemoveHeader
	}
	return c.emitCall(k)
}

func (c *compiler) headerCopy(dst, src *jVal) error {
	d, err := c.headerOperand(dst)
	if err != nil {
		return err
	}
	s, err := c.headerOperand(src)
	if err != nil {
		return err
	}
	if d.typ != s.typ && d.typ.Size != s.typ.Size {
		return fmt.Errorf("assignment of a header of type %q to one of type %q", s.typ.name, d.typ.name)
	}
	slot := func(h hdrOperand) uint32 {
		if h.dynamic {
			return h.slot
		}
		c.noteWholeHeader(h.id)
		return c.constantSlot(uint64(h.id))
	}
	k := Call{Kind: CallAssignHeader, A: slot(d), B: slot(s), ID: 1}
	if c.unionCopy && c.sameMember(d, s) {
		k.ID = 0
	}
	return c.emitCall(k)
}

// sameMember reports whether two headers may be the same member of two unions of one type: the compiler makes of the
// assignment of a union one of each member.
func (c *compiler) sameMember(d, s hdrOperand) bool {
	if d.dynamic || s.dynamic {
		return true
	}
	x, y := c.headers[d.id].Union, c.headers[s.id].Union
	return x >= 0 && y >= 0 && c.unions[x].typ == c.unions[y].typ &&
		slices.Index(c.unions[x].Headers, d.id) == slices.Index(c.unions[y].Headers, s.id)
}

// inUnionCopy reports whether primitive i is one of those that together assign a whole union.
func (c *compiler) inUnionCopy(ps []jPrimitive, i int) bool {
	members := func(i int) (dst, src int, ok bool) {
		if i < 0 || i >= len(ps) || ps[i].Op != "assign_header" || len(ps[i].Parameters) != 2 {
			return 0, 0, false
		}
		var ids [2]int
		for k := range ids {
			name, err := ps[i].Parameters[k].str()
			if err != nil { // named at run time, perhaps a union's
				return -1, -1, true
			}
			if ids[k], ok = c.headerByName[name]; !ok {
				return 0, 0, false
			}
		}
		return ids[0], ids[1], true
	}
	d, s, ok := members(i)
	if !ok || d < 0 {
		return ok
	}
	x, y := c.headers[d].Union, c.headers[s].Union
	if x < 0 || y < 0 || c.unions[x].typ != c.unions[y].typ {
		return false
	}
	first := i - slices.Index(c.unions[x].Headers, d)
	for k, want := range c.unions[x].Headers {
		if d, s, ok := members(first + k); !ok || d != want || s != c.unions[y].Headers[k] {
			return false
		}
	}
	return true
}
