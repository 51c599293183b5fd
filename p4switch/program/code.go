package program

// An Inst is one instruction of the flat code that actions, expressions and
// pipelines compile to. Dst, A and B index the packet's slots unless the
// opcode says otherwise; narrow results are masked with Imm, so that an
// assignment's truncation costs nothing.
type Inst struct {
	Op  Opcode
	N   uint16 // words, of operations on several
	Dst uint32
	A   uint32
	B   uint32
	Imm uint64
}

// Opcode says what an [Inst] does.
type Opcode uint16

// OpHalt and the others are the operations.
const (
	OpHalt Opcode = iota // leave run
	OpRet                // end of an action: go on at the return address

	// OpMov and the next ones are narrow: one slot each.
	OpMov // dst = a
	OpAdd // dst = a + b
	OpSub // dst = a - b
	OpMul // dst = a * b
	OpAnd // dst = a & b
	OpOr  // dst = a | b
	OpXor // dst = a ^ b
	OpNot // dst = ^a
	OpShl // dst = a << b
	OpShr // dst = a >> b, unsigned
	OpSar // dst = a >> b, signed

	OpDivU   // dst = a / b, 0 when b is 0
	OpModU   // dst = a % b, 0 when b is 0
	OpDivS   // the same, signed
	OpModS   //
	OpEq     // dst = a == b
	OpNe     // dst = a != b
	OpLtU    // dst = a < b, unsigned
	OpLeU    // dst = a <= b, unsigned
	OpLtS    // dst = a < b, signed
	OpLeS    // dst = a <= b, signed
	OpNonZ   // dst = a != 0
	OpIsZ    // dst = a == 0
	OpSext   // dst = the low 64-imm bits of a, sign-extended
	OpMinU   // dst = min(a, imm), unsigned
	OpClampS // dst = a within 0..imm, a signed
	OpClampB // dst = a within -imm-1..imm, a signed
	OpSel    // dst = b if a != 0, else slot imm

	// OpJmp and the next ones are control. imm is a program counter.
	OpJmp
	OpJz  // if a == 0
	OpJnz // if a != 0
	OpJEq // if a == b
	OpJNe
	OpJLtU
	OpJGeU
	OpJLeU
	OpJGtU
	OpBack // a jump that may loop: counted against a limit
	OpJzBack
	OpTable      // apply table imm; goes on where the table says
	OpCallAction // run the action at a, go on at imm
	OpCheckExit  // leave run when the packet is marked for exit

	// OpSetValid and the next ones are of headers, stacks and unions.
	OpSetValid   // header imm becomes valid
	OpDirty      // the set at dst gains imm
	OpSetInvalid // header imm becomes invalid
	OpHdrID      // dst = id of element a of the stack imm, -1 when out of range
	OpUnionID    // dst = id of the union at element a of union stack imm, -1 when out of range
	OpUnionHdr   // dst = id of member imm of the union whose id is a, -1
	OpHdrLoad    // dst.. (n words) = slots at offset imm of the header whose id is a; 0 when -1
	OpHdrStore   // the reverse: dst.. go to offset imm of header a, truncated to b bits
	OpHdrValid   // dst = header a is valid
	OpLast       // dst = id of the last element of stack imm, -1 when empty
	OpUnionValid // dst = union a is valid
	OpEqHdr      // dst = headers a and b are valid and equal
	OpEqUnion    // dst = unions a and b are valid and equal

	// OpCount and the next ones are of state.
	OpCount    // counter imm, index a
	OpRegRead  // dst.. (n words) = register imm at index a; b bits of dst
	OpRegWrite // register imm at index a = dst..
	OpDrop     // mark_to_drop
	OpExit
	OpCall // call imm of the program: everything rarer

	// OpWMov and the next ones are wide: n words, least significant first, two's complement.
	OpWMov  // dst = a
	OpWZext // dst = a of b words, zero-extended
	OpWSext // dst = a of b words, sign-extended
	OpWAdd
	OpWSub
	OpWMul
	OpWAnd
	OpWOr
	OpWXor
	OpWNot
	OpWShl // by slot b
	OpWShr // unsigned, by slot b
	OpWSar // signed, by slot b
	OpWDiv // dst = a / b, both not negative
	OpWMod
	OpWEq // dst (one slot) = a == b
	OpWNe
	OpWLtU
	OpWLeU
	OpWLtS
	OpWLeS
	OpWNonZ
	OpWMask   // dst = the low imm bits of a
	OpWSextAt // dst = the low imm bits of a, sign-extended
	OpWSat    // dst = a signed, within 0..2^imm-1
	OpWSatS   // dst = a signed, within -2^(imm-1)..2^(imm-1)-1
	OpWSel    // dst = b if slot a != 0, else slots imm
	OpWCount  // dst (one slot) = min(a, 2^32): a shift count
)

// LastMasked is the last of the opcodes from OpMov on that mask with imm.
const LastMasked = OpSar

// emit appends an instruction and returns its address.
func (c *compiler) emit(in Inst) int {
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
	c.constList = append(c.constList, Constant{s, v})
	return s
}

// constWords returns slots that hold the words in order.
func (c *compiler) constWords(w []uint64) uint32 {
	if len(w) == 1 {
		return c.constant(w[0])
	}
	s := c.alloc(len(w))
	for i, x := range w {
		c.constList = append(c.constList, Constant{s + uint32(i), x})
	}
	return s
}

// Constant is a slot that holds a number for as long as the packet lives.
type Constant struct {
	Slot  uint32
	Value uint64
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

// MaskOf has the low bits set; bits is at least 0, and all are set from 64 on.
func MaskOf(bits int) uint64 {
	if bits >= 64 {
		return ^uint64(0)
	}
	return 1<<uint(bits) - 1
}
