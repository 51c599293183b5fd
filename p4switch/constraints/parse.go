package constraints

import (
	"fmt"
	"math/big"
	"net"
	"net/netip"
)

// operation is the operator of an expression.
type operation uint8

const (
	opTruth    operation = iota // the constant true or false
	opNumber                    // an integer constant
	opVariable                  // a key field or a parameter
	opPart                      // one part of a key field's value
	opPriority                  // the table entry's priority
	opNot
	opMinus
	opCast
	opAnd
	opOr
	opImplies
	opEqual
	opDiffers
	opGreater
	opGreaterEqual
	opLess
	opLessEqual
)

// expression is a node of the syntax tree.
type expression struct {
	op          operation
	typ         valueType
	from, to    int // bytes of the text
	left, right *expression

	truth    bool
	number   *big.Int
	variable int    // index of the caller's variables
	name     string // of a variable, part or attribute
	second   bool   // the part is the second one: a mask or an upper bound
}

// What bounds a constraint, whose text comes from a controller.
const (
	maxNodes = 2000
	maxDepth = 200
)

// binding is an operator's precedence, and whether it may be chained.
type binding struct {
	strength int
	row      bool
	op       operation
}

var bindings = map[string]binding{
	"::": {7, true, opPart},
	"==": {5, false, opEqual}, "!=": {5, false, opDiffers}, ">": {5, false, opGreater}, ">=": {5, false, opGreaterEqual},
	"<": {5, false, opLess}, "<=": {5, false, opLessEqual},
	"&&": {4, true, opAnd}, "||": {3, true, opOr}, "->": {2, false, opImplies}, ";": {1, true, opAnd},
}

const unary = 6 // binding strength of the unary operators ! and -

// parser reads a constraint by precedence: the language specification's grammar and table.
type parser struct {
	text   string
	tokens []token
	at     int
	nodes  int
	depth  int
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != kindEnd {
		p.at++
	}
	return t
}

func (p *parser) expect(kind string) (token, error) {
	t := p.next()
	if t.kind != kind {
		return t, p.unexpected(t, kind)
	}
	return t, nil
}

func (p *parser) unexpected(t token, want string) error {
	if t.kind == kindEnd {
		return fmt.Errorf("%s ends where %s is wanted", quote(p.text), want)
	}
	return fmt.Errorf("%s stands where %s is wanted: %s", quote(p.text[t.from:t.to]), want, quote(p.text[t.from:]))
}

// parse reads a whole constraint.
func parse(text string) (*expression, error) {
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{text: text, tokens: tokens}
	e, err := p.parseBinary(0)
	if err != nil {
		return nil, err
	}
	if _, err := p.expect(kindEnd); err != nil {
		return nil, err
	}
	return e, nil
}

func (p *parser) newNode(e expression) (*expression, error) {
	if p.nodes++; p.nodes > maxNodes {
		return nil, fmt.Errorf("the constraint has more than %d operators and operands", maxNodes)
	}
	return &e, nil
}

// parseBinary reads an expression whose operators bind more strongly than the context's.
func (p *parser) parseBinary(context int) (*expression, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("the constraint nests deeper than %d levels", maxDepth)
	}
	defer func() { p.depth-- }()
	e, err := p.parsePrimary()
	for err == nil {
		t := p.peek()
		b, ok := bindings[t.kind]
		switch {
		case t.kind == kindEnd || t.kind == ")":
			return e, nil
		case !ok:
			return nil, p.unexpected(t, "an operator")
		case b.strength == context && !b.row:
			return nil, fmt.Errorf("%s is in a row with another of its kind: put one of them in parentheses: %s", quote(t.kind), quote(p.text[e.from:]))
		case b.strength <= context:
			return e, nil
		}
		p.next()
		if after := p.peek().kind; t.kind == ";" && (after == kindEnd || after == ")") {
			return e, nil
		}
		e, err = p.extend(e, b)
	}
	return nil, err
}

// extend parses the operators and operands that follow an expression.
func (p *parser) extend(left *expression, b binding) (*expression, error) {
	if b.op == opPart {
		t, err := p.expect(kindIdentifier)
		if err != nil {
			return nil, err
		}
		return p.newNode(expression{op: opPart, left: left, name: p.text[t.from:t.to], from: left.from, to: t.to})
	}
	right, err := p.parseBinary(b.strength)
	if err != nil {
		return nil, err
	}
	return p.newNode(expression{op: b.op, left: left, right: right, from: left.from, to: right.to})
}

// parsePrimary parses the first operand of an expression.
func (p *parser) parsePrimary() (*expression, error) {
	t := p.next()
	word := p.text[t.from:t.to]
	switch t.kind {
	case "true", "false":
		return p.newNode(expression{op: opTruth, truth: t.kind == "true", from: t.from, to: t.to})
	case kindNumber:
		base, digits := 10, word
		if len(word) > 2 && !isDigit(word[1]) {
			base, digits = bases[word[1]|0x20].base, word[2:]
		}
		n, ok := new(big.Int).SetString(digits, base)
		if !ok {
			return nil, fmt.Errorf("%s is no number", quote(word))
		}
		return p.newNode(expression{op: opNumber, number: n, from: t.from, to: t.to})
	case kindIdentifier:
		if p.peek().kind == "(" {
			return p.address(t)
		}
		for p.peek().kind == "." {
			p.next()
			id, err := p.expect(kindIdentifier)
			if err != nil {
				return nil, err
			}
			word += "." + p.text[id.from:id.to]
			t.to = id.to
		}
		return p.newNode(expression{op: opVariable, name: word, from: t.from, to: t.to})
	case "::":
		id, err := p.expect(kindIdentifier)
		if err != nil {
			return nil, err
		}
		return p.newNode(expression{op: opPriority, name: p.text[id.from:id.to], from: t.from, to: id.to})
	case "!", "-":
		e, err := p.parseBinary(unary)
		if err != nil {
			return nil, err
		}
		op := opNot
		if t.kind == "-" {
			op = opMinus
		}
		return p.newNode(expression{op: op, left: e, from: t.from, to: e.to})
	case "(":
		e, err := p.parseBinary(0)
		if err != nil {
			return nil, err
		}
		end, err := p.expect(")")
		e.from, e.to = t.from, end.to
		return e, err
	}
	return nil, p.unexpected(t, "an operand")
}

// address reads a network address after its kind, ipv4('10.0.0.1').
func (p *parser) address(kind token) (*expression, error) {
	p.next()
	s, err := p.expect(kindString)
	if err != nil {
		return nil, err
	}
	end, err := p.expect(")")
	if err != nil {
		return nil, err
	}
	text := p.text[s.from+1 : s.to-1]
	var b []byte
	switch name := p.text[kind.from:kind.to]; name {
	case "ipv4", "ipv6":
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" || a.Is4() != (name == "ipv4") {
			return nil, fmt.Errorf("%s is no address: %s", quote(text), quote(p.text[kind.from:end.to]))
		}
		b = a.AsSlice()
	case "mac":
		if b, err = net.ParseMAC(text); err != nil || len(b) != 6 {
			return nil, fmt.Errorf("%s is no address: %s", quote(text), quote(p.text[kind.from:end.to]))
		}
	default:
		return nil, fmt.Errorf("%s is no kind of address; there are ipv4, ipv6 and mac", quote(name))
	}
	return p.newNode(expression{op: opNumber, number: new(big.Int).SetBytes(b), from: kind.from, to: end.to})
}
