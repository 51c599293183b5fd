package program

import (
	"fmt"
)

// ArgSlots is the slots of a packet's state into which an argument of an action is written.
type ArgSlots struct {
	slot  uint32
	Words int
	Width int
}

// Action is a compiled action: its code, and the slots of its arguments.
type Action struct {
	Info   ActionInfo
	Params []ArgSlots
	Words  int    // number of slots of all arguments
	PC     uint32 // place in Program.Code where its code starts
	end    uint32 // and where its OpRet is
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
		a := Action{Info: ActionInfo{ID: ActionID(i), Name: ja.Name}}
		for _, rd := range ja.RuntimeData {
			if rd.Bitwidth < 0 || rd.Bitwidth > MaxFieldWidth {
				return fmt.Errorf("action %q: parameter %q has a width of %d bits; 0 to %d are possible", ja.Name, rd.Name, rd.Bitwidth, MaxFieldWidth)
			}
			n := WordsFor(rd.Bitwidth)
			a.Params = append(a.Params, ArgSlots{Words: n, Width: rd.Bitwidth, slot: uint32(a.Words)})
			a.Info.Params = append(a.Info.Params, Param{rd.Name, rd.Bitwidth})
			a.Words += n
		}
		maxWords = max(maxWords, a.Words)
		c.actions = append(c.actions, a)
	}
	c.args = c.allocSlots(maxWords)
	for i := range c.actions {
		a := &c.actions[i]
		for k := range a.Params {
			a.Params[k].slot += c.args
		}
		c.params = a.Params
		a.PC = uint32(len(c.code))
		if err := c.compilePrimitives(c.j.Actions[i].Primitives); err != nil {
			return fmt.Errorf("action %q: %w", a.Info.Name, err)
		}
		a.end = uint32(c.emitInst(Inst{Op: OpRet}))
	}
	c.params = nil
	return nil
}

// compilePrimitives compiles a list of primitive calls, in which jumps go to
// positions in the list.
func (c *compiler) compilePrimitives(ps []jPrimitive) error {
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
			o, err := c.compileInteger(&p.Parameters[n-1], exactBits)
			if err != nil {
				return fmt.Errorf("primitive %d: %w", i, err)
			}
			if o.constant == nil || !o.constant.IsInt64() || o.constant.Int64() < 0 || o.constant.Int64() > int64(len(ps)) {
				return fmt.Errorf("primitive %d: %s to a place outside the action", i, p.Op)
			}
			t := int(o.constant.Int64())
			op := OpJmp
			var a uint32
			if p.Op == "_jump_if_zero" {
				op = OpJz
				if a, err = c.compileCondition(&p.Parameters[0]); err != nil {
					return fmt.Errorf("primitive %d: %w", i, err)
				}
			}
			if t <= i {
				op = map[Opcode]Opcode{OpJmp: OpBack, OpJz: OpJzBack}[op]
			}
			fixes = append(fixes, fix{c.emitInst(Inst{Op: op, A: a}), t})
			c.freeTemps()
			continue
		}
		c.unionCopy = c.inUnionCopy(ps, i)
		if err := c.compilePrimitive(p); err != nil {
			return fmt.Errorf("primitive %d (%s): %w", i, p.Op, err)
		}
		c.freeTemps()
	}
	at[len(ps)] = len(c.code)
	for _, f := range fixes {
		c.code[f.pc].Imm = uint64(at[f.target])
	}
	return nil
}

// compileCondition compiles a value, number or boolean, into a slot that is 0 if it is false.
func (c *compiler) compileCondition(e *jVal) (uint32, error) {
	if kindOf(e) == kindBool {
		return c.compileBoolean(e)
	}
	return c.nonZero(e)
}

// compileValue compiles a number or boolean.
func (c *compiler) compileValue(e *jVal, need int) (operand, error) {
	if kindOf(e) == kindBool {
		s, err := c.compileBoolean(e)
		return operand{slot: s, words: 1, lo: bigZero, hi: bigOne, exact: true}, err
	}
	return c.compileInteger(e, need)
}

// Place is something that can be assigned to: a field, known or computed.
type Place struct {
	Field   *Field
	Slot    uint32 // the field's slot, if it is known at compile time
	dynamic bool
	hid     uint32 // slot with the header's id, when dynamic
	reg     int    // register array, when f is nil
	index   uint32
	h       *Header // of a static field
}

func (c *compiler) compilePlace(e *jVal) (Place, error) {
	e, err := unwrap(e)
	if err != nil {
		return Place{}, err
	}
	switch {
	case e.Op == "access_field":
		h, f, err := c.accessedField(e)
		if err != nil {
			return Place{}, err
		}
		if h.dynamic {
			return Place{Field: f, dynamic: true, hid: h.slot}, nil
		}
		hd := &c.headers[h.id]
		return Place{Field: f, Slot: hd.Base + f.Offset, h: hd}, nil
	case e.Op != "":
	case e.Type == "field":
		s, err := e.strs(2)
		if err != nil {
			return Place{}, err
		}
		r, err := c.resolveField(s[0], s[1])
		if err != nil {
			return Place{}, err
		}
		return Place{Field: r.Field, Slot: r.Slot(), h: r.h}, nil
	case e.Type == "stack_field":
		hid, t, fn, err := c.lastOf(e)
		if err != nil {
			return Place{}, err
		}
		k, ok := t.byName[fn]
		if !ok {
			return Place{}, fmt.Errorf("header type %q has no field %q", t.name, fn)
		}
		return Place{Field: &t.Fields[k], dynamic: true, hid: hid}, nil
	case e.Type == "register":
		id, ix, err := c.registerRef(e)
		return Place{reg: id, index: ix}, err
	}
	return Place{}, fmt.Errorf("%w: assignment to a %q %q", ErrUnsupported, e.Type, e.Op)
}

func (c *compiler) widthOf(d Place) int {
	if d.Field == nil {
		return c.registers[d.reg].Width
	}
	return d.Field.Width
}

// neededBits returns the number of low bits that an assignment to d uses.
func (c *compiler) neededBits(d Place) int {
	if d.Field != nil && d.Field.sat {
		return exactBits
	}
	return c.widthOf(d)
}

// compileStore assigns o to d.
func (c *compiler) compileStore(d Place, o operand) {
	w := c.widthOf(d)
	if d.Field != nil && d.Field.sat {
		op := "usat_cast"
		if d.Field.signed {
			op = "sat_cast"
		}
		o = c.castTo(op, o, w)
	}
	n := WordsFor(w)
	switch {
	case d.Field == nil:
		c.emitInst(Inst{Op: OpRegWrite, N: uint16(n), Dst: c.widenTo(o, n), A: d.index, Imm: uint64(d.reg)})
	case d.dynamic:
		c.emitInst(Inst{Op: OpHdrStore, N: uint16(n), Dst: c.widenTo(o, n), A: d.hid, B: uint32(w), Imm: uint64(d.Field.Offset)})
	case n == 1:
		k := len(c.code) - 1
		if k >= c.barrier && k >= 0 && c.code[k].Dst == o.slot && c.isTemp(o.slot) && c.code[k].Op >= OpMov && c.code[k].Op <= LastMasked && o.words == 1 {
			c.code[k].Dst = d.Slot
			c.code[k].Imm &= MaskOf(w)
		} else {
			c.emitInst(Inst{Op: OpMov, Dst: d.Slot, A: o.slot, Imm: MaskOf(w)})
		}
	default:
		c.emitInst(Inst{Op: OpWMask, N: uint16(n), Dst: d.Slot, A: c.widenTo(o, n), Imm: uint64(w)})
	}
	if d.h != nil {
		c.noteWritten(d.h, d.Field)
	}
}

func (c *compiler) compileAssign(dst, src *jVal) error {
	d, err := c.compilePlace(dst)
	if err != nil {
		return err
	}
	if d.Field != nil && d.Field.Varbit {
		return c.assignVL(dst, src)
	}
	o, err := c.compileValue(src, c.neededBits(d))
	if err != nil {
		return err
	}
	c.compileStore(d, o)
	return nil
}

// assignVL copies a varbit field with its length.
func (c *compiler) assignVL(dst, src *jVal) error {
	d, err := c.compilePlace(dst)
	if err != nil {
		return err
	}
	s, err := c.compilePlace(src)
	if err != nil {
		return err
	}
	if d.Field == nil || s.Field == nil || !d.Field.Varbit || !s.Field.Varbit || d.h == nil || s.h == nil {
		return fmt.Errorf("%w: assignment between a varbit and something else", ErrUnsupported)
	}
	n := min(d.Field.Words, s.Field.Words)
	for i := range uint32(d.Field.Words) {
		from := uint32(SlotZero)
		if i < uint32(n) {
			from = s.Slot + i
		}
		c.emitInst(Inst{Op: OpMov, Dst: d.Slot + i, A: from, Imm: ^uint64(0)})
	}
	ln := c.tempSlots(1)
	c.emitInst(Inst{Op: OpMinU, Dst: ln, A: s.h.Base + s.h.Type.VarLen, Imm: uint64(d.Field.Width)})
	c.emitInst(Inst{Op: OpMov, Dst: d.h.Base + d.h.Type.VarLen, A: ln, Imm: ^uint64(0)})
	return nil
}

// compileBinary compiles dst = x op y of the old-style primitives.
func (c *compiler) compileBinary(op string, dst, x, y *jVal) error {
	return c.compileAssign(dst, &jVal{Op: op, Left: x, Right: y})
}

// saturateTo64 compiles an operand saturated to an unsigned 64-bit number, as BMv2 converts numbers.
func (c *compiler) saturateTo64(e *jVal) (uint32, error) {
	o, err := c.compileInteger(e, exactBits)
	if err != nil {
		return 0, err
	}
	if o.words > 1 || o.lo.Sign() < 0 {
		o = c.castTo("usat_cast", o, 64)
	}
	return o.slot, nil
}
