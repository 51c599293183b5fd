package ebpf

import (
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// loweredPort is a port's value in port_out. Below the program a queueing discipline
// holds what its rate does not let go, and does not report that in time. So the instructions keep
// the time at which a queue of that rate would be empty, for programs that read depths.
type loweredPort struct {
	Index   uint32 // of its interface; 0: it is down
	_       uint32
	Empty   uint64 // ns on the switch's clock: when all that was sent will have left
	Rate    uint64 // ns that 1024 bytes take; 0: not known, packets leave at once
	Longest uint64 // ns that a packet waits at most
	Mean    uint64 // bytes of late packets, times 8
	Device  uint64 // address of the interface in the kernel; 0: not known
}

// Waits is how long a packet waits at a time on the switch's clock, in ns, and behind how many.
func (q *loweredPort) Waits(now uint64) (ns, packets uint64) {
	if q.Rate == 0 || q.Mean == 0 || q.Empty <= now {
		return 0, 0
	}
	ns = q.Empty - now
	return ns, (ns<<13/q.Rate + q.Mean/2) / q.Mean
}

// Send has a packet wait behind those before it.
func (q *loweredPort) Send(now uint64, bytes int) {
	n := uint64(bytes)
	if q.Mean == 0 {
		q.Mean = n << 3
	}
	q.Mean += n - q.Mean>>3
	q.Empty = min(max(q.Empty, now)+n*q.Rate>>10, now+q.Longest)
}

// Offsets into loweredPort.
const (
	portIndex   = 0
	portEmpty   = 8
	portRate    = 16
	portLongest = 24
	portMean    = 32
	portDevice  = 40
)

// emitQueueDepth emits code that sets the P4 program's queue depth, if the program reads it.
func (l *lowering) emitQueueDepth() {
	s := &l.p.Standard
	read := func(f program.StdSlot) bool { return f.Has && l.loaded[f.Slot] }
	if l.out.Queues = read(s.EnqDepth) || read(s.DeqDepth) || read(s.DeqDelta); !l.out.Queues {
		return
	}
	before, none := l.ins, l.newLabel()
	l.ins = nil
	l.loadScratch(asm.R0, l.outPort)
	l.emit(asm.StoreMem(asm.R10, -4, asm.R0, asm.Word))
	l.portOf(none)
	l.emit(
		asm.Mov.Reg(regTmp, asm.R0),
		asm.LoadMem(asm.R1, regTmp, portRate, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, none),
	)
	l.emitNanoseconds()
	l.emit(
		asm.LoadMem(asm.R2, regTmp, portEmpty, asm.DWord),
		asm.JLE.Reg(asm.R2, asm.R0, none),
		asm.Sub.Reg(asm.R2, asm.R0), // ns that it waits
		asm.Mov.Reg(asm.R0, asm.R2),
		asm.Div.Imm(asm.R0, 1000),
	)
	l.keepR2(func() {
		l.setStd(s.DeqDelta, asm.R0)
		if read(s.EnqTS) { // it leaves now, and came so much before
			l.loadSlot(asm.R1, s.EnqTS.Slot)
			l.emit(asm.Sub.Reg(asm.R1, asm.R0))
			l.setStd(s.EnqTS, asm.R1)
		}
	})
	l.emit(
		asm.Mov.Reg(asm.R0, asm.R2),
		asm.LSh.Imm(asm.R0, 13), // bytes that wait, times 8
		asm.LoadMem(asm.R1, regTmp, portRate, asm.DWord),
		asm.Div.Reg(asm.R0, asm.R1),
		asm.LoadMem(asm.R1, regTmp, portMean, asm.DWord),
		asm.RSh.Imm(asm.R1, 1),
		asm.Add.Reg(asm.R0, asm.R1), // rounded
		asm.LSh.Imm(asm.R1, 1),
		asm.Div.Reg(asm.R0, asm.R1), // by zero it is zero
	)
	for _, f := range []program.StdSlot{s.EnqDepth, s.DeqDepth} {
		l.emit(asm.Mov.Reg(asm.R1, asm.R0))
		l.setStd(f, asm.R1)
	}
	l.placeLabel(none)
	l.emit(asm.Mov.Reg(regCtx, regCtx))
	l.ins = slices.Insert(before, l.queuesAt, l.ins...)
}

// keepR2 keeps R2, which a mask may use.
func (l *lowering) keepR2(f func()) {
	l.emit(asm.StoreMem(asm.R10, -16, asm.R2, asm.DWord))
	f()
	l.emit(asm.LoadMem(asm.R2, asm.R10, -16, asm.DWord))
}

// portOf leaves the value of the port whose number is on the stack in R0.
func (l *lowering) portOf(missing string) {
	l.emit(
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, 0).WithReference("port_out"),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, missing),
	)
}

// emitEnqueue emits code that delays the packet behind those sent before it by the same port. R7 has the port's value,
// and keeps it.
func (l *lowering) emitEnqueue() {
	if !l.out.Queues {
		return
	}
	none, late, known, fits := l.newLabel(), l.newLabel(), l.newLabel(), l.newLabel()
	l.emit(
		asm.LoadMem(asm.R1, regTmp, portRate, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, none),
		asm.LoadMem(regControl, regTmp, portEmpty, asm.DWord),
		asm.StoreMem(asm.R10, -16, regControl, asm.DWord),
	)
	l.mapValue("control")
	l.emit(asm.Mov.Reg(regControl, asm.R0))
	l.emitNanoseconds()
	l.emit(
		asm.LoadMem(asm.R1, asm.R10, -16, asm.DWord),
		asm.JGE.Reg(asm.R1, asm.R0, late),
		asm.Mov.Reg(asm.R1, asm.R0),
	)
	l.placeLabel(late)
	l.emit(
		asm.LoadMem(asm.R2, regTmp, portLongest, asm.DWord),
		asm.Add.Reg(asm.R0, asm.R2), // when it has to have left
		asm.LoadMem(asm.R3, regCtx, skbLen, asm.Word),
		asm.LoadMem(asm.R4, regTmp, portMean, asm.DWord),
		asm.JNE.Imm(asm.R4, 0, known),
		asm.Mov.Reg(asm.R4, asm.R3),
		asm.LSh.Imm(asm.R4, 3),
	)
	l.placeLabel(known)
	l.emit(
		asm.Mov.Reg(asm.R5, asm.R4),
		asm.RSh.Imm(asm.R5, 3),
		asm.Sub.Reg(asm.R4, asm.R5),
		asm.Add.Reg(asm.R4, asm.R3),
		asm.StoreMem(regTmp, portMean, asm.R4, asm.DWord),
		asm.LoadMem(asm.R2, regTmp, portRate, asm.DWord),
		asm.Mul.Reg(asm.R3, asm.R2),
		asm.RSh.Imm(asm.R3, 10),
		asm.Add.Reg(asm.R1, asm.R3),
		asm.JLE.Reg(asm.R1, asm.R0, fits),
		asm.Mov.Reg(asm.R1, asm.R0),
	)
	l.placeLabel(fits)
	l.emit(asm.StoreMem(regTmp, portEmpty, asm.R1, asm.DWord))
	l.placeLabel(none)
	l.emit(asm.Mov.Reg(regCtx, regCtx))
}

// lowerRandom translates a random number in a..b.
func (l *lowering) lowerRandom(k *program.Call) {
	done, whole := l.newLabel(), l.newLabel()
	l.emit(
		asm.FnGetPrandomU32.Call(),
		asm.LSh.Imm(asm.R0, 32),
		asm.StoreMem(asm.R10, -16, asm.R0, asm.DWord),
		asm.FnGetPrandomU32.Call(),
		asm.Mov.Reg32(asm.R0, asm.R0),
		asm.LoadMem(asm.R1, asm.R10, -16, asm.DWord),
		asm.Or.Reg(asm.R0, asm.R1),
	)
	l.loadSlot(asm.R1, k.A)
	l.loadSlot(asm.R2, k.B)
	l.emit(
		asm.JGT.Reg(asm.R1, asm.R2, done),
		asm.Sub.Reg(asm.R2, asm.R1),
		asm.Add.Imm(asm.R2, 1),
		asm.JEq.Imm(asm.R2, 0, whole),
		asm.Mod.Reg(asm.R0, asm.R2),
	)
	l.placeLabel(whole)
	l.emit(asm.Add.Reg(asm.R0, asm.R1))
	l.storeSlot(k.Dst, asm.R0)
	l.placeLabel(done)
}
