package constraints

import (
	"fmt"
	"math/big"
	"strings"
)

// Kind is how a key field of a P4 table is matched.
type Kind uint8

// Kinds of key fields, in the order of the classes.
const (
	Exact Kind = iota
	Ternary
	LPM
	Range
	Optional
)

// parameter is the kind of an action's parameters.
const parameter = Kind(classBits)

// Variable is what a constraint can name: a key field of a table, or a parameter of an action, for which Kind is not
// used.
type Variable struct {
	Name  string
	Kind  Kind
	Width int // bits; 0: it cannot be used in constraints
}

// Value is an entry's match on a key field, or an action's argument, big-endian. A field that the entry leaves out
// matches everything: its mask or prefix length is 0, its range the whole one.
type Value struct {
	First     []byte // the value, or a range's lower bound
	Second    []byte // the mask, or a range's upper bound
	PrefixLen int
	Wild      bool
}

// Constraint is a compiled P4 annotation @entry_restriction or @action_restriction: a condition on a table's entries or
// an action's arguments.
type Constraint struct {
	text      string
	annotated string
	root      *expression
	variables []Variable
}

const (
	keyField        = "key field"
	actionParameter = "parameter"
)

// Entry compiles the text of an @entry_restriction. key is the table's key.
func Entry(text string, key []Variable) (*Constraint, error) {
	return compile("@entry_restriction", text, keyField, key)
}

// Action compiles the text of an @action_restriction. params are the action's parameters.
func Action(text string, params []Variable) (*Constraint, error) {
	vs := make([]Variable, len(params))
	for i, p := range params {
		p.Kind = parameter
		vs[i] = p
	}
	return compile("@action_restriction", text, actionParameter, vs)
}

func compile(annotation, text, what string, vs []Variable) (*Constraint, error) {
	root, err := parse(text)
	if err == nil {
		c := checker{text: text, what: what, variables: vs}
		if err = c.check(root); err == nil {
			err = c.requireClass(classBool, root)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", annotation, err)
	}
	return &Constraint{text: text, annotated: annotation, root: root, variables: vs}, nil
}

// Find returns the text inside an annotation of a table ("entry_restriction") or an action ("action_restriction"),
// given all its annotations as P4Info has them; "" if it has none. The text may consist of several strings.
func Find(annotations []string, name string) (string, error) {
	for _, a := range annotations {
		rest, ok := strings.CutPrefix(a, "@"+name)
		if !ok {
			continue
		}
		rest = strings.TrimSpace(rest)
		text, opens := strings.CutPrefix(rest, `("`)
		text, closes := strings.CutSuffix(text, `")`)
		if text = strings.ReplaceAll(text, `" "`, "\n"); !opens || !closes || strings.Contains(text, `"`) {
			return "", fmt.Errorf(`@%s: it must be strings in parentheses, ("..."), without quotation marks in them: %s`, name, quote(rest))
		}
		if strings.TrimSpace(text) == "" {
			return "", fmt.Errorf("@%s: the constraint is empty", name)
		}
		return text, nil
	}
	return "", nil
}

// Check returns nil if the values, in the order of the variables, satisfy the constraint. The error quotes the violated
// part.
func (c *Constraint) Check(priority int32, values []Value) error {
	e := &entry{c, priority, values}
	if e.evaluate(c.root) {
		return nil
	}
	why := e.reason(c.root)
	must := "must hold"
	if e.evaluate(why) {
		must = "must not hold"
	}
	return fmt.Errorf("%s: %s %s%s", c.annotated, quote(c.text[why.from:why.to]), must, e.describe(why))
}

// entry is one entry under check.
type entry struct {
	*Constraint
	priority int32
	values   []Value
}

func (e *entry) evaluate(x *expression) bool {
	switch x.op {
	case opTruth:
		return x.truth
	case opNot:
		return !e.evaluate(x.left)
	case opAnd:
		return e.evaluate(x.left) && e.evaluate(x.right)
	case opOr:
		return e.evaluate(x.left) || e.evaluate(x.right)
	case opImplies:
		return !e.evaluate(x.left) || e.evaluate(x.right)
	}
	if x.left.typ.class == classBool {
		return (e.evaluate(x.left) == e.evaluate(x.right)) == (x.op == opEqual)
	}
	l1, l2 := e.operandValue(x.left)
	r1, r2 := e.operandValue(x.right)
	switch order := l1.Cmp(r1); x.op {
	case opEqual:
		return order == 0 && l2.Cmp(r2) == 0
	case opDiffers:
		return order != 0 || l2.Cmp(r2) != 0
	case opGreater:
		return order > 0
	case opGreaterEqual:
		return order >= 0
	case opLess:
		return order < 0
	default: // opLessEqual
		return order <= 0
	}
}

var zero = new(big.Int)

// operandValue evaluates an expression that is not a bool. The second number is the upper bound or mask of a match; 0
// for plain numbers.
func (e *entry) operandValue(x *expression) (first, second *big.Int) {
	switch x.op {
	case opNumber:
		return x.number, zero
	case opPriority:
		return big.NewInt(int64(e.priority)), zero
	case opMinus:
		n, _ := e.operandValue(x.left)
		return new(big.Int).Neg(n), zero
	case opPart:
		first, second = e.operandValue(x.left)
		if x.second {
			first = second
		}
		return first, zero
	case opVariable:
		return e.variableValue(x)
	}
	// A cast.
	n, _ := e.operandValue(x.left)
	switch x.typ.class {
	case classTernary, classOptional:
		return n, ones(x.typ.width)
	case classLPM:
		return n, big.NewInt(int64(x.typ.width))
	case classRange:
		return n, n
	case classBits:
		return wrap(n, x.typ.width), zero
	}
	return n, zero // exact
}

func (e *entry) variableValue(x *expression) (first, second *big.Int) {
	v := &e.values[x.variable]
	first, second = new(big.Int).SetBytes(v.First), zero
	switch x.typ.class {
	case classTernary:
		second = new(big.Int).SetBytes(v.Second)
	case classRange:
		if second = new(big.Int).SetBytes(v.Second); v.Wild {
			second = ones(x.typ.width)
		}
	case classOptional:
		if !v.Wild {
			second = ones(x.typ.width)
		}
	case classLPM:
		second = big.NewInt(int64(v.PrefixLen))
	}
	return first, second
}

// reason returns the smallest subexpression that determines the value of x.
func (e *entry) reason(x *expression) *expression {
	var because []*expression
	switch x.op {
	case opNot:
		return e.reason(x.left)
	case opAnd, opOr:
		for _, sub := range []*expression{x.left, x.right} {
			if e.evaluate(sub) == (x.op == opOr) {
				because = append(because, sub)
			}
		}
	case opImplies:
		if !e.evaluate(x.left) {
			because = append(because, x.left)
		}
		if e.evaluate(x.right) {
			because = append(because, x.right)
		}
	}
	switch len(because) {
	case 0:
		return x
	case 1:
		return e.reason(because[0])
	}
	a, b := e.reason(because[0]), e.reason(because[1])
	if b.size() < a.size() {
		return b
	}
	return a
}

// size is how many operators and operands an expression has.
func (x *expression) size() int {
	if x == nil {
		return 0
	}
	return 1 + x.left.size() + x.right.size()
}

// describe returns the names of the variables in an expression.
func (e *entry) describe(x *expression) string {
	var out []string
	seen := map[string]bool{}
	var visit func(*expression)
	visit = func(x *expression) {
		if x == nil {
			return
		}
		if (x.op == opVariable || x.op == opPriority) && !seen[x.name] {
			seen[x.name] = true
			out = append(out, x.name+" is "+e.print(x))
		}
		visit(x.left)
		visit(x.right)
	}
	visit(x)
	if len(out) == 0 {
		return ""
	}
	return "; " + strings.Join(out, ", ")
}

func (e *entry) print(x *expression) string {
	first, second := e.operandValue(x)
	switch x.typ.class {
	case classTernary, classOptional:
		if second.Sign() == 0 {
			return "not matched"
		}
		return fmt.Sprintf("%#x &&& %#x", first, second)
	case classLPM:
		return fmt.Sprintf("%#x/%d", first, second)
	case classRange:
		return fmt.Sprintf("%#x..%#x", first, second)
	case classInt:
		return first.String()
	}
	return fmt.Sprintf("%#x", first)
}
