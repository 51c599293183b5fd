package interp

import (
	"fmt"
)

type param struct {
	slot  uint32
	words int
	width int
}

// action is a compiled action: its code and where its arguments go.
type action struct {
	info   ActionInfo
	params []param
	words  int    // slots of all arguments
	pc     uint32 // where its code starts
	end    uint32 // and where its opRet is
}

func (c *compiler) compileActions() error {
	c.actionByID = map[int]int{}
	maxWords := 0
	for i := range c.j.Actions {
		ja := &c.j.Actions[i]
		if _, dup := c.actionByID[ja.ID]; dup {
			return fmt.Errorf("action %q: id %d is taken", ja.Name, ja.ID)
		}
		c.actionByID[ja.ID] = i
		a := action{info: ActionInfo{ID: ActionID(i), Name: ja.Name}}
		for _, rd := range ja.RuntimeData {
			if rd.Bitwidth < 1 || rd.Bitwidth > maxFieldWidth {
				return fmt.Errorf("action %q: parameter %q has a width of %d bits; 1 to %d are possible", ja.Name, rd.Name, rd.Bitwidth, maxFieldWidth)
			}
			n := wordsFor(rd.Bitwidth)
			a.params = append(a.params, param{words: n, width: rd.Bitwidth, slot: uint32(a.words)})
			a.info.Params = append(a.info.Params, Param{rd.Name, rd.Bitwidth})
			a.words += n
		}
		maxWords = max(maxWords, a.words)
		c.actions = append(c.actions, a)
	}
	c.args = c.alloc(maxWords)
	for i := range c.actions {
		a := &c.actions[i]
		for k := range a.params {
			a.params[k].slot += c.args
		}
		c.params = a.params
		a.pc = uint32(len(c.code))
		if err := c.primitives(c.j.Actions[i].Primitives); err != nil {
			return fmt.Errorf("action %q: %w", a.info.Name, err)
		}
		a.end = uint32(c.emit(inst{op: opRet}))
	}
	c.params = nil
	return nil
}

// primitives compiles a list of primitive calls, in which jumps go to
// positions in the list.
func (c *compiler) primitives(ps []jPrimitive) error {
	at := make([]int, len(ps)+1)
	type fix struct{ pc, target int }
	var fixes []fix
	for i := range ps {
		at[i] = len(c.code)
		p := &ps[i]
		if p.Op == "_jump" || p.Op == "_jump_if_zero" {
			n := len(p.Parameters)
			if (p.Op == "_jump" && n != 1) || (p.Op == "_jump_if_zero" && n != 2) {
				return fmt.Errorf("primitive %d: %s with %d parameters", i, p.Op, n)
			}
			o, err := c.data(&p.Parameters[n-1], all)
			if err != nil {
				return fmt.Errorf("primitive %d: %w", i, err)
			}
			if o.konst == nil || !o.konst.IsInt64() || o.konst.Int64() < 0 || o.konst.Int64() > int64(len(ps)) {
				return fmt.Errorf("primitive %d: %s to a place outside the action", i, p.Op)
			}
			t := int(o.konst.Int64())
			op := opJmp
			var a uint32
			if p.Op == "_jump_if_zero" {
				op = opJz
				if a, err = c.truth(&p.Parameters[0]); err != nil {
					return fmt.Errorf("primitive %d: %w", i, err)
				}
			}
			if t <= i {
				op = map[opcode]opcode{opJmp: opBack, opJz: opJzBack}[op]
			}
			fixes = append(fixes, fix{c.emit(inst{op: op, a: a}), t})
			c.freeTemps()
			continue
		}
		if err := c.primitive(p); err != nil {
			return fmt.Errorf("primitive %d (%s): %w", i, p.Op, err)
		}
		c.freeTemps()
	}
	at[len(ps)] = len(c.code)
	for _, f := range fixes {
		c.code[f.pc].imm = uint64(at[f.target])
	}
	return nil
}

// truth compiles a value, number or boolean, into a slot that is 0 when false.
func (c *compiler) truth(e *jVal) (uint32, error) {
	if kindOf(e) == kindBool {
		return c.boolean(e)
	}
	return c.nonZero(e)
}

// value compiles a number or boolean.
func (c *compiler) value(e *jVal, need int) (operand, error) {
	if kindOf(e) == kindBool {
		s, err := c.boolean(e)
		return operand{slot: s, words: 1, lo: bigZero, hi: bigOne, exact: true}, err
	}
	return c.data(e, need)
}

// lvalue is a place that can be assigned to.
type lvalue struct {
	f       *field
	slot    uint32 // of a static field
	dynamic bool
	hid     uint32 // slot with the header's id, when dynamic
	reg     int    // register array, when f is nil
	index   uint32
	h       *header // of a static field
}

func (c *compiler) lvalue(e *jVal) (lvalue, error) {
	e, err := unwrap(e)
	if err != nil {
		return lvalue{}, err
	}
	switch {
	case e.Op == "access_field":
		h, f, err := c.accessedField(e)
		if err != nil {
			return lvalue{}, err
		}
		if h.dynamic {
			return lvalue{f: f, dynamic: true, hid: h.slot}, nil
		}
		hd := &c.headers[h.id]
		return lvalue{f: f, slot: hd.base + f.off, h: hd}, nil
	case e.Op != "":
	case e.Type == "field":
		s, err := e.strs(2)
		if err != nil {
			return lvalue{}, err
		}
		r, err := c.resolve(s[0], s[1])
		if err != nil {
			return lvalue{}, err
		}
		return lvalue{f: r.f, slot: r.slot(), h: r.h}, nil
	case e.Type == "stack_field":
		hid, t, fn, err := c.lastOf(e)
		if err != nil {
			return lvalue{}, err
		}
		k, ok := t.byName[fn]
		if !ok {
			return lvalue{}, fmt.Errorf("header type %q has no field %q", t.name, fn)
		}
		return lvalue{f: &t.fields[k], dynamic: true, hid: hid}, nil
	case e.Type == "register":
		id, ix, err := c.registerRef(e)
		return lvalue{reg: id, index: ix}, err
	}
	return lvalue{}, fmt.Errorf("%w: assignment to a %q %q", ErrUnsupported, e.Type, e.Op)
}

func (c *compiler) width(d lvalue) int {
	if d.f == nil {
		return c.registers[d.reg].Width
	}
	return d.f.width
}

// need is what an assignment to d looks at.
func (c *compiler) need(d lvalue) int {
	if d.f != nil && d.f.sat {
		return all
	}
	return c.width(d)
}

// store assigns o to d.
func (c *compiler) store(d lvalue, o operand) {
	w := c.width(d)
	if d.f != nil && d.f.sat {
		op := "usat_cast"
		if d.f.signed {
			op = "sat_cast"
		}
		o = c.castTo(op, o, w)
	}
	n := wordsFor(w)
	switch {
	case d.f == nil:
		c.emit(inst{op: opRegWrite, n: uint16(n), dst: c.widen(o, n), a: d.index, imm: uint64(d.reg)})
	case d.dynamic:
		c.emit(inst{op: opHdrStore, n: uint16(n), dst: c.widen(o, n), a: d.hid, b: uint32(w), imm: uint64(d.f.off)})
	case n == 1:
		k := len(c.code) - 1
		if k >= c.barrier && k >= 0 && c.code[k].dst == o.slot && c.isTemp(o.slot) && c.code[k].op >= opMov && c.code[k].op <= lastMasked && o.words == 1 {
			c.code[k].dst = d.slot
			c.code[k].imm &= maskOf(w)
		} else {
			c.emit(inst{op: opMov, dst: d.slot, a: o.slot, imm: maskOf(w)})
		}
	default:
		c.emit(inst{op: opWMask, n: uint16(n), dst: d.slot, a: c.widen(o, n), imm: uint64(w)})
	}
	if d.h != nil {
		c.wrote(d.h, d.f)
	}
}

func (c *compiler) assign(dst, src *jVal) error {
	d, err := c.lvalue(dst)
	if err != nil {
		return err
	}
	if d.f != nil && d.f.varbit {
		return c.assignVL(dst, src)
	}
	o, err := c.value(src, c.need(d))
	if err != nil {
		return err
	}
	c.store(d, o)
	return nil
}

// assignVL copies a varbit field with its length.
func (c *compiler) assignVL(dst, src *jVal) error {
	d, err := c.lvalue(dst)
	if err != nil {
		return err
	}
	s, err := c.lvalue(src)
	if err != nil {
		return err
	}
	if d.f == nil || s.f == nil || !d.f.varbit || !s.f.varbit || d.h == nil || s.h == nil {
		return fmt.Errorf("%w: assignment between a varbit and something else", ErrUnsupported)
	}
	n := min(d.f.words, s.f.words)
	for i := range uint32(d.f.words) {
		from := uint32(slotZero)
		if i < uint32(n) {
			from = s.slot + i
		}
		c.emit(inst{op: opMov, dst: d.slot + i, a: from, imm: ^uint64(0)})
	}
	ln := c.temp(1)
	c.emit(inst{op: opMinU, dst: ln, a: s.h.base + s.h.typ.varLen, imm: uint64(d.f.width)})
	c.emit(inst{op: opMov, dst: d.h.base + d.h.typ.varLen, a: ln, imm: ^uint64(0)})
	return nil
}

// binary compiles dst = x op y of the old-style primitives.
func (c *compiler) binary(op string, dst, x, y *jVal) error {
	return c.assign(dst, &jVal{Op: op, Left: x, Right: y})
}

// u64 saturates an operand to 64 bits without sign, as BMv2 converts numbers.
func (c *compiler) u64(e *jVal) (uint32, error) {
	o, err := c.data(e, all)
	if err != nil {
		return 0, err
	}
	if o.words > 1 || o.lo.Sign() < 0 {
		o = c.castTo("usat_cast", o, 64)
	}
	return o.slot, nil
}
