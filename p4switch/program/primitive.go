package program

import (
	"bytes"
	"fmt"
)

// Call is a primitive that is too rare for an opcode of its own: see [OpCall].
type Call struct {
	Kind CallKind
	ID   int // array, calculation or stack, by kind
	ID2  int
	A    uint32 // A and B are operands: slots, or as the kind says
	B    uint32
	Dst  uint32
	Text string
	List []LogArg
}

// LogArg is a number that log_msg prints.
type LogArg struct {
	Slot   uint32
	Words  int
	Signed bool
}

// CallKind is the primitive that a [Call] executes.
type CallKind uint8

// CallAddHeader and the others are the kinds.
const (
	CallAddHeader    CallKind = iota // make header a valid; if it was not, zero it
	CallRemoveHeader                 // make header a invalid
	CallAssignHeader                 // copy header b to header a
	CallAssignUnion                  // copy header union b to union a
	CallAssignStack                  // copy header stack ID2 to stack ID
	CallAssignUnionStack
	CallPush // push_front of stack id, by slot a
	CallPop
	CallPushUnion
	CallPopUnion
	CallHash   // dst = a + (calculation id modulo b)
	CallRandom // dst = a random number from a to b
	CallMeter  // dst = colour of meter id at index a
	CallDigest // send digest (learn list) a
	CallClone  // clone to session a, with field list b
	CallResubmit
	CallRecirculate
	CallTruncate // truncate the packet to a bytes
	CallAssert   // drop the packet if a is 0
	CallAssume
	CallLog
)

func (c *compiler) emitCall(k Call) error {
	c.emitInst(Inst{Op: OpCall, Imm: uint64(len(c.calls))})
	c.calls = append(c.calls, k)
	return nil
}

// arity of the primitives; -1: any.
var primitiveArity = map[string]int{
	"assign": 2, "modify_field": 2, "assign_VL": 2, "add_to_field": 2, "subtract_from_field": 2,
	"add": 3, "subtract": 3, "bit_xor": 3, "bit_or": 3, "bit_and": 3, "shift_left": 3, "shift_right": 3,
	"drop": -1, "mark_to_drop": -1, "no_op": -1, "exit": 0,
	"add_header": 1, "add_header_fast": 1, "remove_header": 1, "copy_header": 2,
	"assign_header": 2, "assign_union": 2, "assign_header_stack": 2, "assign_union_stack": 2,
	"push": 2, "pop": 2, "count": 2, "register_read": 3, "register_write": 3, "execute_meter": 3,
	"modify_field_with_hash_based_offset": 4, "modify_field_rng_uniform": 3, "truncate": 1,
	"generate_digest": 2, "clone_ingress_pkt_to_egress": 2, "clone_egress_pkt_to_egress": 2,
	"resubmit": 1, "recirculate": 1, "assert": 1, "assume": 1, "log_msg": 2,
}

func (c *compiler) compilePrimitive(p *jPrimitive) error {
	n, ok := primitiveArity[p.Op]
	if !ok {
		return fmt.Errorf("%w: primitive %q", ErrUnsupported, p.Op)
	}
	if n >= 0 && len(p.Parameters) != n {
		return fmt.Errorf("%d parameters where %d are expected", len(p.Parameters), n)
	}
	at := func(i int) *jVal { return &p.Parameters[i] }
	switch p.Op {
	case "assign", "modify_field":
		return c.compileAssign(at(0), at(1))
	case "assign_VL":
		return c.assignVL(at(0), at(1))
	case "add_to_field":
		return c.compileBinary("+", at(0), at(0), at(1))
	case "subtract_from_field":
		return c.compileBinary("-", at(0), at(0), at(1))
	case "add", "subtract", "bit_xor", "bit_or", "bit_and", "shift_left", "shift_right":
		op := map[string]string{"add": "+", "subtract": "-", "bit_xor": "^", "bit_or": "|", "bit_and": "&", "shift_left": "<<", "shift_right": ">>"}[p.Op]
		return c.compileBinary(op, at(0), at(1), at(2))
	case "drop", "mark_to_drop":
		return c.dropPrimitive(p)
	case "no_op":
	case "exit":
		c.emitInst(Inst{Op: OpExit})
	case "add_header", "add_header_fast", "remove_header":
		return c.headerPrimitive(p.Op, at(0))
	case "copy_header", "assign_header":
		return c.headerCopy(at(0), at(1))
	case "assign_union":
		a, err := c.unionOperand(at(0))
		if err != nil {
			return err
		}
		b, err := c.unionOperand(at(1))
		if err != nil {
			return err
		}
		return c.emitCall(Call{Kind: CallAssignUnion, A: a, B: b})
	case "assign_header_stack", "assign_union_stack", "push", "pop":
		return c.stackPrimitive(p.Op, at(0), at(1))
	case "count":
		id, err := indexByName(at(0), "counter_array", c.counterByName)
		if err != nil {
			return err
		}
		o, err := c.compileShiftCount(at(1))
		if err != nil {
			return err
		}
		c.emitInst(Inst{Op: OpCount, A: o.slot, Imm: uint64(id)})
	case "register_read", "register_write":
		return c.registerPrimitive(p)
	case "execute_meter":
		id, err := indexByName(at(0), "meter_array", c.meterByName)
		if err != nil {
			return err
		}
		o, err := c.compileShiftCount(at(1))
		if err != nil {
			return err
		}
		return c.callInto(at(2), Call{Kind: CallMeter, ID: id, A: o.slot}, true)
	case "modify_field_with_hash_based_offset":
		return c.hashPrimitive(at(0), at(1), at(2), at(3))
	case "modify_field_rng_uniform":
		lo, err := c.saturateTo64(at(1))
		if err != nil {
			return err
		}
		hi, err := c.saturateTo64(at(2))
		if err != nil {
			return err
		}
		return c.callInto(at(0), Call{Kind: CallRandom, A: lo, B: hi}, true)
	case "log_msg":
		return c.logPrimitive(at(0), at(1))
	case "assert", "assume":
		return c.checkPrimitive(p)
	default:
		return c.flagPrimitive(p)
	}
	return nil
}

// dropPrimitive compiles drop and mark_to_drop.
func (c *compiler) dropPrimitive(p *jPrimitive) error {
	in := Inst{Op: OpDrop, Dst: c.std.egressSpec.Slot(), A: SlotZero}
	if c.std.mcast.h != nil {
		in.A = c.std.mcast.Slot()
	}
	// The metadata may be a copy, as an inout parameter makes one.
	if len(p.Parameters) == 1 {
		h, err := c.headerOperand(&p.Parameters[0])
		if err != nil {
			return err
		}
		spec, err := c.fieldRef(c.headers[h.id].name, "egress_spec")
		if err != nil {
			return err
		}
		in.Dst, in.A = spec.Slot(), SlotZero
		if mcast, err := c.fieldRef(c.headers[h.id].name, "mcast_grp"); err == nil {
			in.A = mcast.Slot()
		}
	}
	c.emitInst(in)
	return nil
}

// hashPrimitive compiles dst = base + calculation calc modulo size.
func (c *compiler) hashPrimitive(dst, from, calc, modulo *jVal) error {
	base, err := c.saturateTo64(from)
	if err != nil {
		return err
	}
	id, err := indexByName(calc, "calculation", c.calcByName)
	if err != nil {
		return err
	}
	c.calcUses[id]++
	size, err := c.saturateTo64(modulo)
	if err != nil {
		return err
	}
	return c.callInto(dst, Call{Kind: CallHash, ID: id, A: base, B: size}, false)
}

// checkPrimitive compiles assert and assume.
func (c *compiler) checkPrimitive(p *jPrimitive) error {
	s, err := c.compileCondition(&p.Parameters[0])
	if err != nil {
		return err
	}
	k := Call{Kind: CallAssert, A: s}
	if p.Op == "assume" {
		k.Kind = CallAssume
	}
	k.Text = p.Op
	if p.Source != nil {
		k.Text = fmt.Sprintf("%s, file %s, line %d", p.Source.Fragment, p.Source.Filename, p.Source.Line)
	}
	return c.emitCall(k)
}

// flagPrimitive compiles those that only leave a mark on the packet.
func (c *compiler) flagPrimitive(p *jPrimitive) error {
	s := make([]uint32, len(p.Parameters))
	for i := range p.Parameters {
		o, err := c.saturateTo64(&p.Parameters[i])
		if err != nil {
			return err
		}
		s[i] = o
	}
	switch p.Op {
	case "truncate":
		return c.emitCall(Call{Kind: CallTruncate, A: s[0]})
	case "generate_digest":
		return c.emitCall(Call{Kind: CallDigest, A: s[1]})
	case "clone_ingress_pkt_to_egress", "clone_egress_pkt_to_egress":
		return c.emitCall(Call{Kind: CallClone, A: s[0], B: s[1]})
	case "resubmit":
		return c.emitCall(Call{Kind: CallResubmit, A: s[0]})
	case "recirculate":
		return c.emitCall(Call{Kind: CallRecirculate, A: s[0]})
	}
	return fmt.Errorf("%w: primitive %q", ErrUnsupported, p.Op)
}

// callInto compiles a call whose result goes to dst. keep: when the call
// gives no result, dst stays as it is.
func (c *compiler) callInto(dst *jVal, k Call, keep bool) error {
	d, err := c.compilePlace(dst)
	if err != nil {
		return err
	}
	k.Dst = c.tempSlots(1)
	if keep {
		o, err := c.compileInteger(dst, min(64, c.widthOf(d)))
		if err != nil {
			return err
		}
		c.emitInst(Inst{Op: OpMov, Dst: k.Dst, A: o.slot, Imm: ^uint64(0)})
	}
	if err := c.emitCall(k); err != nil {
		return err
	}
	c.compileStore(d, operand{slot: k.Dst, words: 1, lo: bigZero, hi: maxU64, exact: true})
	return nil
}

func indexByName(e *jVal, typ string, m map[string]int) (int, error) {
	e, err := unwrap(e)
	if err != nil {
		return 0, err
	}
	if e.Type != typ {
		return 0, fmt.Errorf("operand of type %q where %q is needed", e.Type, typ)
	}
	n, err := e.str()
	if err != nil {
		return 0, err
	}
	i, ok := m[n]
	if !ok {
		return 0, fmt.Errorf("there is no %s %q", typ, n)
	}
	return i, nil
}

func (c *compiler) stackPrimitive(op string, a, b *jVal) error {
	ua, err := unwrap(a)
	if err != nil {
		return err
	}
	isUnion := ua.Type == "header_union_stack"
	find := c.stackOperand
	if isUnion {
		find = c.unionStackOperand
	}
	id, err := find(ua)
	if err != nil {
		return err
	}
	mark := func(id int) {
		if isUnion {
			c.noteWholeUnions(c.unionStacks[id].Unions)
		} else {
			c.noteWholeHeaders(c.stacks[id].Headers)
		}
	}
	mark(id)
	if op == "push" || op == "pop" {
		o, err := c.compileShiftCount(b)
		if err != nil {
			return err
		}
		k := map[string]CallKind{"push": CallPush, "pop": CallPop}[op]
		if isUnion {
			k = map[string]CallKind{"push": CallPushUnion, "pop": CallPopUnion}[op]
		}
		return c.emitCall(Call{Kind: k, ID: id, A: o.slot})
	}
	id2, err := find(b)
	if err != nil {
		return err
	}
	mark(id2)
	if isUnion {
		if len(c.unionStacks[id].Unions) != len(c.unionStacks[id2].Unions) {
			return fmt.Errorf("assignment between stacks of different sizes")
		}
		return c.emitCall(Call{Kind: CallAssignUnionStack, ID: id, ID2: id2})
	}
	if len(c.stacks[id].Headers) != len(c.stacks[id2].Headers) || c.stacks[id].typ != c.stacks[id2].typ {
		return fmt.Errorf("assignment between stacks of different sizes or types")
	}
	return c.emitCall(Call{Kind: CallAssignStack, ID: id, ID2: id2})
}

func (c *compiler) registerPrimitive(p *jPrimitive) error {
	read := p.Op == "register_read"
	regAt, ixAt := 0, 1
	if read {
		regAt, ixAt = 1, 2
	}
	id, err := indexByName(&p.Parameters[regAt], "register_array", c.registerByName)
	if err != nil {
		return err
	}
	ix, err := c.compileShiftCount(&p.Parameters[ixAt])
	if err != nil {
		return err
	}
	w := c.registers[id].Width
	n := WordsFor(w)
	if !read {
		o, err := c.compileValue(&p.Parameters[2], w)
		if err != nil {
			return err
		}
		c.emitInst(Inst{Op: OpRegWrite, N: uint16(n), Dst: c.widenTo(o, n), A: ix.slot, Imm: uint64(id)})
		return nil
	}
	d, err := c.compilePlace(&p.Parameters[0])
	if err != nil {
		return err
	}
	if d.Field != nil && !d.dynamic && d.Field.Words == n && !d.Field.sat {
		c.emitInst(Inst{Op: OpRegRead, N: uint16(n), Dst: d.Slot, A: ix.slot, B: uint32(min(w, d.Field.Width)), Imm: uint64(id)})
		if d.h != nil {
			c.noteRead(Ref{d.h, d.Field}) // an index out of range leaves it as it is
			c.noteWritten(d.h, d.Field)
		}
		return nil
	}
	old, err := c.compileInteger(&p.Parameters[0], c.widthOf(d))
	if err != nil {
		return err
	}
	t := c.tempSlots(n)
	for i := range min(n, old.words) {
		c.emitInst(Inst{Op: OpMov, Dst: t + uint32(i), A: old.slot + uint32(i), Imm: ^uint64(0)})
	}
	c.emitInst(Inst{Op: OpRegRead, N: uint16(n), Dst: t, A: ix.slot, B: uint32(w), Imm: uint64(id)})
	f := Field{Width: w, Words: n}
	c.compileStore(d, c.loadField(&f, t, exactBits))
	return nil
}

func (c *compiler) logPrimitive(format, args *jVal) error {
	f, err := unwrap(format)
	if err != nil {
		return err
	}
	k := Call{Kind: CallLog}
	if k.Text, err = f.str(); err != nil {
		return err
	}
	var vs []jVal
	if a, err := unwrap(args); err != nil {
		return err
	} else if string(bytes.Join(bytes.Fields(a.Value), nil)) == "{}" {
		// p4c's way to write no arguments
	} else if err := unmarshal(a.Value, &vs); err != nil {
		return err
	}
	for i := range vs {
		o, err := c.compileValue(&vs[i], exactBits)
		if err != nil {
			return err
		}
		k.List = append(k.List, LogArg{o.slot, o.words, o.lo.Sign() < 0})
	}
	return c.emitCall(k)
}
