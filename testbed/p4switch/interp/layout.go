package interp

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
// A field of up to 64 bits is one slot, a wider one several, least
// significant first. After a header's fields come the length in bits of its
// varbit field, if it has one, its validity, and where its bytes are.

const (
	slotZero = 0
	slotOne  = 1

	maxSlots      = 1 << 20
	maxFieldWidth = 1 << 14 // bits
)

type field struct {
	name   string
	width  int // bits; of a varbit the most it holds
	words  int
	off    uint32 // slots from the header's base
	signed bool
	sat    bool // assignments saturate
	varbit bool
}

type headerType struct {
	name     string
	fields   []field
	byName   map[string]int
	size     int // slots
	valid    uint32
	raw      uint32 // slot offset of where the header is in the packet's bytes, plus 1; 0: only in slots
	dirty    uint32 // slot offset of the set of fields that differ from those bytes
	varLen   uint32 // slot offset of the varbit's length, if vl >= 0
	vl       int    // index of the varbit field, or -1
	fixed    int    // bits without the varbit
	maxBytes int    // most bytes of a header with a varbit; 0: unstated
	lenExp   *jVal
}

type header struct {
	name    string
	typ     *headerType
	base    uint32
	valid   uint32 // slot of its validity
	meta    bool
	index   int // into headers
	union   int // index into unions, or -1
	placed  bool
	lenPC   uint32 // code that computes the varbit's length into lenSlot, of headers that say it themselves
	lenSlot uint32
}

func (h *header) validSlot() uint32 { return h.valid }

type stack struct {
	name    string
	typ     *headerType
	headers []int // indices into headers
	next    uint32
}

type union struct {
	name    string
	typ     string
	headers []int
	names   []string
}

type unionStack struct {
	name   string
	unions []int
	names  []string // of the members
	next   uint32
}

func (c *compiler) layoutTypes() error {
	c.types = map[string]*headerType{}
	for i := range c.j.HeaderTypes {
		jt := &c.j.HeaderTypes[i]
		t := &headerType{name: jt.Name, byName: map[string]int{}, vl: -1, maxBytes: jt.MaxLength, lenExp: jt.LengthExp}
		if c.types[jt.Name] != nil {
			return fmt.Errorf("header type %q is declared twice", jt.Name)
		}
		for _, jf := range jt.Fields {
			if err := t.addField(jf); err != nil {
				return fmt.Errorf("header type %q: %w", jt.Name, err)
			}
		}
		if t.vl >= 0 {
			f := &t.fields[t.vl]
			f.width = t.maxBytes*8 - t.fixed
			if t.maxBytes == 0 {
				f.width = maxFieldWidth / 8
			}
			if f.width < 0 || f.width > maxFieldWidth {
				return fmt.Errorf("header type %q: max_length %d leaves no room for field %q, or more than %d bits", jt.Name, t.maxBytes, f.name, maxFieldWidth)
			}
			f.words = max(1, (f.width+63)/64)
		}
		for i := range t.fields {
			t.fields[i].off = uint32(t.size)
			t.size += t.fields[i].words
		}
		if t.vl >= 0 {
			t.varLen = uint32(t.size)
			t.size++
		}
		t.valid = uint32(t.size)
		t.raw, t.dirty = t.valid+1, t.valid+2
		t.size += 3
		c.types[jt.Name] = t
	}
	return nil
}

func (t *headerType) addField(jf []jRaw) error {
	f := field{}
	if len(jf) < 2 {
		return fmt.Errorf("a field is [name, width], with an optional third and fourth boolean")
	}
	if err := json.Unmarshal(jf[0], &f.name); err != nil {
		return fmt.Errorf("field name %.40s is not a string", jf[0])
	}
	if string(jf[1]) == `"*"` {
		if t.vl >= 0 {
			return fmt.Errorf("field %q is the second of variable length; a header has at most one", f.name)
		}
		f.varbit = true
		t.vl = len(t.fields)
	} else {
		if err := json.Unmarshal(jf[1], &f.width); err != nil || f.width < 1 || f.width > maxFieldWidth {
			return fmt.Errorf("field %q: width %.20s is not between 1 and %d bits", f.name, jf[1], maxFieldWidth)
		}
		f.words = (f.width + 63) / 64
		t.fixed += f.width
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
	t.byName[f.name] = len(t.fields)
	t.fields = append(t.fields, f)
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
		if c.headers[i].meta {
			c.place(i)
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
		c.place(i)
	}
	for i := range c.stacks {
		c.stacks[i].next = c.alloc(1)
	}
	for i := range c.unionStacks {
		c.unionStacks[i].next = c.alloc(1)
	}
	c.phvHi = c.slots
	return nil
}

// declareHeaders lists the header instances; byID finds them as the program names them.
func (c *compiler) declareHeaders() (byID map[int]int, err error) {
	c.headerByName = map[string]int{}
	byID = map[int]int{}
	c.headers = make([]header, 0, len(c.j.Headers))
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
		if !jh.Metadata && t.vl < 0 && t.fixed%8 != 0 {
			return nil, fmt.Errorf("header %q: its %d bits are not whole bytes", jh.Name, t.fixed)
		}
		byID[jh.ID] = len(c.headers)
		c.headerByName[jh.Name] = len(c.headers)
		c.headers = append(c.headers, header{name: jh.Name, typ: t, meta: jh.Metadata, union: -1, index: len(c.headers)})
		if total += t.size; total > maxSlots {
			return nil, fmt.Errorf("%w: headers and metadata of more than %d words", ErrUnsupported, maxSlots)
		}
	}
	return byID, nil
}

// place gives a header its slots, if it has none.
func (c *compiler) place(i int) {
	h := &c.headers[i]
	if !h.placed {
		h.base, h.placed = c.alloc(h.typ.size), true
		h.valid = h.base + h.typ.valid
	}
}

// members returns the headers of a union or stack.
func members(byID map[int]int, what, name string, l []int) ([]int, error) {
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
		m, err := members(byID, "header union", ju.Name, ju.HeaderIDs)
		if err != nil {
			return err
		}
		unionID[ju.ID] = len(c.unions)
		c.unionByName[ju.Name] = len(c.unions)
		for _, i := range m {
			if c.headers[i].union >= 0 || c.headers[i].meta {
				return fmt.Errorf("header union %q: header %q is metadata or in another union", ju.Name, c.headers[i].name)
			}
			c.headers[i].union = len(c.unions)
		}
		c.unions = append(c.unions, union{name: ju.Name, typ: ju.UnionType, headers: m, names: unionNames[ju.UnionType]})
	}
	for _, js := range c.j.HeaderUnionStacks {
		s := unionStack{name: js.Name, names: unionNames[js.UnionType]}
		for _, id := range js.UnionIDs {
			u, ok := unionID[id]
			if !ok || len(c.unions[u].headers) != len(s.names) {
				return fmt.Errorf("header union stack %q: there is no header union with id %d, or not of the stack's type", js.Name, id)
			}
			s.unions = append(s.unions, u)
		}
		c.unionStackByName[js.Name] = len(c.unionStacks)
		c.unionStacks = append(c.unionStacks, s)
	}
	return nil
}

func (c *compiler) layoutStacks(byID map[int]int) error {
	c.stackByName = map[string]int{}
	for _, js := range c.j.HeaderStacks {
		m, err := members(byID, "header stack", js.Name, js.HeaderIDs)
		if err != nil {
			return err
		}
		s := stack{name: js.Name, headers: m, typ: c.types[js.HeaderType]}
		if s.typ == nil {
			return fmt.Errorf("header stack %q has the unknown type %q", js.Name, js.HeaderType)
		}
		for _, i := range m {
			if c.headers[i].typ != s.typ {
				return fmt.Errorf("header stack %q: header %q is of type %q, not %q", js.Name, c.headers[i].name, c.headers[i].typ.name, s.typ.name)
			}
			c.place(i)
		}
		c.stackByName[js.Name] = len(c.stacks)
		c.stacks = append(c.stacks, s)
	}
	return nil
}

// alloc takes n slots.
func (c *compiler) alloc(n int) uint32 {
	at := c.slots
	c.slots += uint32(n)
	return at
}

// ref is a field of a header instance.
type ref struct {
	h *header
	f *field
}

func (r ref) slot() uint32 { return r.h.base + r.f.off }

// guard is a slot that is 1 while the field may be read.
func (r ref) guard() uint32 {
	if r.h.meta {
		return slotOne
	}
	return r.h.validSlot()
}

// fieldRef resolves [header, field]; "$valid$" is the header's validity. The
// program is taken to read the field.
func (c *compiler) fieldRef(hn, fn string) (ref, error) {
	r, err := c.resolve(hn, fn)
	if err == nil {
		c.use(r)
	}
	return r, err
}

// resolve is fieldRef for a field that is not read.
func (c *compiler) resolve(hn, fn string) (ref, error) {
	i, ok := c.headerByName[hn]
	if !ok {
		return ref{}, fmt.Errorf("there is no header %q (field %q)", hn, fn)
	}
	h := &c.headers[i]
	if fn == "$valid$" {
		return ref{h, &field{name: fn, width: 1, words: 1, off: h.typ.valid}}, nil
	}
	k, ok := h.typ.byName[fn]
	if !ok {
		return ref{}, fmt.Errorf("header %q of type %q has no field %q", hn, h.typ.name, fn)
	}
	return ref{h, &h.typ.fields[k]}, nil
}

// standard resolves a field that simple_switch knows by name, through the
// program's aliases.
func (c *compiler) standard(name string, hn, fn string) (ref, bool) {
	if a, ok := c.aliases[name]; ok {
		hn, fn = a[0], a[1]
	}
	r, err := c.fieldRef(hn, fn)
	return r, err == nil
}
