package program

import (
	"fmt"
	"math/big"
)

func (c *compiler) selectKey(js *jState, st *ParseState) error {
	var err error
	st.KeyPC, err = c.compileSnippet(func() error {
		for i := range js.Key {
			e := &js.Key[i]
			p := KeyPiece{Guard: SlotOne}
			switch e.Type {
			case "field":
				s, err := e.strs(2)
				if err != nil {
					return err
				}
				r, err := c.fieldRef(s[0], s[1])
				if err != nil {
					return err
				}
				p.Slot, p.Width = r.Slot(), r.Field.Width
			case "stack_field":
				hid, t, fn, err := c.lastOf(e)
				if err != nil {
					return err
				}
				k, ok := t.byName[fn]
				if !ok {
					return fmt.Errorf("header type %q has no field %q", t.name, fn)
				}
				f := &t.Fields[k]
				p.Slot, p.Width = c.loadRaw(f, hid), f.Width
			case "union_stack_field":
				if p.Slot, p.Width, err = c.lastUnionField(e); err != nil {
					return err
				}
			case "lookahead":
				var ow []int
				if err := unmarshal(e.Value, &ow); err != nil || len(ow) != 2 || ow[0] < 0 || ow[1] < 1 || ow[0] > 1<<20 || ow[1] > MaxFieldWidth {
					return fmt.Errorf("a lookahead is [offset, width] in bits, got %.40s", e.Value)
				}
				p.Lookahead, p.Offset, p.Width = true, ow[0], ow[1]
			default:
				return fmt.Errorf("%w: %q in a select", ErrUnsupported, e.Type)
			}
			st.Key = append(st.Key, p)
		}
		return nil
	})
	if err == nil {
		st.Words = layPieces(st.Key)
	}
	return err
}

// loadRaw loads a field's bits from the header whose id is in slot hid.
func (c *compiler) loadRaw(f *Field, hid uint32) uint32 {
	t := c.tempSlots(f.Words)
	c.emitInst(Inst{Op: OpHdrLoad, N: uint16(f.Words), Dst: t, A: hid, Imm: uint64(f.Offset)})
	return t
}

// lastUnionField loads [union stack, member, field] of the last union.
func (c *compiler) lastUnionField(e *jVal) (slot uint32, width int, err error) {
	s, err := e.strs(3)
	if err != nil {
		return 0, 0, err
	}
	i, ok := c.unionStackByName[s[0]]
	if !ok || len(c.unionStacks[i].Unions) == 0 {
		return 0, 0, fmt.Errorf("there is no header union stack %q", s[0])
	}
	us := &c.unionStacks[i]
	for m, n := range us.names {
		if n != s[1] {
			continue
		}
		t := c.headers[c.unions[us.Unions[0]].Headers[m]].Type
		k, ok := t.byName[s[2]]
		if !ok {
			break
		}
		f := &t.Fields[k]
		c.noteWholeUnions(us.Unions)
		ix, u, h := c.tempSlots(1), c.tempSlots(1), c.tempSlots(1)
		c.emitInst(Inst{Op: OpSub, Dst: ix, A: us.Next, B: SlotOne, Imm: ^uint64(0)})
		c.emitInst(Inst{Op: OpUnionID, Dst: u, A: ix, Imm: uint64(i)})
		c.emitInst(Inst{Op: OpUnionHdr, Dst: h, A: u, Imm: uint64(m)})
		return c.loadRaw(f, h), f.Width, nil
	}
	return 0, 0, fmt.Errorf("header union stack %q has no %q %q", s[0], s[1], s[2])
}

func (c *compiler) compileTransition(jt *jTransition, st *ParseState, state func(*string) (int32, error)) error {
	next, err := state(jt.NextState)
	if err != nil {
		return err
	}
	typ := jt.Type
	if typ == "" {
		typ = "hexstr"
	}
	if typ == "hexstr" && jt.Value != nil && *jt.Value == "default" {
		typ = "default"
	}
	if typ == "default" {
		st.Next = next
		return nil
	}
	if jt.Value == nil || st.Words == 0 {
		return fmt.Errorf("a transition on a value needs a value and a key")
	}
	pc := ParseCase{Next: next, ValueSetUse: -1, Mask: make([]uint64, st.Words)}
	if jt.Mask == nil || *jt.Mask == "null" {
		for i := range st.Key {
			st.Key[i].packInto(pc.Mask, big.NewInt(-1))
		}
	} else if pc.Mask, err = st.packPadded(*jt.Mask); err != nil {
		return fmt.Errorf("mask: %w", err)
	}
	switch typ {
	case "hexstr":
		if pc.Value, err = st.packPadded(*jt.Value); err != nil {
			return err
		}
		for i := range pc.Value {
			pc.Value[i] &= pc.Mask[i]
		}
	case "parse_vset":
		i, ok := c.vsetByName[*jt.Value]
		if !ok {
			return fmt.Errorf("there is no value set %q", *jt.Value)
		}
		var widths []int
		for _, p := range st.Key {
			widths = append(widths, p.Width)
		}
		if c.vsets[i].Widths == nil {
			c.vsets[i].Widths = widths
		} else if fmt.Sprint(c.vsets[i].Widths) != fmt.Sprint(widths) {
			return fmt.Errorf("%w: value set %q used with keys of different widths", ErrUnsupported, *jt.Value)
		}
		pc.ValueSetUse = len(c.vsetUses)
		c.vsetUses = append(c.vsetUses, ValueSetUse{Set: i, Key: st.Key, Words: st.Words, Mask: pc.Mask})
	default:
		return fmt.Errorf("%w: transition type %q", ErrUnsupported, typ)
	}
	st.Cases = append(st.Cases, pc)
	return nil
}

// ValueSetUse is a case of a parser's select that matches against a value set.
type ValueSetUse struct {
	Set   int
	Key   []KeyPiece
	Words int
	Mask  []uint64
}

// packPadded splits a hex constant, in which every field is padded to whole
// bytes, into the packed key.
func (st *ParseState) packPadded(s string) ([]uint64, error) {
	v, err := parseHex(s)
	if err != nil {
		return nil, err
	}
	key := make([]uint64, st.Words)
	for i := len(st.Key) - 1; i >= 0; i-- {
		p := &st.Key[i]
		n := uint((p.Width + 7) / 8 * 8)
		part := new(big.Int).And(v, new(big.Int).Sub(Pow2(int(n)), bigOne))
		p.packInto(key, part)
		v = new(big.Int).Rsh(v, n)
	}
	return key, nil
}
