package interp

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
		c.aim(past, len(c.code))
		return out, nil
	}
	s, err := c.truth(u)
	if err != nil {
		return nil, err
	}
	if k := len(c.code) - 1; k >= 0 && c.isTemp(s) && c.code[k].dst == s {
		in := c.code[k]
		if op, ok := fused(in.op, sense); ok {
			c.code[k] = inst{op: op, a: in.a, b: in.b}
			return []int{k}, nil
		}
	}
	op := opJz
	if sense {
		op = opJnz
	}
	return []int{c.emit(inst{op: op, a: s})}, nil
}

// fused is the jump that does a comparison's work.
func fused(op opcode, sense bool) (opcode, bool) {
	var yes, no opcode
	switch op {
	case opEq:
		yes, no = opJEq, opJNe
	case opNe:
		yes, no = opJNe, opJEq
	case opLtU:
		yes, no = opJLtU, opJGeU
	case opLeU:
		yes, no = opJLeU, opJGtU
	case opNonZ:
		yes, no = opJnz, opJz
	case opIsZ:
		yes, no = opJz, opJnz
	default:
		return 0, false
	}
	if sense {
		return yes, true
	}
	return no, true
}

// aim points jumps at pc.
func (c *compiler) aim(jumps []int, pc int) {
	for _, j := range jumps {
		c.code[j].imm = uint64(pc)
	}
}

// inlineAction puts an action that needs no arguments from an entry into the
// code. ok is false when the action cannot be put there.
func (c *compiler) inlineAction(id ActionID, args []uint64) bool {
	a := &c.actions[id]
	from, end := int(a.pc), int(a.end)
	if end-from > 64 {
		return false
	}
	for i, x := range args {
		c.emit(inst{op: opMov, dst: c.args + uint32(i), a: c.constant(x), imm: ^uint64(0)})
	}
	at := len(c.code)
	exits := false
	for pc := from; pc < end; pc++ {
		in := c.code[pc]
		switch in.op {
		case opJmp, opJz, opJnz, opBack, opJzBack, opJEq, opJNe, opJLtU, opJGeU, opJLeU, opJGtU:
			in.imm = uint64(int(in.imm) - from + at)
		case opExit:
			exits = true
		}
		c.emit(in)
	}
	if exits {
		c.emit(inst{op: opCheckExit})
	}
	return true
}
