package interp

import (
	"fmt"
	"math/big"
)

func (c *compiler) selectKey(js *jState, st *parseState) error {
	var err error
	st.keyPC, err = c.snippet(func() error {
		for i := range js.Key {
			e := &js.Key[i]
			p := keyPiece{guard: slotOne}
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
				p.slot, p.width = r.slot(), r.f.width
			case "stack_field":
				hid, t, fn, err := c.lastOf(e)
				if err != nil {
					return err
				}
				k, ok := t.byName[fn]
				if !ok {
					return fmt.Errorf("header type %q has no field %q", t.name, fn)
				}
				f := &t.fields[k]
				p.slot, p.width = c.loadRaw(f, hid), f.width
			case "union_stack_field":
				if p.slot, p.width, err = c.lastUnionField(e); err != nil {
					return err
				}
			case "lookahead":
				var ow []int
				if err := unmarshal(e.Value, &ow); err != nil || len(ow) != 2 || ow[0] < 0 || ow[1] < 1 || ow[0] > 1<<20 || ow[1] > maxFieldWidth {
					return fmt.Errorf("a lookahead is [offset, width] in bits, got %.40s", e.Value)
				}
				p.lookahead, p.off, p.width = true, ow[0], ow[1]
			default:
				return fmt.Errorf("%w: %q in a select", ErrUnsupported, e.Type)
			}
			st.key = append(st.key, p)
		}
		return nil
	})
	if err == nil {
		st.words = pack(st.key)
	}
	return err
}

// loadRaw loads a field's bits from the header whose id is in slot hid.
func (c *compiler) loadRaw(f *field, hid uint32) uint32 {
	t := c.temp(f.words)
	c.emit(inst{op: opHdrLoad, n: uint16(f.words), dst: t, a: hid, imm: uint64(f.off)})
	return t
}

// lastUnionField loads [union stack, member, field] of the last union.
func (c *compiler) lastUnionField(e *jVal) (slot uint32, width int, err error) {
	s, err := e.strs(3)
	if err != nil {
		return 0, 0, err
	}
	i, ok := c.unionStackByName[s[0]]
	if !ok || len(c.unionStacks[i].unions) == 0 {
		return 0, 0, fmt.Errorf("there is no header union stack %q", s[0])
	}
	us := &c.unionStacks[i]
	for m, n := range us.names {
		if n != s[1] {
			continue
		}
		t := c.headers[c.unions[us.unions[0]].headers[m]].typ
		k, ok := t.byName[s[2]]
		if !ok {
			break
		}
		f := &t.fields[k]
		c.wholeUnions(us.unions)
		ix, u, h := c.temp(1), c.temp(1), c.temp(1)
		c.emit(inst{op: opSub, dst: ix, a: us.next, b: slotOne, imm: ^uint64(0)})
		c.emit(inst{op: opUnionID, dst: u, a: ix, imm: uint64(i)})
		c.emit(inst{op: opUnionHdr, dst: h, a: u, imm: uint64(m)})
		return c.loadRaw(f, h), f.width, nil
	}
	return 0, 0, fmt.Errorf("header union stack %q has no %q %q", s[0], s[1], s[2])
}

func (c *compiler) transition(jt *jTransition, st *parseState, state func(*string) (int32, error)) error {
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
		st.next = next
		return nil
	}
	if jt.Value == nil || st.words == 0 {
		return fmt.Errorf("a transition on a value needs a value and a key")
	}
	pc := parseCase{next: next, vset: -1, mask: make([]uint64, st.words)}
	if jt.Mask == nil || *jt.Mask == "null" {
		for i := range st.key {
			st.key[i].place(pc.mask, big.NewInt(-1))
		}
	} else if pc.mask, err = st.padded(*jt.Mask); err != nil {
		return fmt.Errorf("mask: %w", err)
	}
	switch typ {
	case "hexstr":
		if pc.val, err = st.padded(*jt.Value); err != nil {
			return err
		}
		for i := range pc.val {
			pc.val[i] &= pc.mask[i]
		}
	case "parse_vset":
		i, ok := c.vsetByName[*jt.Value]
		if !ok {
			return fmt.Errorf("there is no value set %q", *jt.Value)
		}
		var widths []int
		for _, p := range st.key {
			widths = append(widths, p.width)
		}
		if c.vsets[i].Widths == nil {
			c.vsets[i].Widths = widths
		} else if fmt.Sprint(c.vsets[i].Widths) != fmt.Sprint(widths) {
			return fmt.Errorf("%w: value set %q used with keys of different widths", ErrUnsupported, *jt.Value)
		}
		pc.vset = len(c.vsetUses)
		c.vsetUses = append(c.vsetUses, vsetUse{set: i, key: st.key, words: st.words, mask: pc.mask})
	default:
		return fmt.Errorf("%w: transition type %q", ErrUnsupported, typ)
	}
	st.cases = append(st.cases, pc)
	return nil
}

// vsetUse is a select case on a value set.
type vsetUse struct {
	set   int
	key   []keyPiece
	words int
	mask  []uint64
}

// padded splits a hex constant, in which every field is padded to whole
// bytes, into the packed key.
func (st *parseState) padded(s string) ([]uint64, error) {
	v, err := parseHex(s)
	if err != nil {
		return nil, err
	}
	key := make([]uint64, st.words)
	for i := len(st.key) - 1; i >= 0; i-- {
		p := &st.key[i]
		n := uint((p.width + 7) / 8 * 8)
		part := new(big.Int).And(v, new(big.Int).Sub(pow2(int(n)), bigOne))
		p.place(key, part)
		v = new(big.Int).Rsh(v, n)
	}
	return key, nil
}
