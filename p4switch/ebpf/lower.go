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
//	pm0, pg0 ..  the action profiles in Profiles, and pl0 ..
//	lost       array, one value: how many packets met a port without a carrier, and the last such port
type lowered struct {
	Instructions asm.Instructions
	Scratch      []uint64
	ScratchSize  int
	ControlSize  int
	CRCs         [][256]uint64
	Tables       []loweredTable
	Profiles     []loweredProfile
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
	skbLen     = 0 // offset of field len in struct __sk_buff
	skbMark    = 8
	skbVLAN    = 20 // offset of field vlan_present in struct __sk_buff
	skbIfindex = 40
	skbCB      = 48
)

const (
	maxHeaderBytes = 256 // number of a packet's first bytes that must contain its headers
	maxOutputBytes = 384
	maxLowered     = 30000 // bytes of scratch, which a 16-bit offset reaches
	maxStates      = 512   // parser states, by where in the packet they are reached
)

// Registers that keep their meaning throughout.
const (
	regCtx     = asm.R6
	regTmp     = asm.R7
	regControl = asm.R8
	regScratch = asm.R9
)

// lowerConfig is the settings, besides the program, that determine the eBPF instructions.
type lowerConfig struct {
	QueuesPerPort int    // default 1
	DropPort      uint32 // default 511
	CPUPort       uint32 // of packets for controllers, which go up; 0: none
	// Mark is what a packet that goes up is marked with. A reader of packets from the
	// interface sees them before the program does, so it comes in again by the same
	// interface: a reader that takes marked packets only sees no other, and the program
	// drops them the second time. 0: it goes on its way to the kernel's own stack.
	Mark    uint32
	Devices *Devices // nil: a lost carrier is not seen
	Masks   int      // of a table at most; default maxMasks
	// Random has random numbers be the kernel's. Without it packets that take one go up.
	Random bool
}

// lowering is the state of one compilation to eBPF.
type lowering struct {
	p    *program.Program
	cfg  lowerConfig
	drop uint64
	out  *lowered

	ins    asm.Instructions
	label  string // of the next instruction
	labels int

	constants map[uint32]uint64
	size      int // of the scratch so far, bytes
	what      string

	length, pos, code, hit, act, priority, isExit, pktLen, outPort, written int // offsets of state in scratch
	key, key2, head, deparsed, hash                                         int
	journal                                                                 []journalSite
	image                                                                   []int // offset of each header's bytes, -1: none
	interpreterFateOf                                                       map[string]int
	tables                                                                  map[int]*loweredTable
	loaded                                                                  map[uint32]bool // slots that instructions read
	nodes                                                                   map[string]string
	pending                                                                 []parseNode
	clearAt, queuesAt                                                       int // where journals are cleared, and depths found
}

// journalSite is a place of the code that counts: what it counts is noted in
// scratch and added when the packet is done with.
type journalSite struct {
	at   int
	kind string // map
}

// lower compiles the program to eBPF. Where it cannot compile a part, packets that reach it are passed up to the
// interpreter; the error is for programs of which no part can be compiled.
func lower(p *program.Program, cfg lowerConfig) (*lowered, error) {
	if cfg.QueuesPerPort <= 0 {
		cfg.QueuesPerPort = 1
	}
	if cfg.Masks == 0 {
		cfg.Masks = maxMasks
	}
	if cfg.DropPort == 0 {
		cfg.DropPort = 511
	}
	l := &lowering{
		p: p, cfg: cfg, drop: uint64(cfg.DropPort) & p.Standard.EgressSpec.Mask, out: &lowered{p: p},
		constants: map[uint32]uint64{program.SlotZero: 0, program.SlotOne: 1}, interpreterFateOf: map[string]int{},
		tables: map[int]*loweredTable{}, nodes: map[string]string{}, loaded: map[uint32]bool{},
	}
	for _, c := range p.Constants {
		l.constants[c.Slot] = c.Value
	}
	if err := l.placeScratch(); err != nil {
		return nil, err
	}
	l.emitPrologue()
	l.lowerParser()
	l.emitChecks()
	l.what = "ingress"
	l.lowerSpan(p.Ingress, "in", "ingress_end", nil)
	l.placeLabel("ingress_end")
	l.emitTrafficManager()
	l.what = "egress"
	l.lowerSpan(p.Egress, "eg", "egress_end", nil)
	l.placeLabel("egress_end")
	l.loadSlot(asm.R0, p.Standard.EgressSpec.Slot)
	l.jumpIfEq(asm.R0, l.drop, "drop_egress")
	l.emitQueueDepth()
	l.updateChecks()
	l.lowerDeparser()
	l.emitEpilogue()
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
	for s, v := range l.constants {
		o.Scratch[s] = v
	}
	for _, id := range slices.Sorted(maps.Keys(l.tables)) {
		o.Tables = append(o.Tables, *l.tables[id])
	}
	return o, nil
}

// placeScratch assigns scratch memory to values that are not P4 slots.
func (l *lowering) placeScratch() error {
	if l.size = l.p.Slots * 8; l.size > maxLowered {
		return l.tooLarge()
	}
	for _, at := range []*int{
		&l.length, &l.pos, &l.code, &l.hit, &l.act, &l.priority, &l.isExit, &l.pktLen, &l.outPort, &l.written,
	} {
		*at = l.takeScratch(8)
	}
	l.key, l.key2 = l.takeScratch(8*program.MaxKeyWords+8), l.takeScratch(8*program.MaxKeyWords+8)
	l.head, l.deparsed, l.hash = l.takeScratch(maxHeaderBytes+program.Slack), l.takeScratch(maxOutputBytes+program.Slack), l.takeScratch(128+program.Slack)
	l.image = make([]int, len(l.p.Headers))
	for _, d := range l.p.Deparser {
		if l.image[d.ID] == 0 {
			l.image[d.ID] = l.takeScratch(l.p.Extractions[d.ID].Bytes + program.Slack)
		}
	}
	for i, e := range l.p.Extractions {
		if e.Raw != 0 && l.image[i] == 0 {
			l.image[i] = l.takeScratch(e.Bytes + program.Slack)
		}
	}
	if l.size > maxLowered {
		return l.tooLarge()
	}
	l.controlLayout()
	return nil
}

func (l *lowering) emitPrologue() {
	l.emit(asm.Mov.Reg(regCtx, asm.R1))
	if l.cfg.Mark != 0 {
		fresh := l.newLabel()
		l.emit(
			asm.LoadMem(asm.R0, regCtx, skbMark, asm.Word),
			asm.LoadImm(asm.R2, int64(l.cfg.Mark), asm.DWord),
			asm.JNE.Reg(asm.R0, asm.R2, fresh),
			asm.Mov.Imm(asm.R0, 2), asm.Return(), // TC_ACT_SHOT: the reader has it
		)
		l.placeLabel(fresh)
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
		asm.JNE.Imm(asm.R0, 0, l.interpreterLabel("a VLAN tag that the interface took off")),
	)
	l.emit(asm.LoadMem(asm.R4, regCtx, skbLen, asm.Word))
	l.storeScratch(l.length, asm.R4)
	l.storeScratch(l.pktLen, asm.R4)
	l.emit(asm.Mov.Reg(asm.R0, asm.R4))
	l.setStd(l.p.Standard.PacketLength, asm.R0)
	fits := l.newLabel()
	l.emit(
		asm.JLE.Imm(asm.R4, maxHeaderBytes, fits),
		asm.Mov.Imm(asm.R4, maxHeaderBytes),
	)
	l.placeLabel(fits)
	l.emit(
		asm.JEq.Imm(asm.R4, 0, l.interpreterLabel("an empty packet")),
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
		l.emitMicroseconds(asm.R0)
		l.setStd(l.p.Standard.IngressTS, asm.R0)
	}
	l.putImm(l.isExit, 0)
}

// emitTrafficManager emits the traffic manager: it sets the packet's egress metadata. There is no queue between the
// pipelines; see queues for the queues below the ports.
func (l *lowering) emitTrafficManager() {
	s := &l.p.Standard
	l.what = ""
	if s.Multicast.Has {
		l.loadSlot(asm.R0, s.Multicast.Slot)
		l.emit(asm.JNE.Imm(asm.R0, 0, l.interpreterLabel("multicast")))
	}
	l.loadSlot(asm.R0, s.EgressSpec.Slot)
	l.maskRegister(asm.R0, 1<<32-1)
	l.jumpIfEq(asm.R0, l.drop, "drop_ingress")
	if l.cfg.CPUPort != 0 {
		l.jumpIfEq(asm.R0, uint64(l.cfg.CPUPort), l.interpreterLabel("a packet for controllers"))
	}
	l.storeScratch(l.outPort, asm.R0)
	l.emitCarrierCheck()
	l.emit(asm.Mov.Imm(asm.R1, 0))
	if s.Priority.Has {
		l.loadSlot(asm.R1, s.Priority.Slot)
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
	l.loadImmediate(asm.R0, l.drop+1)
	l.setStd(s.EgressSpec, asm.R0)
	l.loadScratch(asm.R0, l.pktLen)
	l.setStd(s.PacketLength, asm.R0)
	if s.EgressTS.Has || s.EnqTS.Has {
		l.emitMicroseconds(regTmp)
		for _, f := range []program.StdSlot{s.EgressTS, s.EnqTS} {
			l.emit(asm.Mov.Reg(asm.R0, regTmp))
			l.setStd(f, asm.R0)
		}
	}
	l.putImm(l.isExit, 0)
}

// emitEpilogue emits the ends of the program: send, drop, pass up. Counters are added except when the packet is passed
// up.
func (l *lowering) emitEpilogue() {
	for _, d := range []struct {
		label string
		fate  int32
	}{
		{"drop_ingress", FateDroppedIngress}, {"drop_egress", FateDroppedEgress},
		{"drop_priority", FatePriority},
		{"not_written", FateDroppedEgress}, // the kernel has no memory for its headers, and it may be longer already
	} {
		l.placeLabel(d.label)
		l.emit(asm.Mov.Imm(regTmp, d.fate))
		l.emitJump("done")
	}
	for i := range l.out.Up {
		l.placeLabel(fmt.Sprintf("up%d", i))
		l.emit(asm.Mov.Imm(regTmp, int32(FateUp+i)))
		l.emitJump("passed")
	}
	// The deparser comes here when the packet's bytes are as they shall be.
	l.placeLabel("sent")
	l.emit(asm.Mov.Imm(regTmp, FateForwarded))
	l.placeLabel("done")
	for _, j := range l.journal {
		skip := l.newLabel()
		l.loadScratch(asm.R0, j.at)
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
		l.loadScratch(asm.R1, l.length)
		l.emit(asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 8))
		l.placeLabel(skip)
	}
	l.emit(asm.JEq.Imm(regTmp, FateForwarded, "redirect"))
	l.emitCountFate()
	l.emit(asm.Mov.Imm(asm.R0, 2), asm.Return()) // TC_ACT_SHOT
	l.placeLabel("passed")
	l.emitCountFate()
	l.placeLabel("out")
	l.emitRecirculate()
	l.placeLabel("redirect")
	l.loadScratch(asm.R0, l.outPort)
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
	l.emitEnqueue()
	l.emit(asm.Mov.Reg(regControl, regScratch), asm.Mov.Imm(regTmp, FateForwarded))
	l.emitCountFate()
	l.emit(asm.Mov.Reg(asm.R1, regControl), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return())
	l.placeLabel("port_down")
	l.emit(asm.Mov.Imm(regTmp, FatePortDown))
	l.emitJump("gone")
	l.placeLabel("no_port")
	l.emit(asm.Mov.Imm(regTmp, FateNoPort))
	l.placeLabel("gone")
	l.emitCountFate()
	l.emit(asm.Mov.Imm(asm.R0, 2), asm.Return())
}

// emitRecirculate emits the end of a path on which the packet is passed up to the interpreter.
func (l *lowering) emitRecirculate() {
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

// emitCountFate emits code that counts the packet under the outcome in regTmp, and marks the packet with it.
func (l *lowering) emitCountFate() {
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
	l.placeLabel(skip)
	l.emit(
		asm.Mov.Reg(asm.R0, regTmp),
		asm.Add.Imm(asm.R0, 1),
		asm.StoreMem(regCtx, skbCB+4, asm.R0, asm.Word),
	)
}
