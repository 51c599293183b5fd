package interp

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// calc is a calculation: a hash over fields, constants, headers and perhaps
// the payload.
type calc struct {
	algo    hashAlgo
	steps   []emitStep
	payload bool
	refs    []ref
	quiet   bool // not run: deparsing sums the header's bytes instead
}

// emitStep appends one thing to a bit string.
type emitStep struct {
	kind  emitKind
	words uint16
	slot  uint32
	guard uint32 // skipped while this slot is 0
	width int    // bits
	lens  uint32 // slot with the length in bits, of a varbit
	hdr   int    // of emitHeader
}

type emitKind uint8

const (
	emitField  emitKind = iota // one slot
	emitWide                   // several
	emitVar                    // a varbit
	emitHeader                 // all fields of a header
)

func (c *compiler) compileCalcs() error {
	for i := range c.j.Calculations {
		jc := &c.j.Calculations[i]
		ca, err := c.calculation(jc.Algo, jc.Input)
		if err != nil {
			return fmt.Errorf("calculation %q: %w", jc.Name, err)
		}
		c.calcByName[jc.Name] = len(c.calcs)
		c.calcs = append(c.calcs, ca)
	}
	return nil
}

func (c *compiler) calculation(algo string, input []jVal) (calc, error) {
	ca := calc{}
	var err error
	if ca.algo, err = c.hash(algo); err != nil {
		return ca, err
	}
	for i := range input {
		e := &input[i]
		switch e.Type {
		case "field":
			s, err := e.strs(2)
			if err != nil {
				return ca, err
			}
			r, err := c.resolve(s[0], s[1])
			if err != nil {
				return ca, err
			}
			ca.refs = append(ca.refs, r)
			ca.steps = append(ca.steps, c.emitOf(r))
		case "hexstr":
			s, err := e.str()
			if err != nil {
				return ca, err
			}
			v, err := parseHex(s)
			if err != nil {
				return ca, err
			}
			if e.Bitwidth < 1 || e.Bitwidth > maxFieldWidth {
				return ca, fmt.Errorf("input %d: a constant needs a bitwidth of 1 to %d", i, maxFieldWidth)
			}
			w := wordsFor(e.Bitwidth)
			kind := emitField
			if w > 1 {
				kind = emitWide
			}
			words := wordsOf(v, w)
			words[w-1] &= maskOf(e.Bitwidth - 64*(w-1))
			ca.steps = append(ca.steps, emitStep{kind: kind, slot: c.constWords(words), words: uint16(w), width: e.Bitwidth, guard: slotOne})
		case "header":
			s, err := e.str()
			if err != nil {
				return ca, err
			}
			h, ok := c.headerByName[s]
			if !ok {
				return ca, fmt.Errorf("input %d: there is no header %q", i, s)
			}
			c.whole(h)
			ca.steps = append(ca.steps, emitStep{kind: emitHeader, hdr: h, guard: slotOne})
		case "payload":
			ca.payload = true
		default:
			return ca, fmt.Errorf("%w: input of type %q", ErrUnsupported, e.Type)
		}
	}
	return ca, nil
}

// emitOf makes the step that emits a field.
func (c *compiler) emitOf(r ref) emitStep {
	s := emitStep{slot: r.slot(), words: uint16(r.f.words), width: r.f.width, guard: r.guard()}
	switch {
	case r.f.varbit:
		s.kind, s.lens = emitVar, r.h.base+r.h.typ.varLen
	case r.f.words > 1:
		s.kind = emitWide
	}
	return s
}

// bitWriter collects a bit string, first bit first.
type bitWriter struct {
	buf []byte
	acc uint64
	n   uint // bits in acc
}

func (w *bitWriter) reset() {
	w.buf = w.buf[:0]
	w.acc, w.n = 0, 0
}

// put appends the low width bits of v, which has no others; width is 1 to 64.
func (w *bitWriter) put(v uint64, width uint) {
	free := 64 - w.n
	if width < free {
		w.acc = w.acc<<width | v
		w.n += width
		return
	}
	rest := width - free
	a := w.acc<<free | v>>rest
	w.buf = binary.BigEndian.AppendUint64(w.buf, a)
	w.acc, w.n = v&(1<<rest-1), rest
}

// putWords appends the low width bits of a number in words.
func (w *bitWriter) putWords(x []uint64, width int) {
	for i := (width+63)/64 - 1; i >= 0; i-- {
		n := min(width-64*i, 64)
		w.put(x[i]&maskOf(n), uint(n))
	}
}

// flush pads to whole bytes and writes what is left.
func (w *bitWriter) flush() {
	if w.n == 0 {
		return
	}
	a := w.acc << (64 - w.n)
	for n := w.n; ; n -= 8 {
		w.buf = append(w.buf, byte(a>>56))
		a <<= 8
		if n <= 8 {
			break
		}
	}
	w.acc, w.n = 0, 0
}

// patch appends b with the fields in dirty replaced by what the slots hold.
// The writer is at a whole byte.
func (w *bitWriter) patch(b []byte, v []uint64, ps [][]part, dirty uint64) {
	at := len(w.buf)
	w.buf = append(w.buf, b...)
	if dirty == 0 {
		return
	}
	if cap(w.buf)-len(w.buf) < 8 {
		w.buf = slices.Grow(w.buf, 64)
	}
	d := w.buf[at : len(w.buf)+8]
	for ; dirty != 0; dirty &= dirty - 1 {
		f := ps[bits.TrailingZeros64(dirty)]
		for i := range f {
			f := &f[i]
			x := d[f.byte:]
			o := binary.BigEndian.Uint64(x)
			n := v[f.slot] >> (f.right & 63) & f.mask
			binary.BigEndian.PutUint64(x, o&^(f.mask<<(f.shift&63))|n<<(f.shift&63))
		}
	}
}

// emit runs steps.
func (s *Switch) emit(w *bitWriter, v []uint64, steps []emitStep) {
	for i := range steps {
		st := &steps[i]
		if v[st.guard] == 0 {
			continue
		}
		switch st.kind {
		case emitField:
			w.put(v[st.slot], uint(st.width))
		case emitWide:
			w.putWords(v[st.slot:], st.width)
		case emitVar:
			if n := int(v[st.lens]); n > 0 {
				w.putWords(v[st.slot:], n)
			}
		case emitHeader:
			h := &s.p.headers[st.hdr]
			if h.meta || v[h.validSlot()] != 0 {
				s.emit(w, v, s.p.emits[st.hdr])
			}
		}
	}
}

// calculate runs a calculation over the packet.
func (s *Switch) calculate(p *Packet, id int) uint64 {
	ca := &s.p.calcs[id]
	w := &s.bits
	w.reset()
	s.emit(w, p.v, ca.steps)
	w.flush()
	if ca.payload {
		data, virtual := p.payload()
		w.buf = append(w.buf, data...)
		if ca.algo.kind != hashCsum16 { // zeros add nothing to a sum
			for range virtual {
				w.buf = append(w.buf, 0)
			}
		}
	}
	return s.sum(&ca.algo, w.buf)
}

// checksum is a field that a calculation verifies or updates.
type checksum struct {
	name   string
	field  ref
	calc   int
	cond   uint32 // code that leaves the condition in slot, 0: unconditional
	slot   uint32
	verify bool
	update bool
	bytes  bool // updated by summing the deparsed header's bytes
	at     int  // the field's first byte, then
}

func (c *compiler) compileChecksums() error {
	for i := range c.j.Checksums {
		jc := &c.j.Checksums[i]
		if len(jc.Target) != 2 {
			return fmt.Errorf("checksum %q: target is not [header, field]", jc.Name)
		}
		k := checksum{name: jc.Name, verify: jc.Verify == nil || *jc.Verify, update: jc.Update == nil || *jc.Update}
		var err error
		if k.field, err = c.resolve(jc.Target[0], jc.Target[1]); err != nil {
			return fmt.Errorf("checksum %q: %w", jc.Name, err)
		}
		if k.field.f.words != 1 || k.field.f.varbit {
			return fmt.Errorf("%w: checksum %q into a field of %d bits", ErrUnsupported, jc.Name, k.field.f.width)
		}
		if jc.Type != "generic" {
			return fmt.Errorf("%w: checksum %q of type %q", ErrUnsupported, jc.Name, jc.Type)
		}
		ci, ok := c.calcByName[jc.Calculation]
		if !ok {
			return fmt.Errorf("checksum %q: there is no calculation %q", jc.Name, jc.Calculation)
		}
		k.calc = ci
		c.calcUses[ci]++
		if jc.IfCond != nil && !jc.IfCond.isNull() {
			at := len(c.code)
			if k.slot, err = c.truth(jc.IfCond); err != nil {
				return fmt.Errorf("checksum %q: %w", jc.Name, err)
			}
			if len(c.code) > at {
				c.emit(inst{op: opHalt})
				k.cond = uint32(at)
			}
			c.freeTemps()
		} else {
			k.slot = slotOne
		}
		c.checks = append(c.checks, k)
	}
	for i := range c.checks {
		c.sumBytes(&c.checks[i])
	}
	for i := range c.calcs {
		if ca := &c.calcs[i]; !ca.quiet {
			for _, r := range ca.refs {
				c.use(r)
			}
		}
	}
	return nil
}

// sumBytes recognises the usual header checksum: the Internet checksum over
// all fields of one header, in order, but for the checksum itself. Deparsing
// then sums the bytes that it writes, and the fields need not be extracted.
func (c *compiler) sumBytes(k *checksum) {
	ca, h := &c.calcs[k.calc], k.field.h
	usual := ca.algo.kind == hashCsum16 && !ca.payload && !k.verify && k.update && k.field.f.width == 16 &&
		h.typ.vl < 0 && len(ca.steps) == len(ca.refs) && c.calcUses[k.calc] == 1 && c.deparsePC == 0
	off, at, n := 0, 0, 0
	for i := range h.typ.fields {
		f := &h.typ.fields[i]
		switch {
		case f == k.field.f:
			at = off
		case !usual || n >= len(ca.refs) || ca.refs[n] != ref{h, f}:
			usual = false
		default:
			n++
		}
		off += f.width
	}
	usual = usual && n == len(ca.refs) && at%16 == 0
	for i := range c.checks { // another checksum may read this one
		o := &c.checks[i]
		for _, r := range c.calcs[o.calc].refs {
			usual = usual && r != k.field
		}
		usual = usual && (o == k || o.field != k.field)
	}
	if usual {
		ca.quiet = true
		k.bytes, k.at = true, at/8
		return
	}
	if k.update {
		c.writtenOutside(h, k.field.f)
	}
	c.use(k.field)
}

func (c *compiler) compileDeparser() error {
	for i := range c.j.Deparsers {
		jd := &c.j.Deparsers[i]
		if jd.Name != "deparser" && len(c.j.Deparsers) > 1 {
			continue
		}
		pc, err := c.snippet(func() error { return c.primitives(jd.Primitives) })
		if err != nil {
			return fmt.Errorf("deparser: %w", err)
		}
		c.deparsePC = pc
		for _, n := range jd.Order {
			h, ok := c.headerByName[n]
			if !ok {
				return fmt.Errorf("deparser: there is no header %q", n)
			}
			c.deparse = append(c.deparse, h)
		}
		return nil
	}
	return nil
}

// verifyChecksums reports whether every checksum that applies is right.
func (s *Switch) verifyChecksums(p *Packet) bool {
	ok := true
	for i := range s.p.checks {
		k := &s.p.checks[i]
		if !k.verify || p.v[k.field.guard()] == 0 || !s.checksumApplies(p, k) {
			continue
		}
		if s.calculate(p, k.calc) != p.v[k.field.slot()] {
			ok = false
		}
	}
	return ok
}

func (s *Switch) updateChecksums(p *Packet) {
	for i := range s.p.checks {
		k := &s.p.checks[i]
		if k.update && !k.bytes && s.checksumApplies(p, k) {
			p.v[k.field.slot()] = s.calculate(p, k.calc) & maskOf(k.field.f.width)
		}
	}
}

func (s *Switch) checksumApplies(p *Packet, k *checksum) bool {
	if k.cond != 0 {
		s.run(p, k.cond)
	}
	return p.v[k.slot] != 0
}
