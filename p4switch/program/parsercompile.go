package program

import (
	"fmt"
	"math/big"
)

// Parser is a compiled P4 parser: its states, by index. -1 means accept.
type Parser struct {
	States []ParseState
	Init   int32
}

// ParseState is a state of a compiled parser.
type ParseState struct {
	Name  string
	Ops   []ParseOp
	Key   []KeyPiece
	Words int    // words of the select's key; 0: no select
	KeyPC uint32 // code to run before the key is read; 0: none
	Cases []ParseCase
	Plain bool  // a key of one field, one word, no code, cases without value sets
	Next  int32 // next state if no case matches
}

// ParseOp is one operation of a parser state, such as extracting a header.
type ParseOp struct {
	Kind   ParseOpKind
	ID     int    // index of the header, stack or union stack
	Member int    // index of the union's member
	PC     uint32 // place of code to run first; 0: none
	Slot   uint32 // index of the slot that is the operand
	Slot2  uint32
	Offset int // first bit of a lookahead, from the parser's position
	Width  int // width of a lookahead in bits
	Dst    Place
	Sized  bool // the slot has the length of a varbit
	MaxLen int  // largest length in bytes of a header with a varbit; 0: not stated
}

// ParseOpKind is the kind of a [ParseOp].
type ParseOpKind uint8

// ParseExtract and the others are the kinds.
const (
	ParseExtract ParseOpKind = iota
	ParseExtractStack
	ParseExtractUnion
	ParseRun
	ParseLookahead
	ParseAdvance // skip the number of bits in slot
	ParseVerify  // if slot is 0, fail with error Slot2
)

// KeyPiece is one field of the key of a select or table, and its place in the packed key.
type KeyPiece struct {
	Slot      uint32
	Guard     uint32 // slot; while it is 0 the field reads as 0
	Word      uint16
	Words     uint16
	Shift     uint8
	Lookahead bool
	Width     int
	Offset    int // first bit of a lookahead, from the parser's position
}

// ParseCase is one case of a parser state's select.
type ParseCase struct {
	Value       []uint64
	Mask        []uint64
	Next        int32
	Value1      uint64 // value and mask of a Plain select's case
	Mask1       uint64
	ValueSetUse int // index of the value set's use, or -1
}

// layPieces lays pieces of the given widths into words; it returns the number of words.
func layPieces(ps []KeyPiece) int {
	w, used := 0, 0
	for i := range ps {
		p := &ps[i]
		n := WordsFor(p.Width)
		p.Words = uint16(n)
		if n == 1 && used+max(p.Width, 1) <= 64 && i > 0 && used > 0 {
			p.Word, p.Shift = uint16(w-1), uint8(used)
			used += p.Width
			continue
		}
		p.Word, p.Shift = uint16(w), 0
		w += n
		used = 64
		if n == 1 {
			used = p.Width
		}
	}
	return w
}

// packInto writes v into the packed key.
func (p *KeyPiece) packInto(key []uint64, v *big.Int) {
	for i, x := range wordsOf(v, int(p.Words)) {
		if p.Words == 1 {
			x &= MaskOf(p.Width)
		} else if i == int(p.Words)-1 && p.Width%64 != 0 {
			x &= MaskOf(p.Width % 64)
		}
		key[int(p.Word)+i] |= x << p.Shift
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
	c.parser.Init = -1
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
	c.err = ParseErrors{
		None: get("NoError"), TooShort: get("PacketTooShort"), Stack: get("StackOutOfBounds"),
		HeaderTooShort: get("HeaderTooShort"), Invalid: get("ParserInvalidArgument"),
	}
}

// ParseErrors is the numbers that the program gives to P4's core parser errors.
type ParseErrors struct{ None, TooShort, Stack, HeaderTooShort, Invalid uint64 }

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
	c.parser.Init = -1
	if jp.InitState != "" {
		i, err := state(&jp.InitState)
		if err != nil {
			return err
		}
		c.parser.Init = i
	}
	for i := range jp.States {
		js := &jp.States[i]
		st := ParseState{Name: js.Name, Next: -1}
		for k := range js.Ops {
			op, err := c.parserOp(&js.Ops[k])
			if err != nil {
				return fmt.Errorf("state %q: operation %d (%s): %w", js.Name, k, js.Ops[k].Op, err)
			}
			c.freeTemps()
			st.Ops = append(st.Ops, op)
		}
		if err := c.selectKey(js, &st); err != nil {
			return fmt.Errorf("state %q: %w", js.Name, err)
		}
		c.freeTemps()
		for k := range js.Transitions {
			if err := c.compileTransition(&js.Transitions[k], &st, state); err != nil {
				return fmt.Errorf("state %q: transition %d: %w", js.Name, k, err)
			}
		}
		st.Plain = st.Words == 1 && len(st.Key) == 1 && st.KeyPC == 0 && !st.Key[0].Lookahead
		for k := range st.Cases {
			pc := &st.Cases[k]
			if pc.ValueSetUse >= 0 {
				st.Plain = false
			} else {
				pc.Value1, pc.Mask1 = pc.Value[0], pc.Mask[0]
			}
		}
		c.parser.States = append(c.parser.States, st)
	}
	return nil
}

// compileSnippet compiles code that a parser operation runs; 0 when it is empty.
func (c *compiler) compileSnippet(f func() error) (uint32, error) {
	at := len(c.code)
	if err := f(); err != nil {
		return 0, err
	}
	if len(c.code) == at {
		return 0, nil
	}
	c.emitInst(Inst{Op: OpHalt})
	return uint32(at), nil
}

func (c *compiler) parserOp(jo *jParserOp) (ParseOp, error) {
	op := ParseOp{}
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
		c.unionCopy = true // the other members' primitives are other operations
		pc, err := c.compileSnippet(func() error { return c.compilePrimitive(&p) })
		return ParseOp{Kind: ParseRun, PC: pc}, err
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
		op.Kind = ParseVerify
		op.PC, err = c.compileSnippet(func() error {
			if op.Slot, err = c.compileCondition(&vals[0]); err != nil {
				return err
			}
			o, err := c.compileInteger(&vals[1], 32)
			op.Slot2 = o.slot
			return err
		})
	case "advance":
		op.Kind = ParseAdvance
		op.PC, err = c.compileSnippet(func() error {
			op.Slot, err = c.saturateTo64(&vals[0])
			return err
		})
	case "shift":
		op.Kind = ParseAdvance
		if vals[0].Type != "number" || vals[0].num < 0 || vals[0].num > 1<<20 {
			return op, fmt.Errorf("shift by something that is not a number of bytes")
		}
		op.Slot = c.constantSlot(uint64(vals[0].num) * 8)
	}
	return op, err
}

func (c *compiler) setOp(vals []jVal) (ParseOp, error) {
	src, err := unwrap(&vals[1])
	if err != nil {
		return ParseOp{}, err
	}
	if src.Type == "lookahead" {
		var ow []int
		if err := unmarshal(src.Value, &ow); err != nil || len(ow) != 2 || ow[0] < 0 || ow[1] < 1 || ow[0] > 1<<20 || ow[1] > MaxFieldWidth {
			return ParseOp{}, fmt.Errorf("a lookahead is [offset, width] in bits, got %.40s", src.Value)
		}
		d, err := c.compilePlace(&vals[0])
		if err != nil {
			return ParseOp{}, err
		}
		if d.h != nil {
			c.writtenOutside(d.h, d.Field)
		}
		if d.h == nil || d.Field.Varbit {
			return ParseOp{}, fmt.Errorf("%w: lookahead into something that is not a plain field", ErrUnsupported)
		}
		return ParseOp{Kind: ParseLookahead, Dst: d, Offset: ow[0], Width: ow[1], Slot: c.allocSlots(WordsFor(ow[1]))}, nil
	}
	pc, err := c.compileSnippet(func() error { return c.compileAssign(&vals[0], &vals[1]) })
	return ParseOp{Kind: ParseRun, PC: pc}, err
}

func (c *compiler) extractOp(name string, vals []jVal) (ParseOp, error) {
	op := ParseOp{}
	var typ *HeaderType
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
		if c.headers[i].Meta {
			return op, fmt.Errorf("extraction into the metadata %q", n)
		}
		op.Kind, op.ID, typ = ParseExtract, i, c.headers[i].Type
	case "stack":
		n, err := e.str()
		if err != nil {
			return op, err
		}
		i, ok := c.stackByName[n]
		if !ok {
			return op, fmt.Errorf("there is no header stack %q", n)
		}
		op.Kind, op.ID, typ = ParseExtractStack, i, c.stacks[i].typ
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
		op.Kind, op.ID, op.Member = ParseExtractUnion, i, -1
		for k, n := range us.names {
			if n == s[1] {
				op.Member = k
			}
		}
		if op.Member < 0 || len(us.Unions) == 0 {
			return op, fmt.Errorf("header union stack %q has no member %q", s[0], s[1])
		}
		typ = c.headers[c.unions[us.Unions[0]].Headers[op.Member]].Type
	default:
		return op, fmt.Errorf("%w: extract type %q", ErrUnsupported, e.Type)
	}
	op.MaxLen = typ.maxBytes
	if name == "extract" {
		if typ.Varbit >= 0 {
			if typ.lenExp == nil || op.Kind != ParseExtract {
				return op, fmt.Errorf("%w: extract of a header with a varbit needs a length: use extract_VL", ErrUnsupported)
			}
			return c.selfSized(op, typ)
		}
		return op, nil
	}
	if typ.Varbit < 0 {
		return op, fmt.Errorf("extract_VL of header type %q, which has no varbit", typ.name)
	}
	var err error
	op.Sized = true
	op.PC, err = c.compileSnippet(func() error {
		op.Slot, err = c.saturateTo64(&vals[1])
		return err
	})
	return op, err
}

// selfSized compiles the extraction of a header whose own fields say how long
// its varbit is.
func (c *compiler) selfSized(op ParseOp, typ *HeaderType) (ParseOp, error) {
	h := &c.headers[op.ID]
	saved := c.params
	defer func() { c.params = saved }()
	c.params = nil
	for i := range typ.Fields {
		f := &typ.Fields[i]
		c.params = append(c.params, ArgSlots{slot: h.Base + f.Offset, Width: max(f.Width, 1), Words: f.Words})
	}
	h.LenSlot = c.allocSlots(1)
	var err error
	h.LenPC, err = c.compileSnippet(func() error {
		o, err := c.compileInteger(typ.lenExp, exactBits)
		if err != nil {
			return err
		}
		c.emitInst(Inst{Op: OpMov, Dst: h.LenSlot, A: o.slot, Imm: ^uint64(0)})
		return nil
	})
	return op, err
}
