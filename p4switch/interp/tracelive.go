package interp

import (
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// egressReads returns for every slot whether the egress pipeline, or what follows
// it, may read it before writing it: nothing else of a packet needs to be kept
// while it waits in its queue. Slots that are written first may be among them.
func egressReads(p *program.Program) []bool {
	w := &liveWalk{p: p, live: make([]bool, p.Slots), seen: make([]bool, len(p.Code))}
	w.walkCode(p.Egress)
	for i := range p.Checksums {
		k := &p.Checksums[i]
		if k.Cond != 0 {
			w.walkCode(k.Cond)
		}
		w.markRead(k.Slot, 1)
		w.markRead(k.Field.Guard(), 1)
		w.readCalculation(k.Calculation)
	}
	for i := range p.Deparser {
		d := &p.Deparser[i]
		w.markRead(d.Valid, 1)
		w.markRead(d.Raw, 1)
		w.markRead(d.Dirty, 1)
		h := &p.Headers[d.ID]
		w.markRead(h.Base, uint32(h.Type.Size))
	}
	for _, refs := range p.FieldLists {
		for _, r := range refs {
			if w.lists {
				w.markRead(r.Slot(), uint32(r.Field.Words))
			}
		}
	}
	return w.live
}

type liveWalk struct {
	p     *program.Program
	live  []bool
	seen  []bool
	lists bool // egress clones or recirculates
}

func (w *liveWalk) markRead(slot, n uint32) {
	for i := slot; i < slot+n && int(i) < len(w.live); i++ {
		w.live[i] = true
	}
}

func (w *liveWalk) markAllLive() { w.markRead(0, uint32(len(w.live))) }

func (w *liveWalk) readCalculation(id int) {
	ca := &w.p.Calculations[id]
	for i := range ca.Steps {
		st := &ca.Steps[i]
		w.markRead(st.Guard, 1)
		w.markRead(st.Slot, max(uint32(st.Words), 1))
		w.markRead(st.LenSlot, 1)
		if st.Kind == program.EmitHeader {
			h := &w.p.Headers[st.Header]
			w.markRead(h.Base, uint32(h.Type.Size))
		}
	}
}

// walkCode follows all paths of the code from pc on.
func (w *liveWalk) walkCode(start uint32) {
	p := w.p
	todo := []uint32{start}
	for len(todo) > 0 {
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for int(pc) < len(p.Code) && !w.seen[pc] {
			w.seen[pc] = true
			in := &p.Code[pc]
			pc++
			op := in.Op
			switch {
			case op == program.OpHalt, op == program.OpRet: // where it returns to is followed from the call
				pc = uint32(len(p.Code))
			case op >= program.OpMov && op <= program.OpSel:
				w.markRead(in.A, 1)
				w.markRead(in.B, 1)
				if op == program.OpSel {
					w.markRead(uint32(in.Imm), 1)
				}
			case op == program.OpJmp, op == program.OpBack:
				pc = uint32(in.Imm)
			case op >= program.OpJz && op <= program.OpJGtU, op == program.OpJzBack:
				w.markRead(in.A, 1)
				w.markRead(in.B, 1)
				todo = append(todo, uint32(in.Imm))
			case op == program.OpCheckExit, op == program.OpExit, op == program.OpSetInvalid, op == program.OpSetValid:
			case op == program.OpDrop, op == program.OpDirty:
			case op == program.OpCallAction:
				todo = append(todo, uint32(in.Imm))
				pc = in.A
			case op == program.OpTable:
				pc = w.walkTable(int(in.Imm), &todo)
			case op == program.OpCount:
				w.markRead(in.A, 1)
			case op == program.OpRegRead:
				w.markRead(in.A, 1)
				w.markRead(in.Dst, uint32(in.N)) // it stays when the index is out of range
			case op == program.OpRegWrite:
				w.markRead(in.A, 1)
				w.markRead(in.Dst, uint32(in.N))
			case op >= program.OpWMov:
				w.readWide(in)
			case op == program.OpCall:
				w.readCall(&p.Calls[in.Imm])
			default:
				w.markAllLive()
			}
		}
	}
}

// readWide records the slots that an operation on several words reads.
func (w *liveWalk) readWide(in *program.Inst) {
	n := uint32(in.N)
	switch in.Op {
	case program.OpWZext, program.OpWSext:
		w.markRead(in.A, in.B)
	case program.OpWMov, program.OpWNot, program.OpWNonZ, program.OpWMask, program.OpWSextAt, program.OpWSat, program.OpWSatS, program.OpWCount:
		w.markRead(in.A, n)
	case program.OpWShl, program.OpWShr, program.OpWSar:
		w.markRead(in.A, n)
		w.markRead(in.B, 1)
	case program.OpWSel:
		w.markRead(in.A, 1)
		w.markRead(in.B, n)
		w.markRead(uint32(in.Imm), n)
	case program.OpWAdd, program.OpWSub, program.OpWMul, program.OpWAnd, program.OpWOr, program.OpWXor, program.OpWDiv, program.OpWMod,
		program.OpWEq, program.OpWNe, program.OpWLtU, program.OpWLeU, program.OpWLtS, program.OpWLeS:
		w.markRead(in.A, n)
		w.markRead(in.B, n)
	default:
		w.markAllLive()
	}
}

func (w *liveWalk) walkTable(id int, todo *[]uint32) uint32 {
	t := &w.p.Tables[id]
	for i := range t.Key {
		w.markRead(t.Key[i].Slot, max(uint32(t.Key[i].Words), 1))
		w.markRead(t.Key[i].Guard, 1)
	}
	if t.Info.Profile >= 0 {
		if c := w.p.Profiles[t.Info.Profile].Calculation; c >= 0 {
			w.readCalculation(c)
		}
	}
	for i := range t.Actions {
		a := &t.Actions[i]
		*todo = append(*todo, a.PC, uint32(a.Hit), uint32(a.Miss))
	}
	return uint32(t.MissPC)
}

func (w *liveWalk) readCall(k *program.Call) {
	switch k.Kind {
	case program.CallHash:
		w.readCalculation(k.ID)
		w.markRead(k.A, 1)
		w.markRead(k.B, 1)
	case program.CallRandom, program.CallMeter, program.CallDigest, program.CallTruncate, program.CallAssert, program.CallAssume:
		w.markRead(k.A, 1)
		w.markRead(k.B, 1)
	case program.CallClone, program.CallRecirculate, program.CallResubmit:
		w.markRead(k.A, 1)
		w.markRead(k.B, 1)
		w.lists = true
	case program.CallLog:
		for _, a := range k.List {
			w.markRead(a.Slot, uint32(a.Words))
		}
	case program.CallAddHeader, program.CallRemoveHeader, program.CallAssignHeader:
		w.markRead(k.A, 1)
		w.markRead(k.B, 1)
		for i := range w.p.Headers {
			if h := &w.p.Headers[i]; !h.Meta {
				w.markRead(h.Base, uint32(h.Type.Size))
			}
		}
	default:
		w.markAllLive()
	}
}
