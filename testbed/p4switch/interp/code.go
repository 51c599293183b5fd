package interp

// An inst is one instruction of the flat code that actions, expressions and
// pipelines compile to. dst, a and b index the packet's slots unless the
// opcode says otherwise; narrow results are masked with imm, so that an
// assignment's truncation costs nothing.
type inst struct {
	op  opcode
	n   uint16 // words, of operations on several
	dst uint32
	a   uint32
	b   uint32
	imm uint64
}

type opcode uint16

const (
	opHalt opcode = iota // leave run
	opRet                // end of an action: go on at the return address

	// Narrow: one slot each.
	opMov // dst = a
	opAdd // dst = a + b
	opSub // dst = a - b
	opMul // dst = a * b
	opAnd // dst = a & b
	opOr  // dst = a | b
	opXor // dst = a ^ b
	opNot // dst = ^a
	opShl // dst = a << b
	opShr // dst = a >> b, unsigned
	opSar // dst = a >> b, signed

	opDivU   // dst = a / b, 0 when b is 0
	opModU   // dst = a % b, 0 when b is 0
	opDivS   // the same, signed
	opModS   //
	opEq     // dst = a == b
	opNe     //
	opLtU    //
	opLeU    //
	opLtS    //
	opLeS    //
	opNonZ   // dst = a != 0
	opIsZ    // dst = a == 0
	opSext   // dst = the low 64-imm bits of a, sign-extended
	opMinU   // dst = min(a, imm), unsigned
	opClampS // dst = a within 0..imm, a signed
	opClampB // dst = a within -imm-1..imm, a signed
	opSel    // dst = b if a != 0, else slot imm

	// Control. imm is a program counter.
	opJmp
	opJz  // if a == 0
	opJnz // if a != 0
	opJEq // if a == b
	opJNe
	opJLtU
	opJGeU
	opJLeU
	opJGtU
	opBack // a jump that may loop: counted against a limit
	opJzBack
	opTable      // apply table imm; goes on where the table says
	opCallAction // run the action at a, go on at imm
	opCheckExit  // leave run when the packet is marked for exit

	// Headers, stacks and unions.
	opSetValid   // header imm becomes valid
	opDirty      // the set at dst gains imm
	opSetInvalid // header imm becomes invalid
	opHdrID      // dst = id of element a of the stack imm, -1 when out of range
	opUnionID    // dst = id of the union at element a of union stack imm, -1 when out of range
	opUnionHdr   // dst = id of member imm of the union whose id is a, -1
	opHdrLoad    // dst.. (n words) = slots at offset imm of the header whose id is a; 0 when -1
	opHdrStore   // the reverse: dst.. go to offset imm of header a, truncated to b bits
	opHdrValid   // dst = header a is valid
	opLast       // dst = id of the last element of stack imm, -1 when empty
	opUnionValid // dst = union a is valid
	opEqHdr      // dst = headers a and b are valid and equal
	opEqUnion    // dst = unions a and b are valid and equal

	// State.
	opCount    // counter imm, index a
	opRegRead  // dst.. (n words) = register imm at index a; b bits of dst
	opRegWrite // register imm at index a = dst..
	opDrop     // mark_to_drop
	opExit
	opCall // call imm of the program: everything rarer

	// Wide: n words, least significant first, two's complement.
	opWMov  // dst = a
	opWZext // dst = a of b words, zero-extended
	opWSext // dst = a of b words, sign-extended
	opWAdd
	opWSub
	opWMul
	opWAnd
	opWOr
	opWXor
	opWNot
	opWShl // by slot b
	opWShr // unsigned, by slot b
	opWSar // signed, by slot b
	opWDiv // dst = a / b, both not negative
	opWMod
	opWEq // dst (one slot) = a == b
	opWNe
	opWLtU
	opWLeU
	opWLtS
	opWLeS
	opWNonZ
	opWMask   // dst = the low imm bits of a
	opWSextAt // dst = the low imm bits of a, sign-extended
	opWSat    // dst = a signed, within 0..2^imm-1
	opWSatS   // dst = a signed, within -2^(imm-1)..2^(imm-1)-1
	opWSel    // dst = b if slot a != 0, else slots imm
	opWCount  // dst (one slot) = min(a, 2^32): a shift count
)

// lastMasked is the last of the opcodes from opMov on that mask with imm.
const lastMasked = opSar

// emit appends an instruction and returns its address.
func (c *compiler) emit(in inst) int {
	c.code = append(c.code, in)
	return len(c.code) - 1
}

// constant returns the slot that holds v, for n = 1 word.
func (c *compiler) constant(v uint64) uint32 {
	if v <= 1 {
		return uint32(v)
	}
	if s, ok := c.consts[v]; ok {
		return s
	}
	s := c.alloc(1)
	c.consts[v] = s
	c.constList = append(c.constList, constSlot{s, v})
	return s
}

// constWords returns slots that hold the words in order.
func (c *compiler) constWords(w []uint64) uint32 {
	if len(w) == 1 {
		return c.constant(w[0])
	}
	s := c.alloc(len(w))
	for i, x := range w {
		c.constList = append(c.constList, constSlot{s + uint32(i), x})
	}
	return s
}

type constSlot struct {
	slot uint32
	v    uint64
}

// temp takes n slots in a row until freeTemps.
func (c *compiler) temp(n int) uint32 {
	free := c.tempFree[n]
	var s uint32
	if len(free) > 0 {
		s = free[len(free)-1]
		c.tempFree[n] = free[:len(free)-1]
	} else {
		s = c.alloc(n)
	}
	c.tempUsed = append(c.tempUsed, tempBlock{s, n})
	return s
}

type tempBlock struct {
	slot uint32
	n    int
}

// freeTemps gives all temporaries back: a statement is complete.
func (c *compiler) freeTemps() {
	for _, t := range c.tempUsed {
		c.tempFree[t.n] = append(c.tempFree[t.n], t.slot)
	}
	c.tempUsed = c.tempUsed[:0]
}

// isTemp reports whether slot s was taken by temp in this statement.
func (c *compiler) isTemp(s uint32) bool {
	for _, t := range c.tempUsed {
		if s >= t.slot && s < t.slot+uint32(t.n) {
			return true
		}
	}
	return false
}

func maskOf(bits int) uint64 {
	if bits >= 64 {
		return ^uint64(0)
	}
	return 1<<uint(bits) - 1
}
