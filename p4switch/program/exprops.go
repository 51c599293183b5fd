package program

import (
	"fmt"
	"math/big"
)

// compileShiftCount compiles a shift count into one slot, saturated far above any width.
func (c *compiler) compileShiftCount(e *jVal) (operand, error) {
	y, err := c.compileInteger(e, exactBits)
	if err != nil {
		return y, err
	}
	if y.words > 1 {
		t := c.tempSlots(1)
		c.emitInst(Inst{Op: OpWCount, N: uint16(y.words), Dst: t, A: y.slot})
		y.slot, y.words = t, 1
		y.hi = Pow2(32)
	}
	return y, nil
}

func clampShift(v *big.Int) uint {
	if v.Sign() < 0 {
		return 0
	}
	if !v.IsUint64() || v.Uint64() > maxExprBits {
		return maxExprBits
	}
	return uint(v.Uint64())
}

func (c *compiler) shiftLeft(e *jVal, need int) (operand, error) {
	y, err := c.compileShiftCount(e.Right)
	if err != nil {
		return y, err
	}
	mark, used := len(c.code), len(c.tempUsed)
	x, err := c.compileInteger(e.Left, min(need, 64))
	if err != nil {
		return x, err
	}
	smin, smax := clampShift(y.lo), clampShift(y.hi)
	r := operand{}
	if x.lo.Sign() < 0 {
		r.lo = new(big.Int).Lsh(x.lo, smax)
	} else {
		r.lo = new(big.Int).Lsh(x.lo, smin)
	}
	if x.hi.Sign() >= 0 {
		r.hi = new(big.Int).Lsh(x.hi, smax)
	} else {
		r.hi = new(big.Int).Lsh(x.hi, smin)
	}
	if need <= 64 {
		r.words, r.slot = 1, c.tempSlots(1)
		r.exact = fitsOneSlot(r.lo, r.hi) && x.exact && x.words == 1
		c.emitInst(Inst{Op: OpShl, Dst: r.slot, A: x.slot, B: y.slot, Imm: ^uint64(0)})
		return r, nil
	}
	c.dropCodeSince(mark, used)
	if x, err = c.compileInteger(e.Left, need); err != nil {
		return x, err
	}
	bits := bitsFor(r.lo, r.hi)
	if fitsOneSlot(r.lo, r.hi) && x.words == 1 {
		r.words, r.slot, r.exact = 1, c.tempSlots(1), true
		c.emitInst(Inst{Op: OpShl, Dst: r.slot, A: x.slot, B: y.slot, Imm: ^uint64(0)})
		return r, nil
	}
	w := WordsFor(min(need, bits, maxExprBits))
	a := c.widenTo(x, w)
	r.words, r.slot, r.exact = w, c.tempSlots(w), w*64 >= bits
	c.emitInst(Inst{Op: OpWShl, N: uint16(w), Dst: r.slot, A: a, B: y.slot})
	return r, nil
}

func (c *compiler) shiftRight(e *jVal) (operand, error) {
	x, err := c.compileInteger(e.Left, exactBits)
	if err != nil {
		return x, err
	}
	y, err := c.compileShiftCount(e.Right)
	if err != nil {
		return y, err
	}
	smin, smax := clampShift(y.lo), clampShift(y.hi)
	if y.hi.BitLen() > 12 {
		smax = maxExprBits
	}
	r := operand{exact: true}
	if x.lo.Sign() < 0 {
		r.lo = new(big.Int).Rsh(x.lo, smin)
	} else {
		r.lo = new(big.Int).Rsh(x.lo, smax)
	}
	if x.hi.Sign() >= 0 {
		r.hi = new(big.Int).Rsh(x.hi, smin)
	} else {
		r.hi = new(big.Int).Rsh(x.hi, smax)
	}
	op, wop := OpShr, OpWShr
	if x.lo.Sign() < 0 {
		op, wop = OpSar, OpWSar
	}
	if x.words == 1 {
		r.words, r.slot = 1, c.tempSlots(1)
		c.emitInst(Inst{Op: op, Dst: r.slot, A: x.slot, B: y.slot, Imm: ^uint64(0)})
		return r, nil
	}
	r.words, r.slot = x.words, c.tempSlots(x.words)
	c.emitInst(Inst{Op: wop, N: uint16(x.words), Dst: r.slot, A: x.slot, B: y.slot})
	if fitsOneSlot(r.lo, r.hi) {
		r.words = 1
	}
	return r, nil
}

func (c *compiler) compileDivision(e *jVal) (operand, error) {
	x, err := c.compileInteger(e.Left, exactBits)
	if err != nil {
		return x, err
	}
	y, err := c.compileInteger(e.Right, exactBits)
	if err != nil {
		return y, err
	}
	r := operand{exact: true}
	m := new(big.Int).Abs(x.lo)
	if a := new(big.Int).Abs(x.hi); a.Cmp(m) > 0 {
		m = a
	}
	if e.Op == "%" {
		d := new(big.Int).Abs(y.lo)
		if a := new(big.Int).Abs(y.hi); a.Cmp(d) > 0 {
			d = a
		}
		if d.Sign() > 0 {
			d = new(big.Int).Sub(d, bigOne)
		}
		if d.Cmp(m) < 0 {
			m = d
		}
	}
	r.lo, r.hi = bigZero, m
	signed := x.lo.Sign() < 0 || y.lo.Sign() < 0
	if signed {
		r.lo = new(big.Int).Neg(m)
	}
	if x.words == 1 && y.words == 1 && (!signed || fitsOneSlot(minOf(x.lo, y.lo), maxOf(x.hi, y.hi))) {
		op := map[string]Opcode{"/": OpDivU, "%": OpModU}[e.Op]
		if signed {
			op = map[string]Opcode{"/": OpDivS, "%": OpModS}[e.Op]
		}
		r.words, r.slot = 1, c.tempSlots(1)
		c.emitInst(Inst{Op: op, Dst: r.slot, A: x.slot, B: y.slot})
		return r, nil
	}
	if signed {
		return r, fmt.Errorf("%w: signed %q of more than 64 bits", ErrUnsupported, e.Op)
	}
	w := max(x.words, y.words)
	a, b := c.widenTo(x, w), c.widenTo(y, w)
	r.words, r.slot = w, c.tempSlots(w)
	op := map[string]Opcode{"/": OpWDiv, "%": OpWMod}[e.Op]
	c.emitInst(Inst{Op: op, N: uint16(w), Dst: r.slot, A: a, B: b})
	if fitsOneSlot(r.lo, r.hi) {
		r.words = 1
	}
	return r, nil
}

func minOf(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func maxOf(a, b *big.Int) *big.Int {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

// compileCast compiles two_comp_mod, sat_cast and usat_cast, whose right side is
// the width.
func (c *compiler) compileCast(e *jVal) (operand, error) {
	wo, err := c.compileInteger(e.Right, exactBits)
	if err != nil {
		return wo, err
	}
	if wo.constant == nil || !wo.constant.IsInt64() || wo.constant.Int64() < 1 || wo.constant.Int64() > maxExprBits-64 {
		return wo, fmt.Errorf("%w: %s to a width that is not a constant of 1 to %d", ErrUnsupported, e.Op, maxExprBits-64)
	}
	n := int(wo.constant.Int64())
	need := exactBits
	if e.Op == "two_comp_mod" {
		need = n
	}
	x, err := c.compileInteger(e.Left, need)
	if err != nil {
		return x, err
	}
	return c.castTo(e.Op, x, n), nil
}

func (c *compiler) castTo(op string, x operand, n int) operand {
	r := operand{exact: true}
	if op == "usat_cast" {
		r.lo, r.hi = bigZero, new(big.Int).Sub(Pow2(n), bigOne)
	} else {
		h := Pow2(n - 1)
		r.lo, r.hi = new(big.Int).Neg(h), new(big.Int).Sub(h, bigOne)
	}
	if x.exact && x.lo.Cmp(r.lo) >= 0 && x.hi.Cmp(r.hi) <= 0 {
		return x
	}
	neg := x.lo.Sign() < 0
	if n <= 64 && x.words == 1 && (op != "usat_cast" || n != 64 || !neg) {
		r.words, r.slot = 1, c.tempSlots(1)
		switch {
		case op == "two_comp_mod":
			c.emitInst(Inst{Op: OpSext, Dst: r.slot, A: x.slot, Imm: uint64(64 - n)})
		case !neg:
			c.emitInst(Inst{Op: OpMinU, Dst: r.slot, A: x.slot, Imm: maxOf(r.hi, bigZero).Uint64()})
		case op == "usat_cast":
			c.emitInst(Inst{Op: OpClampS, Dst: r.slot, A: x.slot, Imm: r.hi.Uint64()})
		default:
			c.emitInst(Inst{Op: OpClampB, Dst: r.slot, A: x.slot, Imm: r.hi.Uint64()})
		}
		return r
	}
	// One bit more than either side needs, so that both are signed values.
	w := WordsFor(max(bitsFor(x.lo, x.hi), n) + 1)
	wop := map[string]Opcode{"two_comp_mod": OpWSextAt, "sat_cast": OpWSatS, "usat_cast": OpWSat}[op]
	if op == "two_comp_mod" {
		w = max(x.words, WordsFor(n))
	}
	a := c.widenTo(x, w)
	r.words, r.slot = w, c.tempSlots(w)
	c.emitInst(Inst{Op: wop, N: uint16(w), Dst: r.slot, A: a, Imm: uint64(n)})
	if fitsOneSlot(r.lo, r.hi) {
		r.words = 1
	}
	return r
}

func (c *compiler) compileSelect(e *jVal, need int) (operand, error) {
	cond, err := c.compileBoolean(e.Cond)
	if err != nil {
		return operand{}, err
	}
	x, err := c.compileInteger(e.Left, need)
	if err != nil {
		return operand{}, err
	}
	y, err := c.compileInteger(e.Right, need)
	if err != nil {
		return operand{}, err
	}
	r := operand{lo: minOf(x.lo, y.lo), hi: maxOf(x.hi, y.hi), exact: x.exact && y.exact}
	if need <= 64 || fitsOneSlot(r.lo, r.hi) && x.words == 1 && y.words == 1 {
		r.words, r.slot = 1, c.tempSlots(1)
		r.exact = r.exact && fitsOneSlot(r.lo, r.hi)
		c.emitInst(Inst{Op: OpSel, Dst: r.slot, A: cond, B: x.slot, Imm: uint64(y.slot)})
		return r, nil
	}
	w := max(x.words, y.words, WordsFor(min(bitsFor(r.lo, r.hi), need)))
	a, b := c.widenTo(x, w), c.widenTo(y, w)
	r.words, r.slot = w, c.tempSlots(w)
	c.emitInst(Inst{Op: OpWSel, N: uint16(w), Dst: r.slot, A: cond, B: a, Imm: uint64(b)})
	if r.exact && fitsOneSlot(r.lo, r.hi) {
		r.words = 1
	}
	return r, nil
}
