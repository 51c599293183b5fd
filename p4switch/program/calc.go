package program

import (
	"fmt"
)

// Calculation is a P4 calculation: a hash over fields, constants, headers and perhaps the payload.
type Calculation struct {
	Hash    Hash
	Steps   []EmitStep
	Payload bool
	refs    []Ref
	quiet   bool // not run: deparsing sums the header's bytes instead
}

// EmitStep appends one field, constant or header to the bit string that a calculation hashes.
type EmitStep struct {
	Kind    EmitKind
	Words   uint16
	Slot    uint32
	Guard   uint32 // skipped while this slot is 0
	Width   int    // number of bits to append
	LenSlot uint32 // slot with the length in bits, of a varbit
	Header  int    // index of the header, for EmitHeader
}

// EmitKind is what an [EmitStep] appends.
type EmitKind uint8

// EmitField and the others are the kinds.
const (
	EmitField  EmitKind = iota // append a field of one slot
	EmitWide                   // append a field of several slots
	EmitVar                    // append a varbit field
	EmitHeader                 // append all fields of a header
)

func (c *compiler) compileCalcs() error {
	for i := range c.j.Calculations {
		jc := &c.j.Calculations[i]
		ca, err := c.compileCalculation(jc.Algo, jc.Input)
		if err != nil {
			return fmt.Errorf("calculation %q: %w", jc.Name, err)
		}
		c.calcByName[jc.Name] = len(c.calcs)
		c.calcs = append(c.calcs, ca)
	}
	return nil
}

func (c *compiler) compileCalculation(algo string, input []jVal) (Calculation, error) {
	ca := Calculation{}
	var err error
	if ca.Hash, err = c.hashByName(algo); err != nil {
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
			r, err := c.resolveField(s[0], s[1])
			if err != nil {
				return ca, err
			}
			ca.refs = append(ca.refs, r)
			ca.Steps = append(ca.Steps, c.emitOf(r))
		case "hexstr":
			s, err := e.str()
			if err != nil {
				return ca, err
			}
			v, err := parseHex(s)
			if err != nil {
				return ca, err
			}
			if e.Bitwidth < 1 || e.Bitwidth > MaxFieldWidth {
				return ca, fmt.Errorf("input %d: a constant needs a bitwidth of 1 to %d", i, MaxFieldWidth)
			}
			w := WordsFor(e.Bitwidth)
			kind := EmitField
			if w > 1 {
				kind = EmitWide
			}
			words := wordsOf(v, w)
			words[w-1] &= MaskOf(e.Bitwidth - 64*(w-1))
			ca.Steps = append(ca.Steps, EmitStep{Kind: kind, Slot: c.constWords(words), Words: uint16(w), Width: e.Bitwidth, Guard: SlotOne})
		case "header":
			s, err := e.str()
			if err != nil {
				return ca, err
			}
			h, ok := c.headerByName[s]
			if !ok {
				return ca, fmt.Errorf("input %d: there is no header %q", i, s)
			}
			c.noteWholeHeader(h)
			ca.Steps = append(ca.Steps, EmitStep{Kind: EmitHeader, Header: h, Guard: SlotOne})
		case "payload":
			ca.Payload = true
		default:
			return ca, fmt.Errorf("%w: input of type %q", ErrUnsupported, e.Type)
		}
	}
	return ca, nil
}

// emitOf makes the step that emits a field.
func (c *compiler) emitOf(r Ref) EmitStep {
	s := EmitStep{Slot: r.Slot(), Words: uint16(r.Field.Words), Width: r.Field.Width, Guard: r.Guard()}
	switch {
	case r.Field.Varbit:
		s.Kind, s.LenSlot = EmitVar, r.h.Base+r.h.Type.VarLen
	case r.Field.Words > 1:
		s.Kind = EmitWide
	}
	return s
}

// Checksum is a field that a calculation verifies or updates.
type Checksum struct {
	name        string
	Field       Ref
	Calculation int
	Cond        uint32 // code that computes the condition; 0: unconditional
	Slot        uint32
	Verify      bool
	Update      bool
	Bytes       bool // updated by summing the deparsed header's bytes
	At          int  // first byte of the field in the header's bytes, if Bytes is set
}

func (c *compiler) compileChecksums() error {
	for i := range c.j.Checksums {
		jc := &c.j.Checksums[i]
		if len(jc.Target) != 2 {
			return fmt.Errorf("checksum %q: target is not [header, field]", jc.Name)
		}
		k := Checksum{name: jc.Name, Verify: jc.Verify == nil || *jc.Verify, Update: jc.Update == nil || *jc.Update}
		var err error
		if k.Field, err = c.resolveField(jc.Target[0], jc.Target[1]); err != nil {
			return fmt.Errorf("checksum %q: %w", jc.Name, err)
		}
		if k.Field.Field.Words != 1 || k.Field.Field.Varbit {
			return fmt.Errorf("%w: checksum %q into a field of %d bits", ErrUnsupported, jc.Name, k.Field.Field.Width)
		}
		if jc.Type != "generic" {
			return fmt.Errorf("%w: checksum %q of type %q", ErrUnsupported, jc.Name, jc.Type)
		}
		ci, ok := c.calcByName[jc.Calculation]
		if !ok {
			return fmt.Errorf("checksum %q: there is no calculation %q", jc.Name, jc.Calculation)
		}
		k.Calculation = ci
		c.calcUses[ci]++
		if jc.IfCond != nil && !jc.IfCond.isNull() {
			at := len(c.code)
			if k.Slot, err = c.compileCondition(jc.IfCond); err != nil {
				return fmt.Errorf("checksum %q: %w", jc.Name, err)
			}
			if len(c.code) > at {
				c.emitInst(Inst{Op: OpHalt})
				k.Cond = uint32(at)
			}
			c.freeTemps()
		} else {
			k.Slot = SlotOne
		}
		c.checks = append(c.checks, k)
	}
	for i := range c.checks {
		c.sumBytes(&c.checks[i])
	}
	for i := range c.calcs {
		if ca := &c.calcs[i]; !ca.quiet {
			for _, r := range ca.refs {
				c.noteRead(r)
			}
		}
	}
	return nil
}

// sumBytes recognises the usual header checksum: the Internet checksum over
// all fields of one header, in order, but for the checksum itself. Deparsing
// then sums the bytes that it writes, and the fields need not be extracted.
func (c *compiler) sumBytes(k *Checksum) {
	ca, h := &c.calcs[k.Calculation], k.Field.h
	usual := ca.Hash.Kind == HashCsum16 && !ca.Payload && !k.Verify && k.Update && k.Field.Field.Width == 16 &&
		h.Type.Varbit < 0 && len(ca.Steps) == len(ca.refs) && c.calcUses[k.Calculation] == 1 && c.deparsePC == 0
	off, at, n := 0, 0, 0
	for i := range h.Type.Fields {
		f := &h.Type.Fields[i]
		switch {
		case f == k.Field.Field:
			at = off
		case !usual || n >= len(ca.refs) || ca.refs[n] != Ref{h, f}:
			usual = false
		default:
			n++
		}
		off += f.Width
	}
	usual = usual && n == len(ca.refs) && at%16 == 0
	for i := range c.checks { // another checksum may read this one
		o := &c.checks[i]
		for _, r := range c.calcs[o.Calculation].refs {
			usual = usual && r != k.Field
		}
		usual = usual && (o == k || o.Field != k.Field)
	}
	if usual {
		ca.quiet = true
		k.Bytes, k.At = true, at/8
		return
	}
	if k.Update {
		c.writtenOutside(h, k.Field.Field)
	}
	c.noteRead(k.Field)
}

func (c *compiler) compileDeparser() error {
	for i := range c.j.Deparsers {
		jd := &c.j.Deparsers[i]
		if jd.Name != "deparser" && len(c.j.Deparsers) > 1 {
			continue
		}
		pc, err := c.compileSnippet(func() error { return c.compilePrimitives(jd.Primitives) })
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
