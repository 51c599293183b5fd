package interp

// Most fields of most headers are only carried from one port to another. The
// compiler notes what a program does with each header, so that extraction
// reads only the fields that are used, and deparsing copies the header's
// bytes and puts in the fields that the program wrote.

// headerUse is what the program does with one header instance.
type headerUse struct {
	used    []bool // fields read
	written []bool
	whole   bool // also copied, compared or reached by an index: all its fields live in slots
}

func (c *compiler) useOf(h int) *headerUse {
	u := &c.usage[h]
	if u.used == nil {
		n := len(c.headers[h].typ.fields)
		u.used, u.written = make([]bool, n), make([]bool, n)
	}
	return u
}

// use notes that the program reads a field.
func (c *compiler) use(r ref) {
	if k, ok := r.h.typ.byName[r.f.name]; ok {
		c.useOf(r.h.index).used[k] = true
	}
}

// wrote follows code that writes a field of a header known by name: when the
// header is kept in the packet's bytes, deparsing has to know.
func (c *compiler) wrote(h *header, f *field) {
	k, ok := h.typ.byName[f.name]
	if !ok || h.meta || h.typ.vl >= 0 {
		return
	}
	if k >= 64 {
		c.whole(h.index)
		return
	}
	c.useOf(h.index).written[k] = true
	c.emit(inst{op: opDirty, dst: h.base + h.typ.dirty, imm: 1 << k})
}

// writtenOutside notes that a field is written by other than code: such
// headers are not kept in the packet's bytes.
func (c *compiler) writtenOutside(h *header, f *field) {
	if !h.meta {
		c.whole(h.index)
	}
	c.use(ref{h, f})
}

// whole notes that header h is handled as a whole.
func (c *compiler) whole(h int) { c.useOf(h).whole = true }

func (c *compiler) wholeAll(hs []int) {
	for _, h := range hs {
		c.whole(h)
	}
}

// wholeUnions does so for the members of unions.
func (c *compiler) wholeUnions(us []int) {
	for _, u := range us {
		c.wholeAll(c.unions[u].headers)
	}
}

// lazy reports whether a header may stay in the packet's bytes.
func (c *compiler) lazy(h int) bool {
	hd := &c.headers[h]
	return !hd.meta && hd.typ.vl < 0 && !c.useOf(h).whole
}

// part is a run of bits of one slot and its place in a header's bytes: the
// eight bytes from byte on, shifted.
type part struct {
	slot  uint32
	byte  uint16
	shift uint8
	right uint8 // the run's place in the slot
	more  bool  // the slot has other runs
	mask  uint64
}

// parts splits a field at bit off of its header into runs that lie within
// eight bytes each.
func parts(slot uint32, off, width int) []part {
	var out []part
	for w := 0; w*64 < width; w++ {
		n := min(64, width-64*w)
		at := off + width - 64*w - n // first bit of this word
		for n > 0 {
			k := min(n, 64-at%8)
			out = append(out, part{
				slot: slot + uint32(w), byte: uint16(at / 8), shift: uint8(64 - at%8 - k),
				right: uint8(n - k), more: k < min(64, width-64*w), mask: maskOf(k),
			})
			at += k
			n -= k
		}
	}
	return out
}
