package program

// jumpIf compiles a condition into jumps: they are taken when it equals
// sense, else the code falls through. It returns the jumps, to be aimed.
func (c *compiler) jumpIf(e *jVal, sense bool) ([]int, error) {
	u, err := unwrap(e)
	if err != nil {
		return nil, err
	}
	switch u.Op {
	case "not":
		return c.jumpIf(u.Right, !sense)
	case "and", "or":
		// An and that is to jump when false, or an or when true, jumps as soon
		// as one side says so; the others have to get past the first side.
		if (u.Op == "and") != sense {
			l, err := c.jumpIf(u.Left, sense)
			if err != nil {
				return nil, err
			}
			r, err := c.jumpIf(u.Right, sense)
			return append(l, r...), err
		}
		past, err := c.jumpIf(u.Left, !sense)
		if err != nil {
			return nil, err
		}
		out, err := c.jumpIf(u.Right, sense)
		if err != nil {
			return nil, err
		}
		c.patchJumps(past, len(c.code))
		return out, nil
	}
	s, err := c.compileCondition(u)
	if err != nil {
		return nil, err
	}
	if k := len(c.code) - 1; k >= 0 && c.isTemp(s) && c.code[k].Dst == s {
		in := c.code[k]
		if op, ok := compareAndJump(in.Op, sense); ok {
			c.code[k] = Inst{Op: op, A: in.A, B: in.B}
			return []int{k}, nil
		}
	}
	op := OpJz
	if sense {
		op = OpJnz
	}
	return []int{c.emitInst(Inst{Op: op, A: s})}, nil
}

// compareAndJump returns the jump opcode that does a comparison itself.
func compareAndJump(op Opcode, sense bool) (Opcode, bool) {
	var yes, no Opcode
	switch op {
	case OpEq:
		yes, no = OpJEq, OpJNe
	case OpNe:
		yes, no = OpJNe, OpJEq
	case OpLtU:
		yes, no = OpJLtU, OpJGeU
	case OpLeU:
		yes, no = OpJLeU, OpJGtU
	case OpNonZ:
		yes, no = OpJnz, OpJz
	case OpIsZ:
		yes, no = OpJz, OpJnz
	default:
		return 0, false
	}
	if sense {
		return yes, true
	}
	return no, true
}

// patchJumps sets the targets of jumps to pc.
func (c *compiler) patchJumps(jumps []int, pc int) {
	for _, j := range jumps {
		c.code[j].Imm = uint64(pc)
	}
}

// inlineAction puts an action that needs no arguments from an entry into the
// code. ok is false when the action cannot be put there.
func (c *compiler) inlineAction(id ActionID, args []uint64) bool {
	a := &c.actions[id]
	from, end := int(a.PC), int(a.end)
	if end-from > 64 {
		return false
	}
	for i, x := range args {
		c.emitInst(Inst{Op: OpMov, Dst: c.args + uint32(i), A: c.constantSlot(x), Imm: ^uint64(0)})
	}
	at := len(c.code)
	exits := false
	for pc := from; pc < end; pc++ {
		in := c.code[pc]
		switch in.Op {
		case OpJmp, OpJz, OpJnz, OpBack, OpJzBack, OpJEq, OpJNe, OpJLtU, OpJGeU, OpJLeU, OpJGtU:
			in.Imm = uint64(int(in.Imm) - from + at)
		case OpExit:
			exits = true
		}
		c.emitInst(in)
	}
	if exits {
		c.emitInst(Inst{Op: OpCheckExit})
	}
	return true
}
