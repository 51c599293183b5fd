package program

// Extraction says how one header is copied from a packet's bytes into slots, and back.
type Extraction struct {
	Bytes   int // header length without a varbit, rounded up
	Bits    int // header length without a varbit
	Fields  []Part
	Slow    []SlowField // fields in order, if the header has a varbit
	Varbit  bool
	Union   bool     // member of a header union: becoming valid makes the others invalid
	Valid   uint32   // slot of the validity bit
	Raw     uint32   // slot of 1 + the header's offset in the packet; 0: its fields are copied to slots
	Dirty   uint32   // slot of a bit per field whose value differs from the packet's bytes
	Patches [][]Part // where each field is, if the header stays in the packet's bytes
}

// DeparseStep is one header in the order of the deparser.
type DeparseStep struct {
	ID                int
	Valid, Raw, Dirty uint32 // slots of the header's Extraction: validity, offset in the packet, changed fields
	Bytes             int
	Patches           [][]Part
	Sum               *Checksum // checksum to compute over the header's bytes, or nil
}

// SlowField is a field of a header with a varbit.
type SlowField struct {
	Slot   uint32
	Words  int
	Offset int // bits from the header's start, before the varbit
	Width  int
	Varbit bool
}

// Slack is the number of bytes behind a packet's end that parsers and deparsers may read.
const Slack = 16

func (c *compiler) newExtraction(id int) Extraction {
	h := &c.headers[id]
	e := Extraction{Bytes: (h.Type.Fixed + 7) / 8, Bits: h.Type.Fixed, Varbit: h.Type.Varbit >= 0, Union: h.Union >= 0, Valid: h.valid}
	lazy := c.mayStayInPacket(id) && e.Bytes < 1<<15
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
