package interp

import "encoding/binary"

// extraction is how one header leaves the packet's bytes, and how it returns.
type extraction struct {
	bytes   int // without a varbit
	fields  []part
	slow    []slowField // in order, when the header has a varbit
	varbit  bool
	union   bool     // valid makes others invalid
	valid   uint32   // slot
	raw     uint32   // slot of the header's place in the bytes, 0: it is not kept there
	dirty   uint32   // slot of the fields that differ from the bytes
	patches [][]part // by field, of a header that is kept there
}

// deparseStep is one header in the order of the deparser.
type deparseStep struct {
	id                int
	valid, raw, dirty uint32 // slots
	bytes             int
	patches           [][]part
	sum               *checksum // over the header's bytes, or nil
}

type slowField struct {
	slot  uint32
	words int
	off   int // bits from the header's start, before the varbit
	width int
	isVar bool
}

// slack is how many bytes after a packet's end may be read.
const slack = 16

func (c *compiler) newExtraction(id int) extraction {
	h := &c.headers[id]
	e := extraction{bytes: h.typ.fixed / 8, varbit: h.typ.vl >= 0, union: h.union >= 0, valid: h.valid}
	lazy := c.lazy(id) && e.bytes < 1<<15
	u := c.useOf(id)
	if lazy {
		e.raw, e.dirty = h.base+h.typ.raw, h.base+h.typ.dirty
		e.patches = make([][]part, len(h.typ.fields))
	}
	off := 0
	for i := range h.typ.fields {
		f := &h.typ.fields[i]
		switch {
		case e.varbit:
			e.slow = append(e.slow, slowField{h.base + f.off, f.words, off, f.width, f.varbit})
		default:
			p := parts(h.base+f.off, off, f.width)
			if !lazy || u.used[i] {
				e.fields = append(e.fields, p...)
			}
			if lazy && u.written[i] {
				e.patches[i] = p
			}
		}
		if !f.varbit {
			off += f.width
		}
	}
	return e
}

// readBits reads width bits (up to 64) at bit off of b, which has slack.
func readBits(b []byte, off, width int) uint64 {
	first := off / 8
	b = b[first : first+9]
	hi := binary.BigEndian.Uint64(b)
	sh := off % 8
	if sh+width <= 64 {
		return hi >> uint(64-sh-width) & maskOf(width)
	}
	over := uint(sh + width - 64) // bits in the ninth byte
	return (hi<<over | uint64(b[8])>>(8-over)) & maskOf(width)
}

// readWords reads width bits at bit off of b into words, least significant first.
func readWords(dst []uint64, b []byte, off, width int) {
	for i := range dst {
		n := min(width, 64)
		if n <= 0 {
			dst[i] = 0
			continue
		}
		dst[i] = readBits(b, off+width-n, n)
		width -= n
	}
}

// extract reads header hid at the parser's position. varBits is the length
// of its varbit; -1 when the header computes it. It returns a parser error,
// or the program's NoError.
func (s *Switch) extract(p *Packet, hid int, varBits, maxLen int) uint64 {
	e := &s.p.extracts[hid]
	v := p.v
	at, end := p.pos, p.end
	if end-at < e.bytes {
		return s.p.errs.tooShort
	}
	if !e.varbit {
		b := p.buf.b[at : at+e.bytes+slack]
		for i := range e.fields {
			f := &e.fields[i]
			x := binary.BigEndian.Uint64(b[f.byte:]) >> (f.shift & 63) & f.mask
			if f.right != 0 || f.more {
				x = x<<(f.right&63) | v[f.slot]&^(f.mask<<(f.right&63))
			}
			v[f.slot] = x
		}
		if e.raw != 0 {
			v[e.raw], v[e.dirty] = uint64(at)+1, 0
		}
		p.pos += e.bytes
		if e.union {
			s.setValid(v, hid)
		} else {
			v[e.valid] = 1
		}
		return s.p.errs.none
	}
	h := &s.p.headers[hid]
	if varBits >= 0 {
		if err := s.checkVar(p, e, varBits, maxLen); err != s.p.errs.none {
			return err
		}
	}
	b := p.buf.b[at : end+slack]
	shift := 0
	for i := range e.slow {
		f := &e.slow[i]
		if !f.isVar {
			readWords(v[f.slot:f.slot+uint32(f.words)], b, f.off+shift, f.width)
			continue
		}
		if varBits < 0 {
			s.run(p, h.lenPC)
			varBits = int(min(v[h.lenSlot], maxFieldWidth*2))
			if err := s.checkVar(p, e, varBits, maxLen); err != s.p.errs.none {
				return err
			}
		}
		n := min(varBits, f.words*64)
		readWords(v[f.slot:f.slot+uint32(f.words)], b, f.off, n)
		v[h.base+h.typ.varLen] = uint64(n)
		shift = varBits
	}
	p.pos += e.bytes + varBits/8
	s.setValid(v, hid)
	return s.p.errs.none
}

// checkVar checks a varbit's length against the packet and the header type.
func (s *Switch) checkVar(p *Packet, e *extraction, varBits, maxLen int) uint64 {
	switch {
	case varBits%8 != 0:
		return s.p.errs.invalid
	case p.end-p.pos < e.bytes+varBits/8:
		return s.p.errs.tooShort
	case maxLen != 0 && maxLen < e.bytes+varBits/8, varBits > maxFieldWidth:
		return s.p.errs.headerTooShort
	}
	return s.p.errs.none
}

// parse runs the parser; it returns the parser error and whether it ended.
func (s *Switch) parse(p *Packet) (code uint64, ok bool) {
	pr := &s.p.parser
	none := s.p.errs.none
	budget := 2*(p.end-p.pos) + 1024
	for st := pr.init; st >= 0; {
		if budget--; budget < 0 {
			return none, false
		}
		state := &pr.states[st]
		for i := range state.ops {
			op := &state.ops[i]
			var code uint64
			if op.kind == parseExtract && !op.sized {
				code = s.extract(p, op.id, -1, op.maxLen)
			} else {
				code = s.parseOp(p, op)
			}
			if code != none {
				return code, true
			}
		}
		if state.words == 0 {
			st = state.next
			continue
		}
		if len(state.key) == 1 && state.plain {
			// One field and no value sets: the usual select.
			k := &state.key[0]
			x := p.v[k.slot]
			st = state.next
			for i := range state.cases {
				if c := &state.cases[i]; x&c.mask1 == c.val1 {
					st = c.next
					break
				}
			}
			continue
		}
		var code uint64
		if st, code = s.selectNext(p, state); code != none {
			return code, true
		}
	}
	return none, true
}

func (s *Switch) parseOp(p *Packet, op *parseOp) uint64 {
	errs := &s.p.errs
	v := p.v
	if op.pc != 0 {
		s.run(p, op.pc)
	}
	switch op.kind {
	case parseExtract:
		return s.extract(p, op.id, s.varLen(v, op), op.maxLen)
	case parseExtractStack:
		k := &s.p.stacks[op.id]
		n := v[k.next]
		if n >= uint64(len(k.headers)) {
			return errs.stack
		}
		if code := s.extract(p, k.headers[n], s.varLen(v, op), op.maxLen); code != errs.none {
			return code
		}
		v[k.next] = n + 1
	case parseExtractUnion:
		k := &s.p.unionStacks[op.id]
		n := v[k.next]
		if n >= uint64(len(k.unions)) {
			return errs.stack
		}
		if code := s.extract(p, s.p.unions[k.unions[n]].headers[op.member], s.varLen(v, op), op.maxLen); code != errs.none {
			return code
		}
		v[k.next] = n + 1
	case parseLookahead:
		if (p.end-p.pos)*8 < op.off+op.width {
			return errs.tooShort
		}
		n := uint32((op.width + 63) / 64)
		t := v[op.slot : op.slot+n]
		readWords(t, p.buf.b[p.pos:], op.off, op.width)
		d := v[op.dst.slot : op.dst.slot+uint32(op.dst.f.words)]
		clear(d[copy(d, t):])
		maskWords(d, op.dst.f.width)
	case parseAdvance:
		n := v[op.slot]
		switch {
		case n%8 != 0:
			return errs.invalid
		case n/8 > uint64(p.end-p.pos):
			return errs.tooShort
		}
		p.pos += int(n / 8)
	case parseVerify:
		if v[op.slot] == 0 {
			return v[op.slot2] & 0xffffffff
		}
	}
	return errs.none
}

// varLen is the length of the varbit that op extracts, at most what cannot fit.
func (s *Switch) varLen(v []uint64, op *parseOp) int {
	if !op.sized {
		return -1
	}
	return int(min(v[op.slot], 1<<24))
}

// selectNext evaluates a state's select.
func (s *Switch) selectNext(p *Packet, st *parseState) (int32, uint64) {
	v := p.v
	if st.keyPC != 0 {
		s.run(p, st.keyPC)
	}
	if st.words == 1 {
		var key uint64
		for i := range st.key {
			k := &st.key[i]
			x := v[k.slot]
			if k.lookahead {
				if (p.end-p.pos)*8 < k.off+k.width {
					return 0, s.p.errs.tooShort
				}
				x = readBits(p.buf.b[p.pos:], k.off, k.width)
			}
			key |= x << (k.shift & 63)
		}
		for i := range st.cases {
			c := &st.cases[i]
			if c.vset >= 0 {
				if s.inValueSet(c.vset, []uint64{key}) {
					return c.next, s.p.errs.none
				}
				continue
			}
			if key&c.mask[0] == c.val[0] {
				return c.next, s.p.errs.none
			}
		}
		return st.next, s.p.errs.none
	}
	key := s.keyBuf(st.words)
	for i := range st.key {
		k := &st.key[i]
		if k.lookahead {
			if (p.end-p.pos)*8 < k.off+k.width {
				return 0, s.p.errs.tooShort
			}
			if k.words == 1 {
				key[k.word] |= readBits(p.buf.b[p.pos:], k.off, k.width) << k.shift
			} else {
				readWords(key[k.word:k.word+k.words], p.buf.b[p.pos:], k.off, k.width)
			}
			continue
		}
		for w := range k.words {
			key[k.word+w] |= v[k.slot+uint32(w)] << k.shift
		}
	}
next:
	for i := range st.cases {
		c := &st.cases[i]
		if c.vset >= 0 {
			if s.inValueSet(c.vset, key) {
				return c.next, s.p.errs.none
			}
			continue
		}
		for w := range key {
			if key[w]&c.mask[w] != c.val[w] {
				continue next
			}
		}
		return c.next, s.p.errs.none
	}
	return st.next, s.p.errs.none
}

// keyBuf returns a cleared scratch key of n words.
func (s *Switch) keyBuf(n int) []uint64 {
	if cap(s.key) < n {
		s.key = make([]uint64, n)
	}
	k := s.key[:n]
	clear(k)
	return k
}
