package program

import "encoding/binary"

// Most fields of most headers are only carried from one port to another. The
// compiler notes what a program does with each header, so that extraction
// reads only the fields that are used, and deparsing copies the header's
// bytes and puts in the fields that the program wrote.

// headerUse is how the program uses one header instance.
type headerUse struct {
	used    []bool // fields read
	written []bool
	whole   bool // also copied, compared or reached by an index: all its fields live in slots
}

func (c *compiler) useOf(h int) *headerUse {
	u := &c.usage[h]
	if u.used == nil {
		n := len(c.headers[h].Type.Fields)
		u.used, u.written = make([]bool, n), make([]bool, n)
	}
	return u
}

// noteRead records that the program reads a field.
func (c *compiler) noteRead(r Ref) {
	if k, ok := r.h.Type.byName[r.Field.name]; ok {
		c.useOf(r.h.index).used[k] = true
	}
}

// noteWritten follows code that writes a field of a header known by name: when the
// header is kept in the packet's bytes, deparsing has to know.
func (c *compiler) noteWritten(h *Header, f *Field) {
	k, ok := h.Type.byName[f.name]
	if !ok || h.Meta || h.Type.Varbit >= 0 {
		return
	}
	if k >= 64 {
		c.noteWholeHeader(h.index)
		return
	}
	c.useOf(h.index).written[k] = true
	c.emitInst(Inst{Op: OpDirty, Dst: h.Base + h.Type.dirty, Imm: 1 << k})
}

// writtenOutside notes that a field is written by other than code: such
// headers are not kept in the packet's bytes.
func (c *compiler) writtenOutside(h *Header, f *Field) {
	if !h.Meta {
		c.noteWholeHeader(h.index)
	}
	c.noteRead(Ref{h, f})
}

// noteWholeHeader records that the program uses header h as a whole.
func (c *compiler) noteWholeHeader(h int) { c.useOf(h).whole = true }

func (c *compiler) noteWholeHeaders(hs []int) {
	for _, h := range hs {
		c.noteWholeHeader(h)
	}
}

// noteWholeUnions does so for the members of unions.
func (c *compiler) noteWholeUnions(us []int) {
	for _, u := range us {
		c.noteWholeHeaders(c.unions[u].Headers)
	}
}

// mayStayInPacket reports whether a header may stay in the packet's bytes.
func (c *compiler) mayStayInPacket(h int) bool {
	hd := &c.headers[h]
	return !hd.Meta && hd.Type.Varbit < 0 && !c.useOf(h).whole
}

// Part is a run of bits of one slot, with its place in a header's bytes: a 64-bit word that begins at Byte, shifted.
type Part struct {
	Slot  uint32
	Byte  uint16
	Shift uint8
	Right uint8 // the run's place in the slot
	More  bool  // the slot's field has other runs
	Mask  uint64
}

// Parts splits a field of width bits, at bit off of its header, into runs that each lie within eight bytes.
func Parts(slot uint32, off, width int) []Part {
	var out []Part
	for w := 0; w*64 < width; w++ {
		n := min(64, width-64*w)
		at := off + width - 64*w - n // first bit of this word
		for n > 0 {
			k := min(n, 64-at%8)
			out = append(out, Part{
				Slot: slot + uint32(w), Byte: uint16(at / 8), Shift: uint8(64 - at%8 - k),
				Right: uint8(n - k), More: k < min(64, width-64*w), Mask: MaskOf(k),
			})
			at += k
			n -= k
		}
	}
	return out
}

// Load reads the run from a header's bytes.
func (p *Part) Load(data []byte) uint64 {
	return binary.BigEndian.Uint64(data[p.Byte:]) >> (p.Shift & 63) & p.Mask << (p.Right & 63)
}

// Store writes the run into a header's bytes.
func (p *Part) Store(data []byte, x uint64) {
	b := data[p.Byte : int(p.Byte)+8]
	o := binary.BigEndian.Uint64(b)
	n := x >> (p.Right & 63) & p.Mask
	binary.BigEndian.PutUint64(b, o&^(p.Mask<<(p.Shift&63))|n<<(p.Shift&63))
}
