package bmv2

// Most fields of most headers are only carried from one port to another. The
// compiler notes what a program does with each header, so that extraction
// reads only the fields that are used, and deparsing copies the header's
// bytes and puts in the fields that the program may write.

// headerUse is what the program does with one header instance.
type headerUse struct {
	used    []bool // fields read or written
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

// use notes that field k of header h is read.
func (c *compiler) use(h, k int) { c.useOf(h).used[k] = true }

// write notes that field f of header h may be written.
func (c *compiler) write(h *header, f *field) {
	for i := range c.headers {
		if &c.headers[i] != h {
			continue
		}
		if k, ok := h.typ.byName[f.name]; ok {
			u := c.useOf(i)
			u.used[k], u.written[k] = true, true
		}
		return
	}
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
