package ebpf

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// emitChecks verifies the checksums that the program verifies.
func (l *lowering) emitChecks() {
	if !l.p.Verifies {
		return
	}
	l.what = "verification of checksums"
	std := &l.p.Standard
	if !std.ChecksumError.Has {
		return
	}
	l.putImm(int(std.ChecksumError.Slot)*8, 0)
	for i := range l.p.Checksums {
		k := &l.p.Checksums[i]
		if !k.Verify {
			continue
		}
		skip := l.newLabel()
		l.loadSlot(asm.R0, k.Field.Guard())
		l.emit(asm.JEq.Imm(asm.R0, 0, skip))
		l.emitChecksumCondition(k, skip)
		if l.lowerCalculation(k.Calculation) {
			l.loadSlot(asm.R1, k.Field.Slot())
			l.emit(asm.JEq.Reg(asm.R0, asm.R1, skip))
			l.putImm(int(std.ChecksumError.Slot)*8, 1)
		}
		l.placeLabel(skip)
	}
}

// emitChecksumCondition emits a jump to skip if the checksum's condition does not hold.
func (l *lowering) emitChecksumCondition(k *program.Checksum, skip string) {
	if k.Cond != 0 {
		end := l.newLabel()
		l.lowerSpan(k.Cond, end+"_", end, nil)
		l.placeLabel(end)
	}
	l.loadSlot(asm.R0, k.Slot)
	l.emit(asm.JEq.Imm(asm.R0, 0, skip))
}

func (l *lowering) updateChecks() {
	l.what = "update of checksums"
	if !l.p.Updates {
		return
	}
	for i := range l.p.Checksums {
		k := &l.p.Checksums[i]
		if !k.Update || k.Bytes {
			continue
		}
		skip := l.newLabel()
		l.emitChecksumCondition(k, skip)
		if l.lowerCalculation(k.Calculation) {
			l.maskRegister(asm.R0, program.MaskOf(k.Field.Field.Width))
			l.storeSlot(k.Field.Slot(), asm.R0)
		}
		l.placeLabel(skip)
	}
}

// lowerCalculation emits code that computes a calculation into R0; false if the packet must be passed up.
func (l *lowering) lowerCalculation(id int) bool {
	c := &l.p.Calculations[id]
	if c.Payload {
		l.passToInterpreter("a checksum or hash over the payload")
		return false
	}
	bits, ok := l.layCalculationInputs(c)
	if !ok {
		return false
	}
	n := (bits + 7) / 8
	switch c.Hash.Kind {
	case program.HashCsum16:
		l.lowerChecksum(l.hash, n)
	case program.HashCRC32, program.HashCRC:
		return l.lowerCRC(c, n)
	case program.HashIdentity:
		l.emit(asm.LoadMem(asm.R0, regScratch, int16(l.hash), asm.DWord), asm.HostTo(asm.BE, asm.R0, asm.DWord))
		if n == 0 {
			l.emit(asm.Mov.Imm(asm.R0, 0))
		} else if n < 8 {
			l.emit(asm.RSh.Imm(asm.R0, int32(64-8*n)))
		}
	case program.HashXor16:
		l.xorFold(n, asm.Half)
	case program.HashXor32:
		l.xorFold(n, asm.Word)
	default:
		l.passToInterpreter("a hash that is not a CRC, csum16, identity, xor16 or xor32")
		return false
	}
	return true
}

// xorFold leaves the exclusive or of the words of n bytes of the hash area, the last padded with zeros, in R0.
func (l *lowering) xorFold(n int, size asm.Size) {
	l.emit(asm.Mov.Imm(asm.R0, 0))
	for i := 0; i < n; i += size.Sizeof() {
		l.emit(
			asm.LoadMem(asm.R1, regScratch, int16(l.hash+i), size),
			asm.HostTo(asm.BE, asm.R1, size),
			asm.Xor.Reg(asm.R0, asm.R1),
		)
	}
}

// layCalculationInputs emits code that copies a calculation's fields as bits into the hash area, and returns their
// number of bits. If a header with such a field is invalid, the packet is passed up.
func (l *lowering) layCalculationInputs(c *program.Calculation) (bits int, ok bool) {
	for _, st := range c.Steps {
		switch st.Kind {
		case program.EmitHeader:
			l.passToInterpreter("a checksum or hash over a whole header")
			return 0, false
		case program.EmitVar:
			l.loadScratch(asm.R0, int(st.LenSlot)*8)
			l.emit(asm.JNE.Imm(asm.R0, 0, l.interpreterLabel("a field of variable length that is not empty")))
		default:
			bits += st.Width
		}
	}
	if bits > 128*8 {
		l.passToInterpreter("a checksum or hash over more than 128 bytes")
		return 0, false
	}
	for i := 0; i < (bits+7)/8; i += 8 {
		l.putImm(l.hash+i, 0)
	}
	at := 0
	seen := map[uint32]bool{}
	for _, st := range c.Steps {
		if st.Guard != program.SlotOne && !seen[st.Guard] {
			seen[st.Guard] = true
			l.loadSlot(asm.R0, st.Guard)
			l.emit(asm.JEq.Imm(asm.R0, 0, l.interpreterLabel("a checksum or hash over a header that is not there")))
		}
		if st.Kind == program.EmitVar {
			continue
		}
		for _, p := range program.Parts(st.Slot, at, st.Width) {
			l.writePart(l.hash, &p)
		}
		at += st.Width
	}
	return bits, true
}

// lowerChecksum emits code that computes the Internet checksum of n bytes of scratch into R0.
func (l *lowering) lowerChecksum(base, n int) {
	l.emit(asm.Mov.Imm(asm.R0, 0))
	for i := 0; i < n; {
		size := asm.Word
		switch {
		case n-i >= 4:
		case n-i >= 2:
			size = asm.Half
		default:
			size = asm.Byte
		}
		l.emit(asm.LoadMem(asm.R1, regScratch, int16(base+i), size))
		if size == asm.Byte {
			l.emit(asm.LSh.Imm(asm.R1, 8))
		} else {
			l.emit(asm.HostTo(asm.BE, asm.R1, size))
		}
		l.emit(asm.Add.Reg(asm.R0, asm.R1))
		i += size.Sizeof()
	}
	for range 4 {
		l.emit(asm.Mov.Reg(asm.R1, asm.R0), asm.RSh.Imm(asm.R1, 16), asm.And.Imm(asm.R0, 0xffff), asm.Add.Reg(asm.R0, asm.R1))
	}
	l.emit(asm.Xor.Imm(asm.R0, -1), asm.And.Imm(asm.R0, 0xffff))
}

// lowerDeparser emits code that writes the valid headers before the payload and sends the packet.
func (l *lowering) lowerDeparser() {
	l.what = "deparser"
	if l.p.DeparsePC != 0 {
		l.lowerSpan(l.p.DeparsePC, "dp", "deparse", nil)
		l.placeLabel("deparse")
	}
	l.putImm(l.written, 0)
	for i := range l.p.Deparser {
		if !l.deparseHeader(&l.p.Deparser[i]) {
			return
		}
	}
	l.loadScratch(regTmp, l.written)
	fits, same, empty := l.newLabel(), l.newLabel(), l.newLabel()
	l.emit(asm.JLE.Imm(regTmp, maxOutputBytes, fits))
	l.passToInterpreter(fmt.Sprintf("headers of more than %d bytes", maxOutputBytes))
	l.placeLabel(fits)
	l.loadScratch(asm.R2, l.pos)
	l.emit(
		asm.JEq.Reg(asm.R2, regTmp, same),
		asm.JGT.Reg(asm.R2, regTmp, l.interpreterLabel("headers that are fewer bytes than they were")),
		asm.Mov.Reg(asm.R1, regTmp),
		asm.Sub.Reg(asm.R1, asm.R2),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.Mov.Reg(asm.R1, regCtx),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnSkbChangeHead.Call(),
		asm.JNE.Imm(asm.R0, 0, l.interpreterLabel("headers for which there is no room")),
	)
	l.placeLabel(same)
	l.emit(
		asm.JEq.Imm(regTmp, 0, empty),
		asm.JGT.Imm(regTmp, maxOutputBytes, empty),
		asm.Mov.Reg(asm.R1, regCtx),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Reg(asm.R3, regScratch),
		asm.Add.Imm(asm.R3, int32(l.deparsed)),
		asm.Mov.Reg(asm.R4, regTmp),
		asm.Mov.Imm(asm.R5, 0),
		asm.FnSkbStoreBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "not_written"),
	)
	l.placeLabel(empty)
	l.emitJump("sent")
}

// deparseHeader appends one header, when it is valid. How long the headers before it are is kept in scratch: a
// register would hold a constant that depends on which are valid, and the verifier would follow each combination.
func (l *lowering) deparseHeader(d *program.DeparseStep) bool {
	e := &l.p.Extractions[d.ID]
	base := l.image[d.ID]
	skip, built, fields := l.newLabel(), l.newLabel(), l.newLabel()
	l.loadSlot(asm.R0, d.Valid)
	l.emit(asm.JEq.Imm(asm.R0, 0, skip))
	if e.Raw != 0 {
		l.loadSlot(asm.R0, d.Raw)
		l.emit(asm.JEq.Imm(asm.R0, 0, fields))
		l.loadSlot(asm.R3, d.Dirty)
		l.emit(asm.JEq.Imm(asm.R3, 0, built))
		for k, ps := range d.Patches {
			if len(ps) == 0 {
				continue
			}
			clean := l.newLabel()
			l.emit(asm.Mov.Reg(asm.R0, asm.R3))
			if k > 0 {
				l.emit(asm.RSh.Imm(asm.R0, int32(k)))
			}
			l.emit(asm.And.Imm(asm.R0, 1), asm.JEq.Imm(asm.R0, 0, clean))
			for i := range ps {
				l.writePart(base, &ps[i])
			}
			l.placeLabel(clean)
		}
		l.emitJump(built)
		l.placeLabel(fields)
	}
	for i := 0; i < d.Bytes; i += 8 {
		l.putImm(base+i, 0)
	}
	h := &l.p.Headers[d.ID]
	if e.Varbit {
		l.loadScratch(asm.R0, int(h.Base+h.Type.VarLen)*8)
		l.emit(asm.JNE.Imm(asm.R0, 0, l.interpreterLabel("a field of variable length that is not empty")))
	}
	off := 0
	for i := range h.Type.Fields {
		f := &h.Type.Fields[i]
		if f.Varbit {
			continue
		}
		for _, p := range program.Parts(h.Base+f.Offset, off, f.Width) {
			l.writePart(base, &p)
		}
		off += f.Width
	}
	l.placeLabel(built)
	if d.Sum != nil {
		plain := l.newLabel()
		l.emitChecksumCondition(d.Sum, plain)
		at := int16(base + d.Sum.At)
		l.emit(asm.StoreImm(regScratch, at, 0, asm.Half))
		l.lowerChecksum(base, d.Bytes)
		l.emit(asm.HostTo(asm.BE, asm.R0, asm.Half), asm.StoreMem(regScratch, at, asm.R0, asm.Half))
		l.placeLabel(plain)
	}
	if d.Bytes > maxOutputBytes {
		l.passToInterpreter(fmt.Sprintf("headers of more than %d bytes", maxOutputBytes))
		return false
	}
	l.loadScratch(regTmp, l.written)
	l.emit(
		asm.JGT.Imm(regTmp, int32(maxOutputBytes-d.Bytes), l.interpreterLabel(fmt.Sprintf("headers of more than %d bytes", maxOutputBytes))),
		asm.Mov.Reg(asm.R1, regScratch),
		asm.Add.Imm(asm.R1, int32(l.deparsed)),
		asm.Add.Reg(asm.R1, regTmp),
	)
	for i := 0; i < d.Bytes; i += 8 {
		l.loadScratch(asm.R0, base+i)
		l.emit(asm.StoreMem(asm.R1, int16(i), asm.R0, asm.DWord))
	}
	l.emit(asm.Add.Imm(regTmp, int32(d.Bytes)))
	l.storeScratch(l.written, regTmp)
	l.placeLabel(skip)
	return true
}

// hashCall translates dst = base + calculation modulo size.
func (l *lowering) hashCall(k *program.Call) {
	if !l.lowerCalculation(k.ID) {
		return
	}
	l.loadSlot(asm.R1, k.B)
	ok := l.newLabel()
	l.emit(asm.JNE.Imm(asm.R1, 0, ok), asm.Mov.Imm(asm.R1, 1))
	l.placeLabel(ok)
	l.emit(asm.Mod.Reg(asm.R0, asm.R1))
	l.loadSlot(asm.R1, k.A)
	l.emit(asm.Add.Reg(asm.R0, asm.R1))
	l.storeSlot(k.Dst, asm.R0)
}
