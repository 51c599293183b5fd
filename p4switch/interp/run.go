package interp

import (
	"math/bits"

	"github.com/ethereal-fabric/ethereal/internal/splitmix"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// DefaultMaxLoops is the default of [Config].MaxLoops: some tenths of a second. BMv2 has no such limit, and hangs.
const DefaultMaxLoops = 1 << 24

// runCode executes code from pc until it halts.
func (s *Switch) runCode(p *Packet, start uint32) {
	code, v := s.p.Code, p.v
	pc, ret, loops := int(start), 0, 0
	for {
		in := &code[pc]
		pc++
		switch in.Op {
		case program.OpHalt:
			return
		case program.OpRet:
			if p.exit {
				return
			}
			pc = ret
		case program.OpMov:
			v[in.Dst] = v[in.A] & in.Imm
		case program.OpAdd:
			v[in.Dst] = (v[in.A] + v[in.B]) & in.Imm
		case program.OpSub:
			v[in.Dst] = (v[in.A] - v[in.B]) & in.Imm
		case program.OpAnd:
			v[in.Dst] = v[in.A] & v[in.B] & in.Imm
		case program.OpOr:
			v[in.Dst] = (v[in.A] | v[in.B]) & in.Imm
		case program.OpXor:
			v[in.Dst] = (v[in.A] ^ v[in.B]) & in.Imm
		case program.OpShl:
			v[in.Dst] = v[in.A] << v[in.B] & in.Imm
		case program.OpShr:
			v[in.Dst] = v[in.A] >> v[in.B] & in.Imm
		case program.OpEq:
			v[in.Dst] = boolToUint(v[in.A] == v[in.B])
		case program.OpNe:
			v[in.Dst] = boolToUint(v[in.A] != v[in.B])
		case program.OpLtU:
			v[in.Dst] = boolToUint(v[in.A] < v[in.B])
		case program.OpLeU:
			v[in.Dst] = boolToUint(v[in.A] <= v[in.B])
		case program.OpNonZ:
			v[in.Dst] = boolToUint(v[in.A] != 0)
		case program.OpJmp:
			pc = int(in.Imm)
		case program.OpJz:
			pc = nextPC(v[in.A] == 0, in, pc)
		case program.OpJnz:
			pc = nextPC(v[in.A] != 0, in, pc)
		case program.OpJEq:
			pc = nextPC(v[in.A] == v[in.B], in, pc)
		case program.OpJNe:
			pc = nextPC(v[in.A] != v[in.B], in, pc)
		case program.OpJLtU:
			pc = nextPC(v[in.A] < v[in.B], in, pc)
		case program.OpJGeU:
			pc = nextPC(v[in.A] >= v[in.B], in, pc)
		case program.OpJLeU:
			pc = nextPC(v[in.A] <= v[in.B], in, pc)
		case program.OpJGtU:
			pc = nextPC(v[in.A] > v[in.B], in, pc)
		case program.OpCheckExit:
			if p.exit {
				return
			}
		case program.OpBack, program.OpJzBack:
			if in.Op == program.OpJzBack && v[in.A] != 0 {
				break
			}
			if loops++; loops > s.cfg.MaxLoops {
				p.dropReason, p.exit = DropActionLoop, true
				return
			}
			pc = int(in.Imm)
		case program.OpTable:
			if act, next := s.applyTable(p, int(in.Imm)); act != 0 {
				pc, ret = int(act), int(next)
			} else {
				pc = int(next)
			}
		case program.OpCallAction:
			pc, ret = int(in.A), int(in.Imm)
		case program.OpSetValid:
			s.setValid(v, int(in.Imm))
		case program.OpDirty:
			v[in.Dst] |= in.Imm
		case program.OpCount:
			s.counters[in.Imm].count(v[in.A], p.ingressLen)
		case program.OpRegRead:
			s.registers[in.Imm].read(v[in.Dst:in.Dst+uint32(in.N)], v[in.A], int(in.B))
		case program.OpRegWrite:
			s.registers[in.Imm].write(v[in.A], v[in.Dst:in.Dst+uint32(in.N)])
		case program.OpExit:
			p.exit = true
		case program.OpCall:
			if s.runPrimitive(p, &s.p.Calls[in.Imm]); p.dropReason != 0 {
				return
			}
		default:
			s.rareOp(v, in)
		}
	}
}

// nextPC returns where to go on after a jump: at its target if it is taken, or else at pc.
func nextPC(taken bool, in *program.Inst, pc int) int {
	if taken {
		return int(in.Imm)
	}
	return pc
}

// rareOp carries out an instruction that does not jump and that programs have few of.
func (s *Switch) rareOp(v []uint64, in *program.Inst) {
	switch in.Op {
	case program.OpMul:
		v[in.Dst] = (v[in.A] * v[in.B]) & in.Imm
	case program.OpSar:
		v[in.Dst] = uint64(int64(v[in.A])>>v[in.B]) & in.Imm
	case program.OpDivU:
		if v[in.B] == 0 {
			v[in.Dst] = 0
		} else {
			v[in.Dst] = v[in.A] / v[in.B]
		}
	case program.OpModU:
		if v[in.B] == 0 {
			v[in.Dst] = 0
		} else {
			v[in.Dst] = v[in.A] % v[in.B]
		}
	case program.OpDivS:
		if v[in.B] == 0 {
			v[in.Dst] = 0
		} else {
			v[in.Dst] = uint64(int64(v[in.A]) / int64(v[in.B]))
		}
	case program.OpModS:
		if v[in.B] == 0 {
			v[in.Dst] = 0
		} else {
			v[in.Dst] = uint64(int64(v[in.A]) % int64(v[in.B]))
		}
	case program.OpLtS:
		v[in.Dst] = boolToUint(int64(v[in.A]) < int64(v[in.B]))
	case program.OpLeS:
		v[in.Dst] = boolToUint(int64(v[in.A]) <= int64(v[in.B]))
	case program.OpSext:
		v[in.Dst] = uint64(int64(v[in.A]<<(in.Imm&63)) >> (in.Imm & 63))
	case program.OpMinU:
		v[in.Dst] = min(v[in.A], in.Imm)
	case program.OpClampS:
		x := max(int64(v[in.A]), 0)
		v[in.Dst] = min(uint64(x), in.Imm)
	case program.OpClampB:
		v[in.Dst] = uint64(min(max(int64(v[in.A]), -int64(in.Imm)-1), int64(in.Imm)))
	case program.OpSel:
		if v[in.A] != 0 {
			v[in.Dst] = v[in.B]
		} else {
			v[in.Dst] = v[in.Imm]
		}
	case program.OpHdrID, program.OpUnionID, program.OpUnionHdr, program.OpHdrLoad, program.OpHdrStore, program.OpHdrValid, program.OpLast, program.OpUnionValid, program.OpEqHdr, program.OpEqUnion:
		s.headerOp(v, in)
	case program.OpSetInvalid:
		v[s.p.Headers[in.Imm].ValidSlot()] = 0
	case program.OpDrop:
		v[in.Dst] = s.dropSpec
		if in.A != program.SlotZero {
			v[in.A] = 0
		}
	case program.OpNot:
		v[in.Dst] = ^v[in.A] & in.Imm
	case program.OpIsZ:
		v[in.Dst] = boolToUint(v[in.A] == 0)
	default:
		s.wideOp(v, in)
	}
}

func boolToUint(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// runPrimitive executes the rarer primitives.
func (s *Switch) runPrimitive(p *Packet, k *program.Call) {
	v := p.v
	switch k.Kind {
	case program.CallAddHeader:
		if v[k.A] == allOnes {
			return
		}
		h := &s.p.Headers[v[k.A]]
		if h.Meta || v[h.ValidSlot()] != 0 {
			return
		}
		clear(v[h.Base : h.Base+uint32(h.Type.Size)])
		s.setValid(v, int(v[k.A]))
		p.pktLen += s.bytesOf(v, h)
	case program.CallRemoveHeader:
		if v[k.A] == allOnes {
			return
		}
		if !s.p.Headers[v[k.A]].Meta {
			p.pktLen -= s.setInvalid(v, int(v[k.A]))
		}
	case program.CallAssignHeader:
		s.assignHeader(v, v[k.A], v[k.B], k.ID != 0)
	case program.CallAssignUnion:
		s.assignUnion(v, v[k.A], v[k.B])
	case program.CallAssignStack:
		d, c := &s.p.Stacks[k.ID], &s.p.Stacks[k.ID2]
		v[d.Next] = v[c.Next]
		for i := range d.Headers {
			s.assignHeader(v, uint64(d.Headers[i]), uint64(c.Headers[i]), false)
		}
	case program.CallAssignUnionStack:
		d, c := &s.p.UnionStacks[k.ID], &s.p.UnionStacks[k.ID2]
		v[d.Next] = v[c.Next]
		for i := range d.Unions {
			s.assignUnion(v, uint64(d.Unions[i]), uint64(c.Unions[i]))
		}
	case program.CallPush:
		st := &s.p.Stacks[k.ID]
		n := int(min(v[k.A], uint64(len(st.Headers))))
		v[st.Next] = min(v[st.Next]+uint64(n), uint64(len(st.Headers)))
		s.pushHeaders(v, st.Headers, n)
	case program.CallPop:
		st := &s.p.Stacks[k.ID]
		n := int(min(v[k.A], uint64(len(st.Headers))))
		v[st.Next] -= min(v[st.Next], uint64(n))
		s.popHeaders(v, st.Headers, n)
	case program.CallPushUnion, program.CallPopUnion:
		st := &s.p.UnionStacks[k.ID]
		size := uint64(len(st.Unions))
		n := min(v[k.A], size)
		if k.Kind == program.CallPushUnion {
			v[st.Next] = min(v[st.Next]+n, size)
		} else {
			v[st.Next] -= min(v[st.Next], n)
		}
		if size > 0 {
			for m := range s.p.Unions[st.Unions[0]].Headers {
				s.shiftUnions(v, st, m, int(n), k.Kind == program.CallPushUnion)
			}
		}
	case program.CallHash:
		base, size := v[k.A], v[k.B]
		v[k.Dst] = s.runCalculation(p, k.ID)%max(size, 1) + base
	case program.CallRandom:
		if lo, hi := v[k.A], v[k.B]; lo <= hi {
			v[k.Dst] = lo + s.randomTo(hi-lo)
		}
	case program.CallMeter:
		if c, ok := s.meters[k.ID].execute(v[k.A], p.ingressLen, s.now); ok {
			v[k.Dst] = uint64(c)
		}
	case program.CallDigest:
		p.learn = uint16(v[k.A])
	case program.CallClone:
		p.clone = uint16(v[k.A]) | cloneFlag
		p.cloneList = uint16(v[k.B])
	case program.CallResubmit:
		p.resubmit = uint16(v[k.A])
	case program.CallRecirculate:
		p.recirculate = uint16(v[k.A])
	case program.CallTruncate:
		p.truncate = int(min(uint64(p.truncate), v[k.A]))
	case program.CallAssert, program.CallAssume:
		if v[k.A] == 0 {
			p.dropReason, p.exit = DropAssert, true
			s.log(LogAssert+LogKind(k.Kind-program.CallAssert), k.Text)
		}
	case program.CallLog:
		s.logMessage(v, k)
	}
}

// randomTo returns a number in 0..span.
func (s *Switch) randomTo(span uint64) uint64 {
	s.rng += splitmix.Step
	z := splitmix.Mix(s.rng)
	if span == allOnes {
		return z
	}
	hi, _ := bits.Mul64(z, span+1)
	return hi
}
