package interp

import (
	"fmt"
	"math/big"
)

// parser is a compiled parser: states by index, -1 is accept.
type parser struct {
	states []parseState
	init   int32
}

type parseState struct {
	name  string
	ops   []parseOp
	key   []keyPiece
	words int    // of the key; 0: no select
	keyPC uint32 // code to run before the key is read; 0: none
	cases []parseCase
	plain bool  // a key of one field, one word, no code, cases without value sets
	next  int32 // when no case matches
}

type parseOp struct {
	kind   parseOpKind
	id     int    // header, stack or union stack
	member int    // of the union
	pc     uint32 // code to run first; 0: none
	slot   uint32 // operand
	slot2  uint32
	off    int // lookahead, bits
	width  int // lookahead, bits
	dst    lvalue
	sized  bool // the length of a varbit is in slot
	maxLen int  // bytes of a header with a varbit; 0: unstated
}

type parseOpKind uint8

const (
	parseExtract parseOpKind = iota
	parseExtractStack
	parseExtractUnion
	parseRun
	parseLookahead
	parseAdvance // by the bits in slot
	parseVerify  // slot, else error slot2
)

// keyPiece is one field of a select or table key and its place in the packed key.
type keyPiece struct {
	slot      uint32
	guard     uint32 // slot that is 0 when the field reads as 0
	word      uint16
	words     uint16
	shift     uint8
	lookahead bool
	width     int
	off       int // lookahead, bits
}

type parseCase struct {
	val   []uint64
	mask  []uint64
	next  int32
	val1  uint64 // val and mask of a plain select
	mask1 uint64
	vset  int // use of a value set, or -1
}

// pack lays pieces of the given widths into words; it returns the number of words.
func pack(ps []keyPiece) int {
	w, used := 0, 0
	for i := range ps {
		p := &ps[i]
		n := wordsFor(p.width)
		p.words = uint16(n)
		if n == 1 && used+p.width <= 64 && i > 0 && used > 0 {
			p.word, p.shift = uint16(w-1), uint8(used)
			used += p.width
			continue
		}
		p.word, p.shift = uint16(w), 0
		w += n
		used = 64
		if n == 1 {
			used = p.width
		}
	}
	return w
}

// place writes v into the packed key.
func (p *keyPiece) place(key []uint64, v *big.Int) {
	for i, x := range wordsOf(v, int(p.words)) {
		if p.words == 1 {
			x &= maskOf(p.width)
		} else if i == int(p.words)-1 && p.width%64 != 0 {
			x &= maskOf(p.width % 64)
		}
		key[int(p.word)+i] |= x << p.shift
	}
}

func (c *compiler) compileParsers() error {
	c.errorCodes()
	for i := range c.j.Parsers {
		if c.j.Parsers[i].Name != "parser" && len(c.j.Parsers) > 1 {
			continue
		}
		jp := &c.j.Parsers[i]
		if err := c.compileParser(jp); err != nil {
			return fmt.Errorf("parser %q: %w", jp.Name, err)
		}
		return nil
	}
	c.parser.init = -1
	return nil
}

func (c *compiler) errorCodes() {
	c.errors = map[string]uint64{}
	top := uint64(0)
	for _, e := range c.j.Errors {
		var n string
		var v uint64
		if unmarshal(e[0], &n) == nil && unmarshal(e[1], &v) == nil {
			c.errors[n] = v
			top = max(top, v)
		}
	}
	get := func(n string) uint64 {
		v, ok := c.errors[n]
		if !ok {
			if n != "NoError" || len(c.errors) > 0 {
				top++
			}
			v = top
			c.errors[n] = v
		}
		return v
	}
	c.err = parseErrors{
		none: get("NoError"), tooShort: get("PacketTooShort"), stack: get("StackOutOfBounds"),
		headerTooShort: get("HeaderTooShort"), invalid: get("ParserInvalidArgument"),
	}
}

// parseErrors are the program's values of the core errors.
type parseErrors struct{ none, tooShort, stack, headerTooShort, invalid uint64 }

func (c *compiler) compileParser(jp *jParser) error {
	index := map[string]int32{}
	for i := range jp.States {
		if _, dup := index[jp.States[i].Name]; dup {
			return fmt.Errorf("state %q is declared twice", jp.States[i].Name)
		}
		index[jp.States[i].Name] = int32(i)
	}
	state := func(n *string) (int32, error) {
		if n == nil {
			return -1, nil
		}
		i, ok := index[*n]
		if !ok {
			return 0, fmt.Errorf("there is no state %q", *n)
		}
		return i, nil
	}
	c.parser.init = -1
	if jp.InitState != "" {
		i, err := state(&jp.InitState)
		if err != nil {
			return err
		}
		c.parser.init = i
	}
	for i := range jp.States {
		js := &jp.States[i]
		st := parseState{name: js.Name, next: -1}
		for k := range js.Ops {
			op, err := c.parserOp(&js.Ops[k])
			if err != nil {
				return fmt.Errorf("state %q: operation %d (%s): %w", js.Name, k, js.Ops[k].Op, err)
			}
			c.freeTemps()
			st.ops = append(st.ops, op)
		}
		if err := c.selectKey(js, &st); err != nil {
			return fmt.Errorf("state %q: %w", js.Name, err)
		}
		c.freeTemps()
		for k := range js.Transitions {
			if err := c.transition(&js.Transitions[k], &st, state); err != nil {
				return fmt.Errorf("state %q: transition %d: %w", js.Name, k, err)
			}
		}
		st.plain = st.words == 1 && len(st.key) == 1 && st.keyPC == 0 && !st.key[0].lookahead
		for k := range st.cases {
			pc := &st.cases[k]
			if pc.vset >= 0 {
				st.plain = false
			} else {
				pc.val1, pc.mask1 = pc.val[0], pc.mask[0]
			}
		}
		c.parser.states = append(c.parser.states, st)
	}
	return nil
}

// snippet compiles code that a parser operation runs; 0 when it is empty.
func (c *compiler) snippet(f func() error) (uint32, error) {
	at := len(c.code)
	if err := f(); err != nil {
		return 0, err
	}
	if len(c.code) == at {
		return 0, nil
	}
	c.emit(inst{op: opHalt})
	return uint32(at), nil
}

func (c *compiler) parserOp(jo *jParserOp) (parseOp, error) {
	op := parseOp{}
	vals := make([]jVal, len(jo.Parameters))
	want := map[string]int{"extract": 1, "extract_VL": 2, "set": 2, "verify": 2, "advance": 1, "shift": 1, "primitive": 1}
	if n, ok := want[jo.Op]; !ok {
		return op, fmt.Errorf("%w: parser operation %q", ErrUnsupported, jo.Op)
	} else if n != len(vals) {
		return op, fmt.Errorf("%d parameters where %d are expected", len(vals), n)
	}
	if jo.Op == "primitive" {
		var p jPrimitive
		if err := unmarshal(jo.Parameters[0], &p); err != nil {
			return op, err
		}
		pc, err := c.snippet(func() error { return c.primitive(&p) })
		return parseOp{kind: parseRun, pc: pc}, err
	}
	for i := range vals {
		if err := unmarshal(jo.Parameters[i], &vals[i]); err != nil {
			return op, err
		}
	}
	var err error
	switch jo.Op {
	case "extract", "extract_VL":
		return c.extractOp(jo.Op, vals)
	case "set":
		return c.setOp(vals)
	case "verify":
		op.kind = parseVerify
		op.pc, err = c.snippet(func() error {
			if op.slot, err = c.truth(&vals[0]); err != nil {
				return err
			}
			o, err := c.data(&vals[1], 32)
			op.slot2 = o.slot
			return err
		})
	case "advance":
		op.kind = parseAdvance
		op.pc, err = c.snippet(func() error {
			op.slot, err = c.u64(&vals[0])
			return err
		})
	case "shift":
		op.kind = parseAdvance
		if vals[0].Type != "number" || vals[0].num < 0 || vals[0].num > 1<<20 {
			return op, fmt.Errorf("shift by something that is not a number of bytes")
		}
		op.slot = c.constant(uint64(vals[0].num) * 8)
	}
	return op, err
}

func (c *compiler) setOp(vals []jVal) (parseOp, error) {
	src, err := unwrap(&vals[1])
	if err != nil {
		return parseOp{}, err
	}
	if src.Type == "lookahead" {
		var ow []int
		if err := unmarshal(src.Value, &ow); err != nil || len(ow) != 2 || ow[0] < 0 || ow[1] < 1 || ow[0] > 1<<20 || ow[1] > maxFieldWidth {
			return parseOp{}, fmt.Errorf("a lookahead is [offset, width] in bits, got %.40s", src.Value)
		}
		d, err := c.lvalue(&vals[0])
		if err != nil {
			return parseOp{}, err
		}
		if d.h != nil {
			c.writtenOutside(d.h, d.f)
		}
		if d.h == nil || d.f.varbit {
			return parseOp{}, fmt.Errorf("%w: lookahead into something that is not a plain field", ErrUnsupported)
		}
		return parseOp{kind: parseLookahead, dst: d, off: ow[0], width: ow[1], slot: c.alloc(wordsFor(ow[1]))}, nil
	}
	pc, err := c.snippet(func() error { return c.assign(&vals[0], &vals[1]) })
	return parseOp{kind: parseRun, pc: pc}, err
}

func (c *compiler) extractOp(name string, vals []jVal) (parseOp, error) {
	op := parseOp{}
	var typ *headerType
	e := &vals[0]
	switch e.Type {
	case "regular":
		n, err := e.str()
		if err != nil {
			return op, err
		}
		i, ok := c.headerByName[n]
		if !ok {
			return op, fmt.Errorf("there is no header %q", n)
		}
		if c.headers[i].meta {
			return op, fmt.Errorf("extraction into the metadata %q", n)
		}
		op.kind, op.id, typ = parseExtract, i, c.headers[i].typ
	case "stack":
		n, err := e.str()
		if err != nil {
			return op, err
		}
		i, ok := c.stackByName[n]
		if !ok {
			return op, fmt.Errorf("there is no header stack %q", n)
		}
		op.kind, op.id, typ = parseExtractStack, i, c.stacks[i].typ
	case "union_stack":
		s, err := e.strs(2)
		if err != nil {
			return op, err
		}
		i, ok := c.unionStackByName[s[0]]
		if !ok {
			return op, fmt.Errorf("there is no header union stack %q", s[0])
		}
		us := &c.unionStacks[i]
		op.kind, op.id, op.member = parseExtractUnion, i, -1
		for k, n := range us.names {
			if n == s[1] {
				op.member = k
			}
		}
		if op.member < 0 || len(us.unions) == 0 {
			return op, fmt.Errorf("header union stack %q has no member %q", s[0], s[1])
		}
		typ = c.headers[c.unions[us.unions[0]].headers[op.member]].typ
	default:
		return op, fmt.Errorf("%w: extract type %q", ErrUnsupported, e.Type)
	}
	op.maxLen = typ.maxBytes
	if name == "extract" {
		if typ.vl >= 0 {
			if typ.lenExp == nil || op.kind != parseExtract {
				return op, fmt.Errorf("%w: extract of a header with a varbit and no length of its own; extract_VL is needed", ErrUnsupported)
			}
			return c.selfSized(op, typ)
		}
		return op, nil
	}
	if typ.vl < 0 {
		return op, fmt.Errorf("extract_VL of header type %q, which has no varbit", typ.name)
	}
	var err error
	op.sized = true
	op.pc, err = c.snippet(func() error {
		op.slot, err = c.u64(&vals[1])
		return err
	})
	return op, err
}

// selfSized compiles the extraction of a header whose own fields say how long
// its varbit is.
func (c *compiler) selfSized(op parseOp, typ *headerType) (parseOp, error) {
	h := &c.headers[op.id]
	saved := c.params
	defer func() { c.params = saved }()
	c.params = nil
	for i := range typ.fields {
		f := &typ.fields[i]
		c.params = append(c.params, param{slot: h.base + f.off, width: max(f.width, 1), words: f.words})
	}
	h.lenSlot = c.alloc(1)
	var err error
	h.lenPC, err = c.snippet(func() error {
		o, err := c.data(typ.lenExp, all)
		if err != nil {
			return err
		}
		c.emit(inst{op: opMov, dst: h.lenSlot, a: o.slot, imm: ^uint64(0)})
		return nil
	})
	return op, err
}
