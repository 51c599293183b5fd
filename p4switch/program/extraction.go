package program

// Extraction is how one header leaves the packet's bytes, and how it returns.
type Extraction struct {
	Bytes   int // without a varbit
	Fields  []Part
	Slow    []SlowField // in order, when the header has a varbit
	Varbit  bool
	Union   bool     // valid makes others invalid
	Valid   uint32   // slot
	Raw     uint32   // slot of 1 + the header's offset in the packet; 0: its fields are copied to slots
	Dirty   uint32   // slot of the fields that differ from the bytes
	Patches [][]Part // by field, of a header that is kept there
}

// DeparseStep is one header in the order of the deparser.
type DeparseStep struct {
	ID                int
	Valid, Raw, Dirty uint32 // slots
	Bytes             int
	Patches           [][]Part
	Sum               *Checksum // over the header's bytes, or nil
}

// SlowField is a field of a header with a varbit.
type SlowField struct {
	Slot   uint32
	Words  int
	Offset int // bits from the header's start, before the varbit
	Width  int
	Varbit bool
}

// Slack is how many bytes after a packet's end may be read.
const Slack = 16

func (c *compiler) newExtraction(id int) Extraction {
	h := &c.headers[id]
	e := Extraction{Bytes: h.Type.Fixed / 8, Varbit: h.Type.Varbit >= 0, Union: h.Union >= 0, Valid: h.valid}
	lazy := c.lazy(id) && e.Bytes < 1<<15
	u := c.useOf(id)
	if lazy {
		e.Raw, e.Dirty = h.Base+h.Type.raw, h.Base+h.Type.dirty
		e.Patches = make([][]Part, len(h.Type.Fields))
	}
	off := 0
	for i := range h.Type.Fields {
		f := &h.Type.Fields[i]
		switch {
		case e.Varbit:
			e.Slow = append(e.Slow, SlowField{h.Base + f.Offset, f.Words, off, f.Width, f.Varbit})
		default:
			p := Parts(h.Base+f.Offset, off, f.Width)
			if !lazy || u.used[i] {
				e.Fields = append(e.Fields, p...)
			}
			if lazy && u.written[i] {
				e.Patches[i] = p
			}
		}
		if !f.Varbit {
			off += f.Width
		}
	}
	return e
}
