package interp

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

// boolean compiles e into a slot that holds 0 or 1.
func (c *compiler) boolean(e *jVal) (uint32, error) {
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
				return slotOne, nil
			}
			return slotZero, nil
		case "":
			return 0, fmt.Errorf("condition is missing")
		}
		// A number where a condition stands: BMv2 tests it against zero.
		return c.nonZero(e)
	}
	t := func(in inst) (uint32, error) {
		in.dst = c.temp(1)
		c.emit(in)
		return in.dst, nil
	}
	switch e.Op {
	case "and", "or":
		a, err := c.boolean(e.Left)
		if err != nil {
			return 0, err
		}
		b, err := c.boolean(e.Right)
		if err != nil {
			return 0, err
		}
		op := opAnd
		if e.Op == "or" {
			op = opOr
		}
		return t(inst{op: op, a: a, b: b, imm: 1})
	case "not":
		a, err := c.boolean(e.Right)
		if err != nil {
			return 0, err
		}
		return t(inst{op: opIsZ, a: a})
	case "d2b":
		return c.nonZero(e.Right)
	case "==", "!=", "<", "<=", ">", ">=":
		return c.compare(e)
	case "valid":
		h, err := c.headerOperand(e.Right)
		if err != nil {
			return 0, err
		}
		if h.dynamic {
			return t(inst{op: opHdrValid, a: h.slot})
		}
		if c.headers[h.id].meta {
			return slotOne, nil
		}
		return c.headers[h.id].validSlot(), nil
	case "valid_union":
		u, err := c.unionOperand(e.Right)
		if err != nil {
			return 0, err
		}
		return t(inst{op: opUnionValid, a: u})
	case "?":
		cond, err := c.boolean(e.Cond)
		if err != nil {
			return 0, err
		}
		a, err := c.boolean(e.Left)
		if err != nil {
			return 0, err
		}
		b, err := c.boolean(e.Right)
		if err != nil {
			return 0, err
		}
		return t(inst{op: opSel, a: cond, b: a, imm: uint64(b)})
	}
	return c.nonZero(e)
}

func (c *compiler) nonZero(e *jVal) (uint32, error) {
	x, err := c.data(e, all)
	if err != nil {
		return 0, err
	}
	if x.words == 1 && x.lo.Sign() >= 0 && x.hi.Cmp(bigOne) <= 0 {
		return x.slot, nil
	}
	d := c.temp(1)
	if x.words == 1 {
		c.emit(inst{op: opNonZ, dst: d, a: x.slot})
	} else {
		c.emit(inst{op: opWNonZ, n: uint16(x.words), dst: d, a: x.slot})
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

func (c *compiler) compare(e *jVal) (uint32, error) {
	eq := e.Op == "==" || e.Op == "!="
	if k := kindOf(e.Left); k != kindData {
		if !eq {
			return 0, fmt.Errorf("operator %q on operands that are not numbers", e.Op)
		}
		return c.compareOther(e, k)
	}
	x, err := c.data(e.Left, all)
	if err != nil {
		return 0, err
	}
	y, err := c.data(e.Right, all)
	if err != nil {
		return 0, err
	}
	op := e.Op
	if op == ">" || op == ">=" {
		x, y = y, x
		op = map[string]string{">": "<", ">=": "<="}[op]
	}
	unsigned := x.lo.Sign() >= 0 && y.lo.Sign() >= 0
	d := c.temp(1)
	if x.words == 1 && y.words == 1 && (unsigned || fits64(minOf(x.lo, y.lo), maxOf(x.hi, y.hi))) {
		o := map[string]opcode{"==": opEq, "!=": opNe, "<": opLtS, "<=": opLeS}[op]
		if unsigned {
			o = map[string]opcode{"==": opEq, "!=": opNe, "<": opLtU, "<=": opLeU}[op]
		}
		c.emit(inst{op: o, dst: d, a: x.slot, b: y.slot})
		return d, nil
	}
	w := max(x.words, y.words)
	if !unsigned {
		w = max(w, wordsFor(max(bitsFor(x.lo, x.hi), bitsFor(y.lo, y.hi))+1))
	}
	a, b := c.widen(x, w), c.widen(y, w)
	o := map[string]opcode{"==": opWEq, "!=": opWNe, "<": opWLtS, "<=": opWLeS}[op]
	if unsigned {
		o = map[string]opcode{"==": opWEq, "!=": opWNe, "<": opWLtU, "<=": opWLeU}[op]
	}
	c.emit(inst{op: o, n: uint16(w), dst: d, a: a, b: b})
	return d, nil
}

// compareOther compiles == and != of booleans, headers and unions.
func (c *compiler) compareOther(e *jVal, k exprKind) (uint32, error) {
	var a, b uint32
	var err error
	op := opEq
	switch k {
	case kindBool:
		if a, err = c.boolean(e.Left); err == nil {
			b, err = c.boolean(e.Right)
		}
	case kindHeader:
		op = opEqHdr
		if a, err = c.headerSlot(e.Left); err == nil {
			b, err = c.headerSlot(e.Right)
		}
	case kindUnion:
		op = opEqUnion
		if a, err = c.unionOperand(e.Left); err == nil {
			b, err = c.unionOperand(e.Right)
		}
	default:
		return 0, fmt.Errorf("%w: comparison of stacks", ErrUnsupported)
	}
	if err != nil {
		return 0, err
	}
	d := c.temp(1)
	c.emit(inst{op: op, dst: d, a: a, b: b})
	if e.Op == "!=" {
		n := c.temp(1)
		c.emit(inst{op: opIsZ, dst: n, a: d})
		d = n
	}
	return d, nil
}
