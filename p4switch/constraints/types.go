package constraints

import (
	"fmt"
	"math/big"
)

// class is the kind of a value's type. The first five are the match kinds of key fields.
type class uint8

const (
	classExact class = iota
	classTernary
	classLPM
	classRange
	classOptional
	classBits // an unsigned value of type bit<W>
	classInt  // an integer constant without a width
	classBool
)

var classNames = []string{"exact", "ternary", "lpm", "range", "optional", "bit", "int", "bool"}

type valueType struct {
	class class
	width int // 0 of int and bool
}

func (t valueType) String() string {
	if t.class >= classInt {
		return classNames[t.class]
	}
	return fmt.Sprintf("%s<%d>", classNames[t.class], t.width)
}

// castable: an int is made a bit<W>, and that the value of a key field.
func (t valueType) castableTo(to valueType) bool {
	switch {
	case to.class < classBits:
		return t.class == classInt || t.class == classBits && t.width == to.width
	case to.class == classBits:
		return t.class == classInt
	}
	return false
}

func (t valueType) ordered() bool {
	return t.class == classInt || t.class == classBits || t.class == classExact
}

// parts maps a key field's class to the attributes of its value, such as ::mask.
var parts = map[class]map[string]struct {
	second bool
	class  class
}{
	classExact:    {"value": {false, classBits}},
	classTernary:  {"value": {false, classBits}, "mask": {true, classBits}},
	classOptional: {"value": {false, classBits}, "mask": {true, classBits}},
	classLPM:      {"value": {false, classBits}, "prefix_length": {true, classInt}},
	classRange:    {"low": {false, classBits}, "high": {true, classBits}},
}

// checker finds the types of a constraint's expressions.
type checker struct {
	text      string
	what      string // of variables: "key field" or "parameter"
	variables []Variable
}

func (c *checker) errorf(e *expression, format string, args ...any) error {
	return fmt.Errorf("%s: %s", fmt.Sprintf(format, args...), quote(c.text[e.from:e.to]))
}

// check sets the types of the expressions below e, and inserts the casts that the operators need.
func (c *checker) check(e *expression) error {
	for _, sub := range []*expression{e.left, e.right} {
		if sub == nil {
			continue
		}
		if err := c.check(sub); err != nil {
			return err
		}
	}
	switch e.op {
	case opTruth:
		e.typ = valueType{class: classBool}
	case opNumber:
		e.typ = valueType{class: classInt}
	case opPriority:
		if e.name != "priority" || c.what != keyField {
			return c.errorf(e, "there is no attribute %s here; an entry has ::priority", e.name)
		}
		e.typ = valueType{class: classInt}
	case opVariable:
		return c.variable(e)
	case opPart:
		p, ok := parts[e.left.typ.class][e.name]
		if !ok {
			return c.errorf(e, "%v has no %s", e.left.typ, e.name)
		}
		e.second, e.typ = p.second, valueType{class: p.class}
		if p.class == classBits {
			e.typ.width = e.left.typ.width
		}
	case opNot, opAnd, opOr, opImplies:
		e.typ = valueType{class: classBool}
		return c.requireClass(classBool, e.left, e.right)
	case opMinus:
		e.typ = valueType{class: classInt}
		return c.requireClass(classInt, e.left)
	default:
		return c.comparison(e)
	}
	return nil
}

func (c *checker) variable(e *expression) error {
	for i, v := range c.variables {
		if v.Name != e.name {
			continue
		}
		if v.Width <= 0 {
			return c.errorf(e, "%s %s has no bit width, which constraints need", c.what, v.Name)
		}
		e.variable, e.typ = i, valueType{class(v.Kind), v.Width}
		return nil
	}
	return c.errorf(e, "there is no %s %s", c.what, e.name)
}

func (c *checker) requireClass(want class, subs ...*expression) error {
	for _, sub := range subs {
		if sub != nil && sub.typ.class != want {
			return c.errorf(sub, "%v stands where %s is wanted", sub.typ, classNames[want])
		}
	}
	return nil
}

// comparison makes both sides the same type.
func (c *checker) comparison(e *expression) error {
	switch l, r := e.left.typ, e.right.typ; {
	case l == r:
	case l.castableTo(r):
		e.left = cast(e.left, r)
	case r.castableTo(l):
		e.right = cast(e.right, l)
	default:
		return c.errorf(e, "%v cannot be compared with %v", l, r)
	}
	if t := e.left.typ; e.op != opEqual && e.op != opDiffers && !t.ordered() {
		return c.errorf(e, "%v has no order; compare one of its parts", t)
	}
	e.typ = valueType{class: classBool}
	return nil
}

// cast wraps e. A number is cast here and now.
func cast(e *expression, to valueType) *expression {
	if e.typ.class == classInt && to.class != classBits {
		e = cast(e, valueType{classBits, to.width})
	}
	if e.op == opNumber && to.class == classBits {
		n := *e
		n.number, n.typ = wrap(e.number, to.width), to
		return &n
	}
	return &expression{op: opCast, typ: to, left: e, from: e.from, to: e.to}
}

// wrap returns n modulo 2^width.
func wrap(n *big.Int, width int) *big.Int {
	return new(big.Int).And(n, ones(width)) // of negative numbers, too: And is two's complement's
}

func ones(width int) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(1), uint(width))
	return n.Sub(n, big.NewInt(1))
}
