package program

// Inst is one instruction of the code into which actions, expressions and pipelines are compiled. Dst, A and B are
// indices of slots (words of a packet's state) unless the opcode says otherwise. Results of one word are masked with
// Imm, so that truncation on assignment is free.
type Inst struct {
	Op  Opcode
	N   uint16 // number of slots, of operations on several
	Dst uint32
	A   uint32
	B   uint32
	Imm uint64
}

// Opcode is the operation of an [Inst].
type Opcode uint16

// OpHalt and the others are the operations.
const (
	OpHalt Opcode = iota // end of the code
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
	OpDivS   // dst = a / b, signed, 0 when b is 0
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
	OpJz  // jump to imm if a == 0
	OpJnz // jump to imm if a != 0
	OpJEq // jump to imm if a == b
	OpJNe
	OpJLtU
	OpJGeU
	OpJLeU
	OpJGtU
	OpBack // a jump that may loop: counted against a limit
	OpJzBack
	OpTable      // apply table imm; goes on where the table says
	OpCallAction // run the action whose code is at a, then continue at imm
	OpCheckExit  // leave run when the packet is marked for exit

	// OpSetValid and the next ones are of headers, stacks and unions.
	OpSetValid   // header imm becomes valid
	OpDirty      // the set of bits at dst gains those of imm
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
	OpRegWrite // cell a of register imm = the slots from dst on
	OpDrop     // v1model's mark_to_drop
	OpExit
	OpCall // carry out Calls[imm] of the program: primitives without an opcode of their own

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
	OpWShl // dst = a shifted left by slot b
	OpWShr // dst = a shifted right by slot b, unsigned
	OpWSar // dst = a shifted right by slot b, signed
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
	OpWCount  // dst (one slot) = min(a, 2^32), for use as a shift count
)

// LastMasked is the last of the opcodes from OpMov on that mask with imm.
const LastMasked = OpSar

// emitInst appends an instruction and returns its address.
func (c *compiler) emitInst(in Inst) int {
	c.code = append(c.code, in)
	return len(c.code) - 1
}

// constantSlot returns the slot that holds v, for n = 1 word.
func (c *compiler) constantSlot(v uint64) uint32 {
	if v <= 1 {
		return uint32(v)
	}
	if s, ok := c.consts[v]; ok {
		return s
	}
	s := c.allocSlots(1)
	c.consts[v] = s
	c.constList = append(c.constList, Constant{s, v})
	return s
}

// constWords returns slots that hold the words in order.
func (c *compiler) constWords(w []uint64) uint32 {
	if len(w) == 1 {
		return c.constantSlot(w[0])
	}
	s := c.allocSlots(len(w))
	for i, x := range w {
		c.constList = append(c.constList, Constant{s + uint32(i), x})
	}
	return s
}

// Constant is a slot that holds a number that never changes.
type Constant struct {
	Slot  uint32
	Value uint64
}

// tempSlots takes n slots in a row until freeTemps.
func (c *compiler) tempSlots(n int) uint32 {
	free := c.tempFree[n]
	var s uint32
	if len(free) > 0 {
		s = free[len(free)-1]
		c.tempFree[n] = free[:len(free)-1]
	} else {
		s = c.allocSlots(n)
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

// MaskOf returns a number whose lowest bits are set; all of them for bits >= 64.
func MaskOf(bits int) uint64 {
	if bits >= 64 {
		return ^uint64(0)
	}
	return 1<<uint(bits) - 1
}
