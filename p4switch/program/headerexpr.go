package program

import (
	"fmt"
	"strings"
)

// hdrOperand is a header named by an expression: one known at load time, or
// one whose id is in a slot (-1, as uint64, when an index was out of range).
type hdrOperand struct {
	dynamic bool
	id      int    // into headers, when not dynamic
	slot    uint32 // when dynamic
	typ     *HeaderType
}

// headerOperand resolves an expression to a header.
func (c *compiler) headerOperand(e *jVal) (hdrOperand, error) {
	e, err := unwrap(e)
	if err != nil {
		return hdrOperand{}, err
	}
	switch {
	case e.Op == "" && e.Type == "header":
		n, err := e.str()
		if err != nil {
			return hdrOperand{}, err
		}
		i, ok := c.headerByName[n]
		if !ok {
			return hdrOperand{}, fmt.Errorf("there is no header %q", n)
		}
		return hdrOperand{id: i, typ: c.headers[i].Type}, nil
	case e.Op == "" && e.Type == "stack_field": // [stack, "last"]: the element itself
		hid, typ, fn, err := c.lastOf(e)
		if err != nil {
			return hdrOperand{}, err
		}
		if fn != "last" {
			return hdrOperand{}, fmt.Errorf("%w: stack_field %q where a header is needed", ErrUnsupported, fn)
		}
		return hdrOperand{dynamic: true, slot: hid, typ: typ}, nil
	case e.Op == "dereference_header_stack" || e.Op == "dereference_stack":
		si, err := c.stackOperand(e.Left)
		if err != nil {
			return hdrOperand{}, err
		}
		s := &c.stacks[si]
		ix, err := c.compileShiftCount(e.Right)
		if err != nil {
			return hdrOperand{}, err
		}
		if k := ix.constant; k != nil && k.IsInt64() && k.Int64() >= 0 && k.Int64() < int64(len(s.Headers)) {
			return hdrOperand{id: s.Headers[k.Int64()], typ: s.typ}, nil
		}
		c.noteWholeHeaders(s.Headers)
		t := c.tempSlots(1)
		c.emitInst(Inst{Op: OpHdrID, Dst: t, A: ix.slot, Imm: uint64(si)})
		return hdrOperand{dynamic: true, slot: t, typ: s.typ}, nil
	case e.Op == "access_union_header":
		u, err := c.unionOperand(e.Left)
		if err != nil {
			return hdrOperand{}, err
		}
		m := 0
		if e.Right.isNull() {
			return hdrOperand{}, fmt.Errorf("access_union_header without a member")
		}
		m = e.Right.num
		typ, err := c.unionMemberType(e.Left, m)
		if err != nil {
			return hdrOperand{}, err
		}
		t := c.tempSlots(1)
		c.emitInst(Inst{Op: OpUnionHdr, Dst: t, A: u, Imm: uint64(m)})
		return hdrOperand{dynamic: true, slot: t, typ: typ}, nil
	}
	return hdrOperand{}, fmt.Errorf("%w: %q %q where a header is needed", ErrUnsupported, e.Type, e.Op)
}

// headerSlot compiles a header expression into a slot with the header's id.
func (c *compiler) headerSlot(e *jVal) (uint32, error) {
	h, err := c.headerOperand(e)
	if err != nil {
		return 0, err
	}
	if h.dynamic {
		return h.slot, nil
	}
	c.noteWholeHeader(h.id)
	return c.constantSlot(uint64(h.id)), nil
}

// stackOperand resolves a header stack by name.
func (c *compiler) stackOperand(e *jVal) (int, error) {
	return namedOperand(e, "header stack", c.stackByName)
}

func (c *compiler) unionStackOperand(e *jVal) (int, error) {
	return namedOperand(e, "header union stack", c.unionStackByName)
}

// namedOperand resolves what is named by an operand of a type: its words with underscores between them.
func namedOperand(e *jVal, kind string, byName map[string]int) (int, error) {
	e, err := unwrap(e)
	if err != nil {
		return 0, err
	}
	if e.Type != strings.ReplaceAll(kind, " ", "_") {
		return 0, fmt.Errorf("%w: %q %q where a %s is needed", ErrUnsupported, e.Type, e.Op, kind)
	}
	n, err := e.str()
	if err != nil {
		return 0, err
	}
	i, ok := byName[n]
	if !ok {
		return 0, fmt.Errorf("there is no %s %q", kind, n)
	}
	return i, nil
}

// stackCount returns the slot with a stack's count of elements, and its size.
func (c *compiler) stackCount(e *jVal) (uint32, int, error) {
	u, err := unwrap(e)
	if err != nil {
		return 0, 0, err
	}
	if u.Type == "header_union_stack" {
		i, err := c.unionStackOperand(u)
		if err != nil {
			return 0, 0, err
		}
		return c.unionStacks[i].Next, len(c.unionStacks[i].Unions), nil
	}
	i, err := c.stackOperand(u)
	if err != nil {
		return 0, 0, err
	}
	return c.stacks[i].Next, len(c.stacks[i].Headers), nil
}

// unionOperand compiles an expression into a slot with a union's id.
func (c *compiler) unionOperand(e *jVal) (uint32, error) {
	e, err := unwrap(e)
	if err != nil {
		return 0, err
	}
	switch {
	case e.Op == "" && (e.Type == "header_union" || e.Type == "header"): // p4c writes header for a union in a stack
		n, err := e.str()
		if err != nil {
			return 0, err
		}
		i, ok := c.unionByName[n]
		if !ok {
			return 0, fmt.Errorf("there is no header union %q", n)
		}
		c.noteWholeUnions([]int{i})
		return c.constantSlot(uint64(i)), nil
	case e.Op == "dereference_union_stack":
		si, err := c.unionStackOperand(e.Left)
		if err != nil {
			return 0, err
		}
		ix, err := c.compileShiftCount(e.Right)
		if err != nil {
			return 0, err
		}
		c.noteWholeUnions(c.unionStacks[si].Unions)
		t := c.tempSlots(1)
		c.emitInst(Inst{Op: OpUnionID, Dst: t, A: ix.slot, Imm: uint64(si)})
		return t, nil
	}
	return 0, fmt.Errorf("%w: %q %q where a header union is needed", ErrUnsupported, e.Type, e.Op)
}

// unionMemberType finds the header type of member m of a union expression.
func (c *compiler) unionMemberType(e *jVal, m int) (*HeaderType, error) {
	e, err := unwrap(e)
	if err != nil {
		return nil, err
	}
	ui := -1
	if e.Op == "" {
		if n, err := e.str(); err == nil {
			if i, ok := c.unionByName[n]; ok {
				ui = i
			}
		}
	} else if si, err := c.unionStackOperand(e.Left); err == nil && len(c.unionStacks[si].Unions) > 0 {
		ui = c.unionStacks[si].Unions[0]
	}
	if ui < 0 || m < 0 || m >= len(c.unions[ui].Headers) {
		return nil, fmt.Errorf("member %d of a header union does not exist", m)
	}
	return c.headers[c.unions[ui].Headers[m]].Type, nil
}

// accessField compiles the field at an offset of a header expression.
func (c *compiler) accessField(e *jVal, need int) (operand, error) {
	h, f, err := c.accessedField(e)
	if err != nil {
		return operand{}, err
	}
	if !h.dynamic {
		hd := &c.headers[h.id]
		if f.name == "$valid$" && hd.Meta {
			return c.constOperand(bigOne)
		}
		c.noteRead(Ref{hd, f})
		return c.loadField(f, hd.Base+f.Offset, need), nil
	}
	return c.loadDynamic(f, h.slot, need), nil
}

func (c *compiler) accessedField(e *jVal) (hdrOperand, *Field, error) {
	h, err := c.headerOperand(e.Left)
	if err != nil {
		return h, nil, err
	}
	if e.Right.isNull() {
		return h, nil, fmt.Errorf("access_field without an offset")
	}
	k := e.Right.num
	switch {
	case k == len(h.typ.Fields):
		return h, &Field{name: "$valid$", Width: 1, Words: 1, Offset: h.typ.Valid}, nil
	case k < 0 || k > len(h.typ.Fields):
		return h, nil, fmt.Errorf("header type %q has no field at offset %d", h.typ.name, k)
	}
	return h, &h.typ.Fields[k], nil
}

// lastOf resolves a stack_field operand: the last element's id and the field.
func (c *compiler) lastOf(e *jVal) (hid uint32, t *HeaderType, fn string, err error) {
	s, err := e.strs(2)
	if err != nil {
		return 0, nil, "", err
	}
	i, ok := c.stackByName[s[0]]
	if !ok {
		return 0, nil, "", fmt.Errorf("there is no header stack %q", s[0])
	}
	c.noteWholeHeaders(c.stacks[i].Headers)
	hid = c.tempSlots(1)
	c.emitInst(Inst{Op: OpLast, Dst: hid, Imm: uint64(i)})
	return hid, c.stacks[i].typ, s[1], nil
}

// registerOperand compiles [register, index] as a value.
func (c *compiler) registerOperand(e *jVal) (operand, error) {
	id, ix, err := c.registerRef(e)
	if err != nil {
		return operand{}, err
	}
	w := c.registers[id].Width
	n := WordsFor(w)
	t := c.tempSlots(n)
	c.emitInst(Inst{Op: OpRegRead, N: uint16(n), Dst: t, A: ix, B: uint32(w), Imm: uint64(id)})
	f := Field{Width: w, Words: n}
	return c.loadField(&f, t, exactBits), nil
}

// registerRef resolves [register, index expression].
func (c *compiler) registerRef(e *jVal) (id int, index uint32, err error) {
	var parts []jRaw
	if err := unmarshal(e.Value, &parts); err != nil || len(parts) != 2 {
		return 0, 0, fmt.Errorf("a register operand is [name, index]")
	}
	var name string
	var ix jVal
	if err := unmarshal(parts[0], &name); err != nil {
		return 0, 0, err
	}
	if err := unmarshal(parts[1], &ix); err != nil {
		return 0, 0, err
	}
	id, ok := c.registerByName[name]
	if !ok {
		return 0, 0, fmt.Errorf("there is no register array %q", name)
	}
	o, err := c.compileShiftCount(&ix)
	if err != nil {
		return 0, 0, err
	}
	return id, o.slot, nil
}
