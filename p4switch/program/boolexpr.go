package program

import (
	"encoding/json"
	"fmt"
)

func unmarshal(b []byte, v any) error {
	if len(b) == 0 {
		return fmt.Errorf("value is missing")
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("value %.60s: %w", b, err)
	}
	return nil
}

// compileBoolean compiles e into a slot that holds 0 or 1.
func (c *compiler) compileBoolean(e *jVal) (uint32, error) {
	if c.depth++; c.depth > 500 {
		return 0, fmt.Errorf("expression is nested too deeply")
	}
	defer func() { c.depth-- }()
	e, err := unwrap(e)
	if err != nil {
		return 0, err
	}
	if e.Op == "" {
		switch e.Type {
		case "bool":
			var b bool
			if err := unmarshal(e.Value, &b); err != nil {
				return 0, err
			}
			if b {
				return SlotOne, nil
			}
			return SlotZero, nil
		case "":
			return 0, fmt.Errorf("condition is missing")
		}
		// A number where a condition stands: BMv2 tests it against zero.
		return c.nonZero(e)
	}
	t := func(in Inst) (uint32, error) {
		in.Dst = c.tempSlots(1)
		c.emitInst(in)
		return in.Dst, nil
	}
	switch e.Op {
	case "and", "or":
		a, err := c.compileBoolean(e.Left)
		if err != nil {
			return 0, err
		}
		b, err := c.compileBoolean(e.Right)
		if err != nil {
			return 0, err
		}
		op := OpAnd
		if e.Op == "or" {
			op = OpOr
		}
		return t(Inst{Op: op, A: a, B: b, Imm: 1})
	case "not":
		a, err := c.compileBoolean(e.Right)
		if err != nil {
			return 0, err
		}
		return t(Inst{Op: OpIsZ, A: a})
	case "d2b":
		return c.nonZero(e.Right)
	case "==", "!=", "<", "<=", ">", ">=":
		return c.compileCompare(e)
	case "valid":
		h, err := c.headerOperand(e.Right)
		if err != nil {
			return 0, err
		}
		if h.dynamic {
			return t(Inst{Op: OpHdrValid, A: h.slot})
		}
		if c.headers[h.id].Meta {
			return SlotOne, nil
		}
		return c.headers[h.id].ValidSlot(), nil
	case "valid_union":
		u, err := c.unionOperand(e.Right)
		if err != nil {
			return 0, err
		}
		return t(Inst{Op: OpUnionValid, A: u})
	case "?":
		cond, err := c.compileBoolean(e.Cond)
		if err != nil {
			return 0, err
		}
		a, err := c.compileBoolean(e.Left)
		if err != nil {
			return 0, err
		}
		b, err := c.compileBoolean(e.Right)
		if err != nil {
			return 0, err
		}
		return t(Inst{Op: OpSel, A: cond, B: a, Imm: uint64(b)})
	}
	return c.nonZero(e)
}

func (c *compiler) nonZero(e *jVal) (uint32, error) {
	x, err := c.compileInteger(e, exactBits)
	if err != nil {
		return 0, err
	}
	if x.words == 1 && x.lo.Sign() >= 0 && x.hi.Cmp(bigOne) <= 0 {
		return x.slot, nil
	}
	d := c.tempSlots(1)
	if x.words == 1 {
		c.emitInst(Inst{Op: OpNonZ, Dst: d, A: x.slot})
	} else {
		c.emitInst(Inst{Op: OpWNonZ, N: uint16(x.words), Dst: d, A: x.slot})
	}
	return d, nil
}

// kind of an expression's value.
type exprKind int

const (
	kindData exprKind = iota
	kindBool
	kindHeader
	kindStack
	kindUnion
	kindUnionStack
)

func kindOf(e *jVal) exprKind {
	e, err := unwrap(e)
	if err != nil {
		return kindData
	}
	switch e.Op {
	case "":
		switch e.Type {
		case "bool":
			return kindBool
		case "header":
			return kindHeader
		case "header_stack":
			return kindStack
		case "header_union":
			return kindUnion
		case "header_union_stack":
			return kindUnionStack
		}
	case "and", "or", "not", "d2b", "==", "!=", "<", "<=", ">", ">=", "valid", "valid_union":
		return kindBool
	case "dereference_header_stack", "dereference_stack", "access_union_header":
		return kindHeader
	case "dereference_union_stack":
		return kindUnion
	case "?":
		return kindOf(e.Left)
	}
	return kindData
}

func (c *compiler) compileCompare(e *jVal) (uint32, error) {
	eq := e.Op == "==" || e.Op == "!="
	if k := kindOf(e.Left); k != kindData {
		if !eq {
			return 0, fmt.Errorf("operator %q on operands that are not numbers", e.Op)
		}
		return c.compareOther(e, k)
	}
	x, err := c.compileInteger(e.Left, exactBits)
	if err != nil {
		return 0, err
	}
	y, err := c.compileInteger(e.Right, exactBits)
	if err != nil {
		return 0, err
	}
	op := e.Op
	if op == ">" || op == ">=" {
		x, y = y, x
		op = map[string]string{">": "<", ">=": "<="}[op]
	}
	unsigned := x.lo.Sign() >= 0 && y.lo.Sign() >= 0
	d := c.tempSlots(1)
	if x.words == 1 && y.words == 1 && (unsigned || fitsOneSlot(minOf(x.lo, y.lo), maxOf(x.hi, y.hi))) {
		o := map[string]Opcode{"==": OpEq, "!=": OpNe, "<": OpLtS, "<=": OpLeS}[op]
		if unsigned {
			o = map[string]Opcode{"==": OpEq, "!=": OpNe, "<": OpLtU, "<=": OpLeU}[op]
		}
		c.emitInst(Inst{Op: o, Dst: d, A: x.slot, B: y.slot})
		return d, nil
	}
	w := max(x.words, y.words)
	if !unsigned {
		w = max(w, WordsFor(max(bitsFor(x.lo, x.hi), bitsFor(y.lo, y.hi))+1))
	}
	a, b := c.widenTo(x, w), c.widenTo(y, w)
	o := map[string]Opcode{"==": OpWEq, "!=": OpWNe, "<": OpWLtS, "<=": OpWLeS}[op]
	if unsigned {
		o = map[string]Opcode{"==": OpWEq, "!=": OpWNe, "<": OpWLtU, "<=": OpWLeU}[op]
	}
	c.emitInst(Inst{Op: o, N: uint16(w), Dst: d, A: a, B: b})
	return d, nil
}

// compareOther compiles == and != of booleans, headers and unions.
func (c *compiler) compareOther(e *jVal, k exprKind) (uint32, error) {
	var a, b uint32
	var err error
	op := OpEq
	switch k {
	case kindBool:
		if a, err = c.compileBoolean(e.Left); err == nil {
			b, err = c.compileBoolean(e.Right)
		}
	case kindHeader:
		op = OpEqHdr
		if a, err = c.headerSlot(e.Left); err == nil {
			b, err = c.headerSlot(e.Right)
		}
	case kindUnion:
		op = OpEqUnion
		if a, err = c.unionOperand(e.Left); err == nil {
			b, err = c.unionOperand(e.Right)
		}
	default:
		return 0, fmt.Errorf("%w: comparison of stacks", ErrUnsupported)
	}
	if err != nil {
		return 0, err
	}
	d := c.tempSlots(1)
	c.emitInst(Inst{Op: op, Dst: d, A: a, B: b})
	if e.Op == "!=" {
		n := c.tempSlots(1)
		c.emitInst(Inst{Op: OpIsZ, Dst: n, A: d})
		d = n
	}
	return d, nil
}
