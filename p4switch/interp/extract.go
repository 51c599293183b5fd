package interp

import (
	"encoding/binary"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// readBits reads width bits (up to 64) at bit off of b, which has slack.
func readBits(b []byte, off, width int) uint64 {
	first := off / 8
	b = b[first : first+9]
	hi := binary.BigEndian.Uint64(b)
	sh := off % 8
	if sh+width <= 64 {
		return hi >> uint(64-sh-width) & program.MaskOf(width)
	}
	over := uint(sh + width - 64) // bits in the ninth byte
	return (hi<<over | uint64(b[8])>>(8-over)) & program.MaskOf(width)
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

// extractHeader reads header hid at the parser's position. varBits is the length
// of its varbit; -1 when the header computes it. It returns a parser error,
// or the program's NoError.
func (s *Switch) extractHeader(p *Packet, hid int, varBits, maxLen int) uint64 {
	e := &s.p.Extractions[hid]
	v := p.v
	at, end := p.pos, p.end
	if varBits < 0 && (end-at)*8 < e.Bits {
		return s.p.Errors.TooShort
	}
	if !e.Varbit {
		b := p.buf.b[at : at+e.Bytes+program.Slack]
		for i := range e.Fields {
			f := &e.Fields[i]
			x := binary.BigEndian.Uint64(b[f.Byte:]) >> (f.Shift & 63) & f.Mask
			if f.Right != 0 || f.More {
				x = x<<(f.Right&63) | v[f.Slot]&^(f.Mask<<(f.Right&63))
			}
			v[f.Slot] = x
		}
		if e.Raw != 0 {
			v[e.Raw], v[e.Dirty] = uint64(at)+1, 0
		}
		p.pos += e.Bytes
		if e.Union {
			s.setValid(v, hid)
		} else {
			v[e.Valid] = 1
		}
		return s.p.Errors.None
	}
	h := &s.p.Headers[hid]
	if varBits >= 0 {
		if err := s.checkVarbit(p, e, varBits, maxLen); err != s.p.Errors.None {
			return err
		}
	}
	b := p.buf.b[at : end+program.Slack]
	shift := 0
	for i := range e.Slow {
		f := &e.Slow[i]
		if !f.Varbit {
			readWords(v[f.Slot:f.Slot+uint32(f.Words)], b, f.Offset+shift, f.Width)
			continue
		}
		if varBits < 0 {
			s.runCode(p, h.LenPC)
			varBits = int(min(v[h.LenSlot], program.MaxFieldWidth*2))
			if err := s.checkVarbit(p, e, varBits, maxLen); err != s.p.Errors.None {
				return err
			}
		}
		n := min(varBits, f.Words*64)
		readWords(v[f.Slot:f.Slot+uint32(f.Words)], b, f.Offset, n)
		v[h.Base+h.Type.VarLen] = uint64(n)
		shift = varBits
	}
	p.pos += (e.Bits + varBits) / 8
	s.setValid(v, hid)
	return s.p.Errors.None
}

// checkVarbit checks a varbit's length against the packet and the header type. A header is whole bytes.
func (s *Switch) checkVarbit(p *Packet, e *program.Extraction, varBits, maxLen int) uint64 {
	n := e.Bits + varBits
	switch {
	case n%8 != 0:
		return s.p.Errors.Invalid
	case p.end-p.pos < n/8:
		return s.p.Errors.TooShort
	case maxLen != 0 && maxLen < n/8, varBits > program.MaxFieldWidth:
		return s.p.Errors.HeaderTooShort
	}
	return s.p.Errors.None
}

// runParser runs the parser; it returns the parser error and whether it ended.
func (s *Switch) runParser(p *Packet) (code uint64, ok bool) {
	if p.trace == nil {
		return s.parseStates(p)
	}
	p.addTraceEvent(StageEnter, "parser")
	if code, ok = s.parseStates(p); code != s.p.Errors.None {
		p.trace.add(TraceEvent{Kind: ParserError, Code: code})
	}
	p.addTraceEvent(StageExit, "parser")
	return code, ok
}

func (s *Switch) parseStates(p *Packet) (code uint64, ok bool) {
	pr := &s.p.Parser
	none := s.p.Errors.None
	budget := 2*(p.end-p.pos) + 1024
	for st := pr.Init; st >= 0; {
		if budget--; budget < 0 {
			return none, false
		}
		state := &pr.States[st]
		if p.trace != nil {
			p.addTraceEvent(ParserState, state.Name)
		}
		for i := range state.Ops {
			op := &state.Ops[i]
			var code uint64
			if op.Kind == program.ParseExtract && !op.Sized {
				code = s.extractHeader(p, op.ID, -1, op.MaxLen)
			} else {
				code = s.parseOp(p, op)
			}
			if code != none {
				return code, true
			}
		}
		if state.Words == 0 {
			st = state.Next
			continue
		}
		if len(state.Key) == 1 && state.Plain {
			// One field and no value sets: the usual select.
			k := &state.Key[0]
			x := p.v[k.Slot]
			st = state.Next
			for i := range state.Cases {
				if c := &state.Cases[i]; x&c.Mask1 == c.Value1 {
					st = c.Next
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

func (s *Switch) parseOp(p *Packet, op *program.ParseOp) uint64 {
	errs := &s.p.Errors
	v := p.v
	if op.PC != 0 {
		s.runCode(p, op.PC)
	}
	switch op.Kind {
	case program.ParseExtract:
		return s.extractHeader(p, op.ID, s.varLen(v, op), op.MaxLen)
	case program.ParseExtractStack:
		k := &s.p.Stacks[op.ID]
		n := v[k.Next]
		if n >= uint64(len(k.Headers)) {
			return errs.Stack
		}
		if code := s.extractHeader(p, k.Headers[n], s.varLen(v, op), op.MaxLen); code != errs.None {
			return code
		}
		v[k.Next] = n + 1
	case program.ParseExtractUnion:
		k := &s.p.UnionStacks[op.ID]
		n := v[k.Next]
		if n >= uint64(len(k.Unions)) {
			return errs.Stack
		}
		if code := s.extractHeader(p, s.p.Unions[k.Unions[n]].Headers[op.Member], s.varLen(v, op), op.MaxLen); code != errs.None {
			return code
		}
		v[k.Next] = n + 1
	case program.ParseLookahead:
		if (p.end-p.pos)*8 < op.Offset+op.Width {
			return errs.TooShort
		}
		n := uint32((op.Width + 63) / 64)
		t := v[op.Slot : op.Slot+n]
		readWords(t, p.buf.b[p.pos:], op.Offset, op.Width)
		d := v[op.Dst.Slot : op.Dst.Slot+uint32(op.Dst.Field.Words)]
		clear(d[copy(d, t):])
		maskWords(d, op.Dst.Field.Width)
	case program.ParseAdvance:
		n := v[op.Slot]
		switch {
		case n%8 != 0:
			return errs.Invalid
		case n/8 > uint64(p.end-p.pos):
			return errs.TooShort
		}
		p.pos += int(n / 8)
	case program.ParseVerify:
		if v[op.Slot] == 0 {
			return v[op.Slot2] & 0xffffffff
		}
	}
	return errs.None
}

// varLen is the length of the varbit that op extracts, at most what cannot fit.
func (s *Switch) varLen(v []uint64, op *program.ParseOp) int {
	if !op.Sized {
		return -1
	}
	return int(min(v[op.Slot], 1<<24))
}

// selectNext evaluates a state's select.
func (s *Switch) selectNext(p *Packet, st *program.ParseState) (int32, uint64) {
	v := p.v
	if st.KeyPC != 0 {
		s.runCode(p, st.KeyPC)
	}
	if st.Words == 1 {
		var key uint64
		for i := range st.Key {
			k := &st.Key[i]
			x := v[k.Slot]
			if k.Lookahead {
				if (p.end-p.pos)*8 < k.Offset+k.Width {
					return 0, s.p.Errors.TooShort
				}
				x = readBits(p.buf.b[p.pos:], k.Offset, k.Width)
			}
			key |= x << (k.Shift & 63)
		}
		for i := range st.Cases {
			c := &st.Cases[i]
			if c.ValueSetUse >= 0 {
				if s.inValueSet(c.ValueSetUse, []uint64{key}) {
					return c.Next, s.p.Errors.None
				}
				continue
			}
			if key&c.Mask[0] == c.Value[0] {
				return c.Next, s.p.Errors.None
			}
		}
		return st.Next, s.p.Errors.None
	}
	key := s.keyBuf(st.Words)
	for i := range st.Key {
		k := &st.Key[i]
		if k.Lookahead {
			if (p.end-p.pos)*8 < k.Offset+k.Width {
				return 0, s.p.Errors.TooShort
			}
			if k.Words == 1 {
				key[k.Word] |= readBits(p.buf.b[p.pos:], k.Offset, k.Width) << k.Shift
			} else {
				readWords(key[k.Word:k.Word+k.Words], p.buf.b[p.pos:], k.Offset, k.Width)
			}
			continue
		}
		for w := range k.Words {
			key[k.Word+w] |= v[k.Slot+uint32(w)] << k.Shift
		}
	}
next:
	for i := range st.Cases {
		c := &st.Cases[i]
		if c.ValueSetUse >= 0 {
			if s.inValueSet(c.ValueSetUse, key) {
				return c.Next, s.p.Errors.None
			}
			continue
		}
		for w := range key {
			if key[w]&c.Mask[w] != c.Value[w] {
				continue next
			}
		}
		return c.Next, s.p.Errors.None
	}
	return st.Next, s.p.Errors.None
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
