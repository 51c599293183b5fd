package program

import (
	"fmt"
	"math/big"
)

// BMv2 evaluates expressions on integers without bound; p4c adds the masks
// that make them wrap. Here every expression has a range known at load time,
// so that what fits 64 bits is computed in one slot and the rest in as many
// as it needs. A consumer also says how many low bits it looks at (need): a
// sum that is masked to 32 bits is right modulo 2^64 whatever its range.

// exactBits is the number of needed bits that stands for the exact value.
const exactBits = 1 << 30

const maxExprBits = 4096 // intermediate results are exact up to here

// operand is a compiled data value.
type operand struct {
	slot     uint32
	words    int
	lo       *big.Int // of the exact value
	hi       *big.Int
	exact    bool     // the slots hold the exact value, else its low bits
	constant *big.Int // the value when it is constant
}

var (
	bigZero = big.NewInt(0)
	bigOne  = big.NewInt(1)
	maxU64  = new(big.Int).SetUint64(^uint64(0))
	minI64  = big.NewInt(-1 << 63)
	maxI64  = big.NewInt(1<<63 - 1)
)

// Pow2 returns 2^n.
func Pow2(n int) *big.Int { return new(big.Int).Lsh(bigOne, uint(n)) }

// fitsOneSlot reports whether values in lo..hi have one slot as their exact form:
// unsigned, or two's complement when lo is negative.
func fitsOneSlot(lo, hi *big.Int) bool {
	if lo.Sign() >= 0 {
		return hi.Cmp(maxU64) <= 0
	}
	return lo.Cmp(minI64) >= 0 && hi.Cmp(maxI64) <= 0
}

// bitsFor is the number of bits a two's complement form of lo..hi needs;
// without the sign bit when nothing is negative.
func bitsFor(lo, hi *big.Int) int {
	n := max(lo.BitLen(), hi.BitLen())
	if lo.Sign() < 0 {
		n++
	}
	return max(n, 1)
}

// WordsFor returns the number of 64-bit slots that a number of so many bits takes.
func WordsFor(bits int) int { return max(1, (bits+63)/64) }

func constOperandRange(v *big.Int) operand {
	return operand{lo: v, hi: v, constant: v, exact: true}
}

// wordsOf returns v in two's complement in n words.
func wordsOf(v *big.Int, n int) []uint64 {
	m := new(big.Int).And(v, new(big.Int).Sub(Pow2(64*n), bigOne))
	w := make([]uint64, n)
	mask := maxU64
	for i := range w {
		w[i] = new(big.Int).And(m, mask).Uint64()
		m.Rsh(m, 64)
	}
	return w
}

// compileInteger compiles e as an integer of which the consumer reads the low need bits.
func (c *compiler) compileInteger(e *jVal, need int) (operand, error) {
	if c.depth++; c.depth > 500 {
		return operand{}, fmt.Errorf("expression is nested too deeply")
	}
	defer func() { c.depth-- }()
	e, err := unwrap(e)
	if err != nil {
		return operand{}, err
	}
	if e.Op != "" {
		return c.dataOp(e, need)
	}
	switch e.Type {
	case "hexstr":
		s, err := e.str()
		if err != nil {
			return operand{}, err
		}
		v, err := parseHex(s)
		if err != nil {
			return operand{}, err
		}
		return c.constOperand(v)
	case "number":
		return c.constOperand(big.NewInt(int64(e.num)))
	case "field":
		s, err := e.strs(2)
		if err != nil {
			return operand{}, err
		}
		r, err := c.fieldRef(s[0], s[1])
		if err != nil {
			return operand{}, err
		}
		if s[1] == "$valid$" && r.h.Meta {
			return c.constOperand(bigOne)
		}
		return c.loadField(r.Field, r.Slot(), need), nil
	case "local", "runtime_data":
		i, err := e.int()
		if err != nil {
			return operand{}, err
		}
		if i < 0 || i >= len(c.params) {
			return operand{}, fmt.Errorf("action parameter %d does not exist; there are %d", i, len(c.params))
		}
		p := c.params[i]
		return operand{slot: p.slot, words: p.Words, lo: bigZero, hi: new(big.Int).Sub(Pow2(p.Width), bigOne), exact: true}, nil
	case "stack_field":
		hid, t, fn, err := c.lastOf(e)
		if err != nil {
			return operand{}, err
		}
		k, ok := t.byName[fn]
		if !ok {
			return operand{}, fmt.Errorf("header type %q has no field %q", t.name, fn)
		}
		return c.loadDynamic(&t.Fields[k], hid, need), nil
	case "register":
		return c.registerOperand(e)
	case "bool":
		return operand{}, fmt.Errorf("a boolean where a number is needed")
	}
	return operand{}, fmt.Errorf("%w: operand of type %q in an expression", ErrUnsupported, e.Type)
}

// unwrap removes the layers of {"type":"expression","value":...}.
func unwrap(e *jVal) (*jVal, error) {
	for range 16 {
		if e == nil {
			return nil, fmt.Errorf("operand is missing")
		}
		if e.Type != "expression" {
			return e, nil
		}
		if e.inner != nil {
			e = e.inner
			continue
		}
		var in jVal
		if err := unmarshal(e.Value, &in); err != nil {
			return nil, err
		}
		e = &in
	}
	return nil, fmt.Errorf("expression is wrapped too deeply")
}

func (c *compiler) constOperand(v *big.Int) (operand, error) {
	o := constOperandRange(v)
	if bitsFor(v, v) > maxExprBits {
		return o, fmt.Errorf("constant of %d bits is wider than %d", v.BitLen(), maxExprBits)
	}
	o.words = 1
	if !fitsOneSlot(v, v) {
		o.words = WordsFor(bitsFor(v, v))
	}
	o.slot = c.constWords(wordsOf(v, o.words))
	return o, nil
}

// fieldRange is the range of a field's values.
func fieldRange(f *Field) (lo, hi *big.Int) {
	if f.signed {
		h := Pow2(f.Width - 1)
		return new(big.Int).Neg(h), h.Sub(h, bigOne)
	}
	return bigZero, new(big.Int).Sub(Pow2(f.Width), bigOne)
}

// loadField makes an operand of a field whose raw bits are at slot.
func (c *compiler) loadField(f *Field, slot uint32, need int) operand {
	lo, hi := fieldRange(f)
	o := operand{slot: slot, words: f.Words, lo: lo, hi: hi, exact: true}
	if f.signed && f.Width%64 != 0 {
		if need <= f.Width {
			o.exact = false
			return o
		}
		t := c.tempSlots(f.Words)
		if f.Words == 1 {
			c.emitInst(Inst{Op: OpSext, Dst: t, A: slot, Imm: uint64(64 - f.Width)})
		} else {
			c.emitInst(Inst{Op: OpWSextAt, N: uint16(f.Words), Dst: t, A: slot, Imm: uint64(f.Width)})
		}
		o.slot = t
	}
	return o
}

// loadDynamic loads a field of the header whose id is in slot hid.
func (c *compiler) loadDynamic(f *Field, hid uint32, need int) operand {
	t := c.tempSlots(f.Words)
	c.emitInst(Inst{Op: OpHdrLoad, N: uint16(f.Words), Dst: t, A: hid, Imm: uint64(f.Offset)})
	return c.loadField(f, t, need)
}

// widenTo returns slots that hold the operand in w words.
func (c *compiler) widenTo(o operand, w int) uint32 {
	if o.words >= w {
		return o.slot
	}
	t := c.tempSlots(w)
	op := OpWZext
	if o.lo.Sign() < 0 {
		op = OpWSext
	}
	c.emitInst(Inst{Op: op, N: uint16(w), Dst: t, A: o.slot, B: uint32(o.words)})
	return t
}

func (c *compiler) dataOp(e *jVal, need int) (operand, error) {
	switch e.Op {
	case "+", "-", "*", "&", "|", "^":
		return c.compileModular(e, need)
	case "~":
		x, err := c.compileInteger(e.Right, need)
		if err != nil {
			return operand{}, err
		}
		r := operand{lo: new(big.Int).Not(x.hi), hi: new(big.Int).Not(x.lo)}
		return c.compileUnary(OpNot, OpWNot, x, r, need, func() (operand, error) { return c.compileInteger(e.Right, exactBits) })
	case "<<":
		return c.shiftLeft(e, need)
	case ">>":
		return c.shiftRight(e)
	case "/", "%":
		return c.compileDivision(e)
	case "two_comp_mod", "sat_cast", "usat_cast":
		return c.compileCast(e)
	case "?":
		return c.compileSelect(e, need)
	case "b2d":
		s, err := c.compileBoolean(e.Right)
		if err != nil {
			return operand{}, err
		}
		return operand{slot: s, words: 1, lo: bigZero, hi: bigOne, exact: true}, nil
	case "access_field":
		return c.accessField(e, need)
	case "last_stack_index", "size_stack":
		next, n, err := c.stackCount(e.Right)
		if err != nil {
			return operand{}, err
		}
		o := operand{slot: next, words: 1, lo: bigZero, hi: big.NewInt(int64(n)), exact: true}
		if e.Op == "last_stack_index" {
			t := c.tempSlots(1)
			c.emitInst(Inst{Op: OpSub, Dst: t, A: next, B: SlotOne, Imm: MaskOf(64)})
			o.slot, o.lo, o.hi = t, big.NewInt(-1), big.NewInt(int64(n-1))
		}
		return o, nil
	}
	return operand{}, fmt.Errorf("%w: operator %q giving a number", ErrUnsupported, e.Op)
}

// rangeOf computes the range of a modular operation.
func rangeOf(op string, x, y operand) (lo, hi *big.Int) {
	n := func() *big.Int { return new(big.Int) }
	switch op {
	case "+":
		return n().Add(x.lo, y.lo), n().Add(x.hi, y.hi)
	case "-":
		return n().Sub(x.lo, y.hi), n().Sub(x.hi, y.lo)
	case "*":
		p := []*big.Int{n().Mul(x.lo, y.lo), n().Mul(x.lo, y.hi), n().Mul(x.hi, y.lo), n().Mul(x.hi, y.hi)}
		lo, hi = p[0], p[0]
		for _, q := range p[1:] {
			if q.Cmp(lo) < 0 {
				lo = q
			}
			if q.Cmp(hi) > 0 {
				hi = q
			}
		}
		return lo, hi
	case "&":
		xs, ys := x.lo.Sign() >= 0, y.lo.Sign() >= 0
		switch {
		case xs && ys:
			hi = x.hi
			if y.hi.Cmp(hi) < 0 {
				hi = y.hi
			}
			return bigZero, hi
		case xs:
			return bigZero, x.hi
		case ys:
			return bigZero, y.hi
		}
	}
	k := max(x.lo.BitLen(), x.hi.BitLen(), y.lo.BitLen(), y.hi.BitLen())
	hi = Pow2(k)
	lo = bigZero
	if x.lo.Sign() < 0 || y.lo.Sign() < 0 {
		lo = new(big.Int).Neg(hi)
	}
	return lo, new(big.Int).Sub(hi, bigOne)
}

var modularOps = map[string][2]Opcode{
	"+": {OpAdd, OpWAdd}, "-": {OpSub, OpWSub}, "*": {OpMul, OpWMul},
	"&": {OpAnd, OpWAnd}, "|": {OpOr, OpWOr}, "^": {OpXor, OpWXor},
}

// compileModular compiles the operations whose low bits depend on the operands' low
// bits only.
func (c *compiler) compileModular(e *jVal, need int) (operand, error) {
	l := e.Left
	if l.isNull() && (e.Op == "+" || e.Op == "-") {
		l = &jVal{Type: "hexstr", Value: jRaw(`"0x0"`)}
	}
	if e.Op == "&" {
		if o, ok, err := c.maskWith(l, e.Right, need); ok || err != nil {
			return o, err
		}
		if o, ok, err := c.maskWith(e.Right, l, need); ok || err != nil {
			return o, err
		}
	}
	// First as if only the low bits mattered; when the range turns out to
	// need more, again with that.
	cur := min(need, 64)
	for {
		mark, used := len(c.code), len(c.tempUsed)
		x, err := c.compileInteger(l, cur)
		if err != nil {
			return operand{}, err
		}
		y, err := c.compileInteger(e.Right, cur)
		if err != nil {
			return operand{}, err
		}
		lo, hi := rangeOf(e.Op, x, y)
		r := operand{lo: lo, hi: hi}
		bits := bitsFor(lo, hi)
		ops := modularOps[e.Op]
		if fitsOneSlot(lo, hi) || need <= 64 {
			// cur is min(need, 64): operands may hold only that many right
			// bits, and so the result; ask for 64 when exactness matters.
			if need > 64 && cur < 64 || (need > cur) && cur != 64 {
				cur = 64
				c.dropCodeSince(mark, used)
				continue
			}
			r.words, r.slot = 1, c.tempSlots(1)
			r.exact = fitsOneSlot(lo, hi) && cur >= 64
			if fitsOneSlot(lo, hi) && x.exact && y.exact {
				r.exact = true
			}
			c.emitInst(Inst{Op: ops[0], Dst: r.slot, A: x.slot, B: y.slot, Imm: ^uint64(0)})
			return r, nil
		}
		want := min(need, bits, maxExprBits)
		if cur < want {
			cur = want
			c.dropCodeSince(mark, used)
			continue
		}
		w := WordsFor(want)
		a, b := c.widenTo(x, w), c.widenTo(y, w)
		r.words, r.slot = w, c.tempSlots(w)
		r.exact = want >= bits
		c.emitInst(Inst{Op: ops[1], N: uint16(w), Dst: r.slot, A: a, B: b})
		return r, nil
	}
}

// dropCodeSince drops the code since mark and the temporaries since used.
func (c *compiler) dropCodeSince(mark, used int) {
	c.code = c.code[:mark]
	for _, t := range c.tempUsed[used:] {
		c.tempFree[t.n] = append(c.tempFree[t.n], t.slot)
	}
	c.tempUsed = c.tempUsed[:used]
}

// maskWith compiles x & m for a constant m that is not negative: only m's
// bits of x are needed.
func (c *compiler) maskWith(x, m *jVal, need int) (operand, bool, error) {
	u, err := unwrap(m)
	if err != nil || u.Type != "hexstr" {
		return operand{}, false, err
	}
	s, err := u.str()
	if err != nil {
		return operand{}, false, err
	}
	mv, err := parseHex(s)
	if err != nil {
		return operand{}, false, err
	}
	if mv.Sign() < 0 {
		return operand{}, false, nil
	}
	n := min(need, max(mv.BitLen(), 1))
	o, err := c.compileInteger(x, n)
	if err != nil {
		return operand{}, false, err
	}
	lo, hi := rangeOf("&", o, constOperandRange(mv))
	w := WordsFor(min(n, bitsFor(lo, hi)))
	r := operand{lo: lo, hi: hi, words: w, exact: need >= mv.BitLen()}
	if w == 1 {
		// The low bits of o are right; bits of the mask that need leaves out do not matter.
		mask := wordsOf(mv, 1)[0]
		if o.exact && o.lo.Sign() >= 0 && o.hi.Cmp(mv) <= 0 && isLowMask(mv) {
			o.exact = true
			return o, true, nil // nothing to mask
		}
		if k := len(c.code) - 1; o.words == 1 && k >= 0 && c.code[k].Op <= LastMasked && c.code[k].Op >= OpMov && c.code[k].Dst == o.slot && c.isTemp(o.slot) {
			c.code[k].Imm &= mask
			r.slot = o.slot
			return r, true, nil
		}
		r.slot = c.tempSlots(1)
		c.emitInst(Inst{Op: OpMov, Dst: r.slot, A: o.slot, Imm: mask})
		return r, true, nil
	}
	a := c.widenTo(o, w)
	k := c.constWords(wordsOf(mv, w))
	r.slot = c.tempSlots(w)
	c.emitInst(Inst{Op: OpWAnd, N: uint16(w), Dst: r.slot, A: a, B: k})
	return r, true, nil
}

func isLowMask(v *big.Int) bool {
	t := new(big.Int).Add(v, bigOne)
	return t.And(t, v).Sign() == 0
}

// compileUnary emits a bitwise operation of one operand. again compiles the operand
// exactly, for results that turn out to need more than 64 bits.
func (c *compiler) compileUnary(narrow, wide Opcode, x, r operand, need int, again func() (operand, error)) (operand, error) {
	if fitsOneSlot(r.lo, r.hi) || need <= 64 {
		r.words, r.slot = 1, c.tempSlots(1)
		r.exact = fitsOneSlot(r.lo, r.hi) && x.exact && x.words == 1
		c.emitInst(Inst{Op: narrow, Dst: r.slot, A: x.slot, Imm: ^uint64(0)})
		return r, nil
	}
	x, err := again()
	if err != nil {
		return r, err
	}
	bits := bitsFor(r.lo, r.hi)
	w := WordsFor(min(need, bits, maxExprBits))
	a := c.widenTo(x, w)
	r.words, r.slot, r.exact = w, c.tempSlots(w), w*64 >= bits
	c.emitInst(Inst{Op: wide, N: uint16(w), Dst: r.slot, A: a})
	return r, nil
}
