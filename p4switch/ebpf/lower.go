package ebpf

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// lowered is a program as eBPF instructions of the classifier type, which the
// TC and TCX hooks run. They do what [interp.Switch.Process] does with one packet. A
// packet whose way meets a construct that the kernel has not, or that is not
// compiled yet, is let through as it came, before anything of the switch's
// state has changed: it is the interpreter's. So the choice is made per path
// through the program, not per program.
//
// The instructions name their maps, which the loader makes:
//
//	scratch    per-CPU array, one value of ScratchSize bytes, which starts as Scratch
//	control    array, one value of ControlSize bytes
//	fates      per-CPU array of uint64: packets by what became of them
//	port_in    hash, interface index to port, both uint32
//	port_out   hash, port (uint32) to loweredPort
//	crc        array, one value: 256 words of 64 bits of each of CRCs
//	c0, c1 ..  arrays of packets and bytes, of the counters in Counted
//	t0, t1 ..  the tables in Tables
//	r0, r1 ..  arrays of 64-bit words, of the registers in Read
//	d0, d1 ..  arrays of packets and bytes: the tables' direct counters
type lowered struct {
	Instructions asm.Instructions
	Scratch      []uint64
	ScratchSize  int
	ControlSize  int
	CRCs         [][256]uint64
	Tables       []loweredTable
	Counted      []program.CounterID
	Read         []program.RegisterID
	Queues       bool     // the program reads the depth of queues, or how long packets were in one
	Up           []string // by fate minus FateUp: the constructs that packets are let through for

	p *program.Program
}

// Fates of a packet. A packet that is let through has FateUp plus the index
// into Lowered.Up of what its way met.
const (
	FateForwarded = iota
	FateDroppedIngress
	FateDroppedEgress
	FatePriority
	FateNoPort
	FatePortDown
	FateUp
)

// Marks that a packet's control block (cb) gets: cb[0] is the egress port, cb[1]
// the fate plus one.
const (
	skbLen     = 0 // offsets into the context
	skbMark    = 8
	skbVLAN    = 20 // vlan_present
	skbIfindex = 40
	skbCB      = 48
)

const (
	headBytes  = 256 // of a packet that its headers lie in
	outBytes   = 384
	maxLowered = 30000 // bytes of scratch, which a 16-bit offset reaches
	maxStates  = 512   // parser states, by where in the packet they are reached
)

// Registers that keep their meaning throughout.
const (
	regCtx     = asm.R6
	regTmp     = asm.R7
	regControl = asm.R8
	regScratch = asm.R9
)

// lowerConfig is what the instructions depend on but for the program.
type lowerConfig struct {
	QueuesPerPort int    // default 1
	DropPort      uint32 // default 511
	CPUPort       uint32 // of packets for controllers, which go up; 0: none
	// Mark is what a packet that goes up is marked with. A reader of packets from the
	// interface sees them before the program does, so it comes in again by the same
	// interface: a reader that takes marked packets only sees no other, and the program
	// drops them the second time. 0: it goes on its way to the kernel's own stack.
	Mark uint32
	// Random has random numbers be the kernel's. Without it packets that take one go up.
	Random bool
}

// lowering is one translation under way.
type lowering struct {
	p    *program.Program
	cfg  lowerConfig
	drop uint64
	out  *lowered

	ins    asm.Instructions
	label  string // of the next instruction
	labels int

	konst map[uint32]uint64
	size  int // of the scratch so far, bytes
	what  string

	length, pos, code, hit, act, prio, isExit, pktLen, outPort, written int // offsets of state in scratch
	key, key2, head, deparsed, hash                                     int
	journal                                                             []journalSite
	image                                                               []int // offset of each header's bytes, -1: none
	upOf                                                                map[string]int
	tables                                                              map[int]*loweredTable
	loaded                                                              map[uint32]bool // slots that instructions read
	nodes                                                               map[string]string
	pending                                                             []parseNode
	clearAt, queuesAt                                                   int // where journals are cleared, and depths found
}

// journalSite is a place of the code that counts: what it counts is noted in
// scratch and added when the packet is done with.
type journalSite struct {
	at   int
	kind string // map
}

// lower translates the program. What it cannot translate costs a way, not the
// program; the error is for programs that no part of fits.
func lower(p *program.Program, cfg lowerConfig) (*lowered, error) {
	if cfg.QueuesPerPort <= 0 {
		cfg.QueuesPerPort = 1
	}
	if cfg.DropPort == 0 {
		cfg.DropPort = 511
	}
	l := &lowering{
		p: p, cfg: cfg, drop: uint64(cfg.DropPort) & p.Standard.EgressSpec.Mask, out: &lowered{p: p},
		konst: map[uint32]uint64{program.SlotZero: 0, program.SlotOne: 1}, upOf: map[string]int{},
		tables: map[int]*loweredTable{}, nodes: map[string]string{}, loaded: map[uint32]bool{},
	}
	for _, c := range p.Constants {
		l.konst[c.Slot] = c.Value
	}
	if err := l.layout(); err != nil {
		return nil, err
	}
	l.prologue()
	l.parser()
	l.emitChecks()
	l.what = "ingress"
	l.span(p.Ingress, "in", "ingress_end", nil)
	l.at("ingress_end")
	l.between()
	l.what = "egress"
	l.span(p.Egress, "eg", "egress_end", nil)
	l.at("egress_end")
	l.load(asm.R0, p.Standard.EgressSpec.Slot)
	l.jumpIfEq(asm.R0, l.drop, "drop_egress")
	l.queues()
	l.updateChecks()
	l.deparse()
	l.epilogue()
	if l.size > maxLowered {
		return nil, l.tooLarge()
	}
	var clear asm.Instructions
	for _, j := range l.journal {
		clear = append(clear, storeImm(j.at, 0))
	}
	l.ins = slices.Insert(l.ins, l.clearAt, clear...)
	l.ins = reachable(l.ins)
	if err := checkJumps(l.ins); err != nil {
		return nil, err
	}
	o := l.out
	o.Instructions, o.ScratchSize = l.ins, (l.size+7)&^7
	o.Scratch = make([]uint64, o.ScratchSize/8)
	for s, v := range l.konst {
		o.Scratch[s] = v
	}
	for _, id := range slices.Sorted(maps.Keys(l.tables)) {
		o.Tables = append(o.Tables, *l.tables[id])
	}
	return o, nil
}

// reachable leaves out the instructions that no way leads to, which the kernel refuses.
func reachable(ins asm.Instructions) asm.Instructions {
	labels := map[string]int{}
	for i := range ins {
		if s := ins[i].Symbol(); s != "" {
			labels[s] = i
		}
	}
	seen := make([]bool, len(ins))
	work := []int{0}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		for i < len(ins) && !seen[i] {
			seen[i] = true
			op := ins[i].OpCode
			jump := op.Class().IsJump() && op.JumpOp() != asm.Call && op.JumpOp() != asm.Exit
			if jump {
				work = append(work, labels[ins[i].Reference()])
			}
			if jump && op.JumpOp() == asm.Ja || op.Class().IsJump() && op.JumpOp() == asm.Exit {
				break
			}
			i++
		}
	}
	out := ins[:0]
	for i := range ins {
		if seen[i] {
			out = append(out, ins[i])
		}
	}
	return out
}

// checkJumps refuses instructions with a jump that is too long for its 16 bits: the assembler cuts it off.
func checkJumps(ins asm.Instructions) error {
	at := map[string]asm.RawInstructionOffset{}
	for it := ins.Iterate(); it.Next(); {
		if s := it.Ins.Symbol(); s != "" {
			at[s] = it.Offset
		}
	}
	for it := ins.Iterate(); it.Next(); {
		op := it.Ins.OpCode
		if !op.Class().IsJump() || op.JumpOp() == asm.Call || op.JumpOp() == asm.Exit {
			continue
		}
		far := int64(at[it.Ins.Reference()]) - int64(it.Offset) - 1
		if far != int64(int16(far)) {
			return fmt.Errorf("%w in the kernel: a program of %d instructions, with a jump over %d; at most %d are possible",
				program.ErrUnsupported, len(ins), far, 1<<15-1)
		}
	}
	return nil
}

// layout places what the code keeps beside the slots.
func (l *lowering) layout() error {
	if l.size = l.p.Slots * 8; l.size > maxLowered {
		return l.tooLarge()
	}
	for _, at := range []*int{
		&l.length, &l.pos, &l.code, &l.hit, &l.act, &l.prio, &l.isExit, &l.pktLen, &l.outPort, &l.written,
	} {
		*at = l.take(8)
	}
	l.key, l.key2 = l.take(8*program.MaxKeyWords+8), l.take(8*program.MaxKeyWords+8)
	l.head, l.deparsed, l.hash = l.take(headBytes+program.Slack), l.take(outBytes+program.Slack), l.take(128+program.Slack)
	l.image = make([]int, len(l.p.Headers))
	for _, d := range l.p.Deparser {
		if l.image[d.ID] == 0 {
			l.image[d.ID] = l.take(l.p.Extractions[d.ID].Bytes + program.Slack)
		}
	}
	for i, e := range l.p.Extractions {
		if e.Raw != 0 && l.image[i] == 0 {
			l.image[i] = l.take(e.Bytes + program.Slack)
		}
	}
	if l.size > maxLowered {
		return l.tooLarge()
	}
	l.controlLayout()
	return nil
}

func (l *lowering) prologue() {
	l.emit(asm.Mov.Reg(regCtx, asm.R1))
	if l.cfg.Mark != 0 {
		fresh := l.newLabel()
		l.emit(
			asm.LoadMem(asm.R0, regCtx, skbMark, asm.Word),
			asm.LoadImm(asm.R2, int64(l.cfg.Mark), asm.DWord),
			asm.JNE.Reg(asm.R0, asm.R2, fresh),
			asm.Mov.Imm(asm.R0, 2), asm.Return(), // TC_ACT_SHOT: the reader has it
		)
		l.at(fresh)
	}
	l.mapValue("scratch")
	l.emit(asm.Mov.Reg(regScratch, asm.R0))
	l.mapValue("control")
	l.emit(asm.Mov.Reg(regControl, asm.R0))
	for s := l.p.PHVLo; s < l.p.PHVHi; s++ {
		l.putImm(int(s)*8, 0)
	}
	l.clearAt = len(l.ins)
	l.emit(
		asm.LoadMem(asm.R0, regCtx, skbVLAN, asm.Word),
		asm.JNE.Imm(asm.R0, 0, l.upLabel("a VLAN tag that the interface took off")),
	)
	l.emit(asm.LoadMem(asm.R4, regCtx, skbLen, asm.Word))
	l.put(l.length, asm.R4)
	l.put(l.pktLen, asm.R4)
	l.emit(asm.Mov.Reg(asm.R0, asm.R4))
	l.setStd(l.p.Standard.PacketLength, asm.R0)
	fits := l.newLabel()
	l.emit(
		asm.JLE.Imm(asm.R4, headBytes, fits),
		asm.Mov.Imm(asm.R4, headBytes),
	)
	l.at(fits)
	l.emit(
		asm.JEq.Imm(asm.R4, 0, l.upLabel("an empty packet")),
		asm.Mov.Reg(asm.R1, regCtx),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Reg(asm.R3, regScratch),
		asm.Add.Imm(asm.R3, int32(l.head)),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R0, regCtx, skbIfindex, asm.Word),
		asm.StoreMem(asm.R10, -4, asm.R0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, 0).WithReference("port_in"),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R0, asm.R0, 0, asm.Word),
	)
	l.setStd(l.p.Standard.IngressPort, asm.R0)
	if l.p.Standard.IngressTS.Has {
		l.now(asm.R0)
		l.setStd(l.p.Standard.IngressTS, asm.R0)
	}
	l.putImm(l.isExit, 0)
}

// between is the traffic manager: the packet's egress metadata. There is no queue between
// the pipelines; see queues for what the program sees of those below.
func (l *lowering) between() {
	s := &l.p.Standard
	l.what = ""
	if s.Multicast.Has {
		l.load(asm.R0, s.Multicast.Slot)
		l.emit(asm.JNE.Imm(asm.R0, 0, l.upLabel("multicast")))
	}
	l.load(asm.R0, s.EgressSpec.Slot)
	l.mask(asm.R0, 1<<32-1)
	l.jumpIfEq(asm.R0, l.drop, "drop_ingress")
	if l.cfg.CPUPort != 0 {
		l.jumpIfEq(asm.R0, uint64(l.cfg.CPUPort), l.upLabel("a packet for controllers"))
	}
	l.put(l.outPort, asm.R0)
	l.emit(asm.Mov.Imm(asm.R1, 0))
	if s.Priority.Has {
		l.load(asm.R1, s.Priority.Slot)
		l.emit(asm.JGE.Imm(asm.R1, int32(l.cfg.QueuesPerPort), "drop_priority"))
	}
	if s.QueueID.Has {
		l.emit(asm.Mov.Reg(asm.R3, asm.R1))
		l.setStd(s.QueueID, asm.R3)
	}
	l.setStd(s.EgressPort, asm.R0)
	for _, f := range []program.StdSlot{s.InstanceType, s.EnqDepth, s.DeqDelta, s.DeqDepth} {
		if f.Has {
			l.putImm(int(f.Slot)*8, 0)
		}
	}
	l.queuesAt = len(l.ins)
	l.imm(asm.R0, l.drop+1)
	l.setStd(s.EgressSpec, asm.R0)
	l.get(asm.R0, l.pktLen)
	l.setStd(s.PacketLength, asm.R0)
	if s.EgressTS.Has || s.EnqTS.Has {
		l.now(regTmp)
		for _, f := range []program.StdSlot{s.EgressTS, s.EnqTS} {
			l.emit(asm.Mov.Reg(asm.R0, regTmp))
			l.setStd(f, asm.R0)
		}
	}
	l.putImm(l.isExit, 0)
}

// epilogue is where packets end: sent, dropped or let through. What the way
// counted is added for all but the last.
func (l *lowering) epilogue() {
	for _, d := range []struct {
		label string
		fate  int32
	}{
		{"drop_ingress", FateDroppedIngress}, {"drop_egress", FateDroppedEgress},
		{"drop_priority", FatePriority},
		{"not_written", FateDroppedEgress}, // the kernel has no memory for its headers, and it may be longer already
	} {
		l.at(d.label)
		l.emit(asm.Mov.Imm(regTmp, d.fate))
		l.jump("done")
	}
	for i := range l.out.Up {
		l.at(fmt.Sprintf("up%d", i))
		l.emit(asm.Mov.Imm(regTmp, int32(FateUp+i)))
		l.jump("passed")
	}
	// The deparser comes here when the packet's bytes are as they shall be.
	l.at("sent")
	l.emit(asm.Mov.Imm(regTmp, FateForwarded))
	l.at("done")
	for _, j := range l.journal {
		skip := l.newLabel()
		l.get(asm.R0, j.at)
		l.emit(
			asm.JEq.Imm(asm.R0, 0, skip),
			asm.Sub.Imm(asm.R0, 1),
			asm.StoreMem(asm.R10, -4, asm.R0, asm.Word),
			asm.Mov.Reg(asm.R2, asm.R10),
			asm.Add.Imm(asm.R2, -4),
			asm.LoadMapPtr(asm.R1, 0).WithReference(j.kind),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, skip),
			asm.Mov.Imm(asm.R1, 1),
			asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
		)
		l.get(asm.R1, l.length)
		l.emit(asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 8))
		l.at(skip)
	}
	l.emit(asm.JEq.Imm(regTmp, FateForwarded, "redirect"))
	l.fate()
	l.emit(asm.Mov.Imm(asm.R0, 2), asm.Return()) // TC_ACT_SHOT
	l.at("passed")
	l.fate()
	l.at("out")
	l.again()
	l.at("redirect")
	l.get(asm.R0, l.outPort)
	l.emit(
		asm.StoreMem(asm.R10, -4, asm.R0, asm.Word),
		asm.StoreMem(regCtx, skbCB, asm.R0, asm.Word),
	)
	l.portOf("no_port")
	l.emit(
		asm.LoadMem(regScratch, asm.R0, portIndex, asm.Word),
		asm.JEq.Imm(regScratch, 0, "port_down"),
		asm.Mov.Reg(regTmp, asm.R0),
	)
	l.enqueue()
	l.emit(asm.Mov.Reg(regControl, regScratch), asm.Mov.Imm(regTmp, FateForwarded))
	l.fate()
	l.emit(asm.Mov.Reg(asm.R1, regControl), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return())
	l.at("port_down")
	l.emit(asm.Mov.Imm(regTmp, FatePortDown))
	l.jump("gone")
	l.at("no_port")
	l.emit(asm.Mov.Imm(regTmp, FateNoPort))
	l.at("gone")
	l.fate()
	l.emit(asm.Mov.Imm(asm.R0, 2), asm.Return())
}

// again ends with a packet that goes up.
func (l *lowering) again() {
	if l.cfg.Mark == 0 {
		l.emit(asm.Mov.Imm(asm.R0, 0), asm.Return()) // TC_ACT_OK
		return
	}
	l.emit(
		asm.LoadImm(asm.R0, int64(l.cfg.Mark), asm.DWord),
		asm.StoreMem(regCtx, skbMark, asm.R0, asm.Word),
		asm.LoadMem(asm.R1, regCtx, skbIfindex, asm.Word),
		asm.Mov.Imm(asm.R2, 1), // BPF_F_INGRESS
		asm.FnRedirect.Call(),
		asm.Return(),
	)
}

// fate counts the packet under the fate in regTmp and marks it.
func (l *lowering) fate() {
	skip := l.newLabel()
	l.emit(
		asm.StoreMem(asm.R10, -4, regTmp, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, 0).WithReference("fates"),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, skip),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
	)
	l.at(skip)
	l.emit(
		asm.Mov.Reg(asm.R0, regTmp),
		asm.Add.Imm(asm.R0, 1),
		asm.StoreMem(regCtx, skbCB+4, asm.R0, asm.Word),
	)
}
