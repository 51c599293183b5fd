package program

import (
	"encoding/json"
	"fmt"
)

// A packet's headers and metadata live in one array of 64-bit slots, the same
// array that holds the program's constants, the arguments of the action that
// runs and the temporaries of expressions, so that every operand of every
// instruction is just an index:
//
//	0        always 0
//	1        always 1
//	..       metadata headers     } cleared per packet
//	..       all other headers    }
//	..       stack counts         }
//	..       action arguments
//	..       temporaries
//	..       constants, written when the packet is made
//
// A field of up to 64 bits, also of none, is one slot, a wider one several, least
// significant first. After a header's fields come the length in bits of its
// varbit field, if it has one, its validity, and where its bytes are.

// SlotZero and the others are slots that every frame has.
const (
	SlotZero = 0
	SlotOne  = 1

	maxSlots      = 1 << 20
	MaxFieldWidth = 1 << 14 // largest width of a field, in bits
)

// Field is a field of a header type.
type Field struct {
	name   string
	Width  int // width in bits; of a varbit the maximum
	Words  int
	Offset uint32 // slot of the field, from the header's first slot
	signed bool
	sat    bool // assignments saturate
	Varbit bool
}

// HeaderType is the layout of a header: slots in a packet's state, and bits on the wire.
type HeaderType struct {
	name     string
	Fields   []Field
	byName   map[string]int
	Size     int // number of slots of a header
	Valid    uint32
	raw      uint32 // slot offset of where the header is in the packet's bytes, plus 1; 0: only in slots
	dirty    uint32 // slot offset of the set of fields that differ from those bytes
	VarLen   uint32 // slot that holds the varbit's length, from the header's first slot; if there is a varbit
	Varbit   int    // index of the varbit field, or -1
	Fixed    int    // length on the wire without the varbit, in bits
	maxBytes int    // most bytes of a header with a varbit; 0: unstated
	lenExp   *jVal
}

// Header is a header or metadata instance of the program.
type Header struct {
	name    string
	Type    *HeaderType
	Base    uint32
	valid   uint32 // slot of its validity
	Meta    bool
	index   int // into headers
	Union   int // index of the header union that it is in, or -1
	placed  bool
	LenPC   uint32 // code that computes a varbit's length into LenSlot, if the header has a length field
	LenSlot uint32
}

// ValidSlot returns the slot that is not 0 while the header is valid.
func (h *Header) ValidSlot() uint32 { return h.valid }

// Stack is a header stack.
type Stack struct {
	name    string
	typ     *HeaderType
	Headers []int // indices of its headers in Program.Headers
	Next    uint32
}

// Union is a header union.
type Union struct {
	name    string
	typ     string
	Headers []int
	names   []string
}

// UnionStack is a stack of header unions.
type UnionStack struct {
	name   string
	Unions []int
	names  []string // of the members
	Next   uint32
}

func (c *compiler) layoutTypes() error {
	c.types = map[string]*HeaderType{}
	for i := range c.j.HeaderTypes {
		jt := &c.j.HeaderTypes[i]
		t := &HeaderType{name: jt.Name, byName: map[string]int{}, Varbit: -1, maxBytes: jt.MaxLength, lenExp: jt.LengthExp}
		if c.types[jt.Name] != nil {
			return fmt.Errorf("header type %q is declared twice", jt.Name)
		}
		for _, jf := range jt.Fields {
			if err := t.addField(jf); err != nil {
				return fmt.Errorf("header type %q: %w", jt.Name, err)
			}
		}
		if t.Varbit >= 0 {
			f := &t.Fields[t.Varbit]
			f.Width = t.maxBytes*8 - t.Fixed
			if t.maxBytes == 0 {
				f.Width = MaxFieldWidth / 8
			}
			if f.Width < 0 || f.Width > MaxFieldWidth {
				return fmt.Errorf("header type %q: max_length %d leaves no room for field %q, or more than %d bits", jt.Name, t.maxBytes, f.name, MaxFieldWidth)
			}
			f.Words = max(1, (f.Width+63)/64)
		}
		for i := range t.Fields {
			t.Fields[i].Offset = uint32(t.Size)
			t.Size += t.Fields[i].Words
		}
		if t.Varbit >= 0 {
			t.VarLen = uint32(t.Size)
			t.Size++
		}
		t.Valid = uint32(t.Size)
		t.raw, t.dirty = t.Valid+1, t.Valid+2
		t.Size += 3
		c.types[jt.Name] = t
	}
	return nil
}

func (t *HeaderType) addField(jf []jRaw) error {
	f := Field{}
	if len(jf) < 2 {
		return fmt.Errorf("a field is [name, width], with an optional third and fourth boolean")
	}
	if err := json.Unmarshal(jf[0], &f.name); err != nil {
		return fmt.Errorf("field name %.40s is not a string", jf[0])
	}
	if string(jf[1]) == `"*"` {
		if t.Varbit >= 0 {
			return fmt.Errorf("field %q is the second of variable length; a header has at most one", f.name)
		}
		f.Varbit = true
		t.Varbit = len(t.Fields)
	} else {
		if err := json.Unmarshal(jf[1], &f.Width); err != nil || f.Width < 0 || f.Width > MaxFieldWidth {
			return fmt.Errorf("field %q: width %.20s is not between 0 and %d bits", f.name, jf[1], MaxFieldWidth)
		}
		f.Words = WordsFor(f.Width)
		t.Fixed += f.Width
	}
	for i, p := range []*bool{&f.signed, &f.sat} {
		if len(jf) > 2+i {
			switch string(jf[2+i]) {
			case "true", "1":
				*p = true
			case "false", "0", "null":
			default:
				return fmt.Errorf("field %q: %.20s is not a boolean", f.name, jf[2+i])
			}
		}
	}
	if _, dup := t.byName[f.name]; dup {
		return fmt.Errorf("field %q is declared twice", f.name)
	}
	t.byName[f.name] = len(t.Fields)
	t.Fields = append(t.Fields, f)
	return nil
}

// layoutHeaders places every header instance. Members of stacks are placed
// one after the other, in order.
func (c *compiler) layoutHeaders() error {
	byID, err := c.declareHeaders()
	if err != nil {
		return err
	}
	c.usage = make([]headerUse, len(c.headers))
	c.phvLo = c.slots
	for i := range c.headers {
		if c.headers[i].Meta {
			c.placeHeader(i)
		}
	}
	c.metaHi = c.slots
	if err := c.layoutUnions(byID); err != nil {
		return err
	}
	if err := c.layoutStacks(byID); err != nil {
		return err
	}
	for i := range c.headers {
		c.placeHeader(i)
	}
	for i := range c.stacks {
		c.stacks[i].Next = c.allocSlots(1)
	}
	for i := range c.unionStacks {
		c.unionStacks[i].Next = c.allocSlots(1)
	}
	c.phvHi = c.slots
	return nil
}

// declareHeaders lists the header instances; byID finds them as the program names them.
func (c *compiler) declareHeaders() (byID map[int]int, err error) {
	c.headerByName = map[string]int{}
	byID = map[int]int{}
	c.headers = make([]Header, 0, len(c.j.Headers))
	total := 0
	for i := range c.j.Headers {
		jh := &c.j.Headers[i]
		t := c.types[jh.HeaderType]
		if t == nil {
			return nil, fmt.Errorf("header %q has the unknown type %q", jh.Name, jh.HeaderType)
		}
		if _, dup := c.headerByName[jh.Name]; dup {
			return nil, fmt.Errorf("header %q is declared twice", jh.Name)
		}
		if _, dup := byID[jh.ID]; dup {
			return nil, fmt.Errorf("header %q: id %d is taken", jh.Name, jh.ID)
		}
		if !jh.Metadata && t.Varbit < 0 && t.Fixed%8 != 0 {
			return nil, fmt.Errorf("header %q: its %d bits are not whole bytes", jh.Name, t.Fixed)
		}
		byID[jh.ID] = len(c.headers)
		c.headerByName[jh.Name] = len(c.headers)
		c.headers = append(c.headers, Header{name: jh.Name, Type: t, Meta: jh.Metadata, Union: -1, index: len(c.headers)})
		if total += t.Size; total > maxSlots {
			return nil, fmt.Errorf("%w: headers and metadata of more than %d words", ErrUnsupported, maxSlots)
		}
	}
	return byID, nil
}

// placeHeader allocates the slots of a header, if it has none.
func (c *compiler) placeHeader(i int) {
	h := &c.headers[i]
	if !h.placed {
		h.Base, h.placed = c.allocSlots(h.Type.Size), true
		h.valid = h.Base + h.Type.Valid
	}
}

// headersOf returns the headers of a union or stack.
func headersOf(byID map[int]int, what, name string, l []int) ([]int, error) {
	if len(l) > 1<<16 {
		return nil, fmt.Errorf("%s %q: %d members are too many", what, name, len(l))
	}
	out := make([]int, len(l))
	for k, id := range l {
		i, ok := byID[id]
		if !ok {
			return nil, fmt.Errorf("%s %q: there is no header with id %d", what, name, id)
		}
		out[k] = i
	}
	return out, nil
}

func (c *compiler) layoutUnions(byID map[int]int) error {
	c.unionByName, c.unionStackByName = map[string]int{}, map[string]int{}
	unionNames := map[string][]string{}
	for _, ut := range c.j.HeaderUnionTypes {
		for _, h := range ut.Headers {
			unionNames[ut.Name] = append(unionNames[ut.Name], h[0])
		}
	}
	unionID := map[int]int{}
	for _, ju := range c.j.HeaderUnions {
		m, err := headersOf(byID, "header union", ju.Name, ju.HeaderIDs)
		if err != nil {
			return err
		}
		unionID[ju.ID] = len(c.unions)
		c.unionByName[ju.Name] = len(c.unions)
		for _, i := range m {
			if c.headers[i].Union >= 0 || c.headers[i].Meta {
				return fmt.Errorf("header union %q: header %q is metadata or in another union", ju.Name, c.headers[i].name)
			}
			c.headers[i].Union = len(c.unions)
		}
		c.unions = append(c.unions, Union{name: ju.Name, typ: ju.UnionType, Headers: m, names: unionNames[ju.UnionType]})
	}
	for _, js := range c.j.HeaderUnionStacks {
		s := UnionStack{name: js.Name, names: unionNames[js.UnionType]}
		for _, id := range js.UnionIDs {
			u, ok := unionID[id]
			if !ok || len(c.unions[u].Headers) != len(s.names) {
				return fmt.Errorf("header union stack %q: there is no header union with id %d, or not of the stack's type", js.Name, id)
			}
			s.Unions = append(s.Unions, u)
		}
		c.unionStackByName[js.Name] = len(c.unionStacks)
		c.unionStacks = append(c.unionStacks, s)
	}
	return nil
}

func (c *compiler) layoutStacks(byID map[int]int) error {
	c.stackByName = map[string]int{}
	for _, js := range c.j.HeaderStacks {
		m, err := headersOf(byID, "header stack", js.Name, js.HeaderIDs)
		if err != nil {
			return err
		}
		s := Stack{name: js.Name, Headers: m, typ: c.types[js.HeaderType]}
		if s.typ == nil {
			return fmt.Errorf("header stack %q has the unknown type %q", js.Name, js.HeaderType)
		}
		for _, i := range m {
			if c.headers[i].Type != s.typ {
				return fmt.Errorf("header stack %q: header %q is of type %q, not %q", js.Name, c.headers[i].name, c.headers[i].Type.name, s.typ.name)
			}
			c.placeHeader(i)
		}
		c.stackByName[js.Name] = len(c.stacks)
		c.stacks = append(c.stacks, s)
	}
	return nil
}

// allocSlots allocates n slots.
func (c *compiler) allocSlots(n int) uint32 {
	at := c.slots
	c.slots += uint32(n)
	return at
}

// Ref is a field of a header instance.
type Ref struct {
	h     *Header
	Field *Field
}

// Slot returns the first slot of the field.
func (r Ref) Slot() uint32 { return r.h.Base + r.Field.Offset }

// Guard returns a slot that is 1 while the field may be read.
func (r Ref) Guard() uint32 {
	if r.h.Meta {
		return SlotOne
	}
	return r.h.ValidSlot()
}

// fieldRef resolves [header, field]; "$valid$" is the header's validity. The
// program is taken to read the field.
func (c *compiler) fieldRef(hn, fn string) (Ref, error) {
	r, err := c.resolveField(hn, fn)
	if err == nil {
		c.noteRead(r)
	}
	return r, err
}

// resolveField is fieldRef for a field that is not read.
func (c *compiler) resolveField(hn, fn string) (Ref, error) {
	i, ok := c.headerByName[hn]
	if !ok {
		return Ref{}, fmt.Errorf("there is no header %q (field %q)", hn, fn)
	}
	h := &c.headers[i]
	if fn == "$valid$" {
		return Ref{h, &Field{name: fn, Width: 1, Words: 1, Offset: h.Type.Valid}}, nil
	}
	k, ok := h.Type.byName[fn]
	if !ok {
		return Ref{}, fmt.Errorf("header %q of type %q has no field %q", hn, h.Type.name, fn)
	}
	return Ref{h, &h.Type.Fields[k]}, nil
}

// standardField resolves a field that simple_switch knows by name, through the
// program's aliases.
func (c *compiler) standardField(name string, hn, fn string) (Ref, bool) {
	if a, ok := c.aliases[name]; ok {
		hn, fn = a[0], a[1]
	}
	r, err := c.fieldRef(hn, fn)
	return r, err == nil
}
