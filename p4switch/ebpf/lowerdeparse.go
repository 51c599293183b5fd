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
		l.load(asm.R0, k.Field.Guard())
		l.emit(asm.JEq.Imm(asm.R0, 0, skip))
		l.applies(k, skip)
		if l.calculate(k.Calculation) {
			l.load(asm.R1, k.Field.Slot())
			l.emit(asm.JEq.Reg(asm.R0, asm.R1, skip))
			l.putImm(int(std.ChecksumError.Slot)*8, 1)
		}
		l.at(skip)
	}
}

// applies goes to skip when the checksum's condition does not hold.
func (l *lowering) applies(k *program.Checksum, skip string) {
	if k.Cond != 0 {
		end := l.newLabel()
		l.span(k.Cond, end+"_", end, nil)
		l.at(end)
	}
	l.load(asm.R0, k.Slot)
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
		l.applies(k, skip)
		if l.calculate(k.Calculation) {
			l.mask(asm.R0, program.MaskOf(k.Field.Field.Width))
			l.store(k.Field.Slot(), asm.R0)
		}
		l.at(skip)
	}
}

// calculate leaves a calculation's value in R0; false when the way goes up.
func (l *lowering) calculate(id int) bool {
	c := &l.p.Calculations[id]
	if c.Payload {
		l.up("a checksum or hash over the payload")
		return false
	}
	bits, ok := l.inputs(c)
	if !ok {
		return false
	}
	n := (bits + 7) / 8
	switch c.Hash.Kind {
	case program.HashCsum16:
		l.sum(l.hash, n)
	case program.HashCRC32, program.HashCRC:
		return l.crc(c, n)
	default:
		l.up("a hash that is neither a CRC nor csum16")
		return false
	}
	return true
}

// inputs lays a calculation's fields as bits into the hash area and returns
// how many they are. A field of a header that is not valid is left out by the
// interpreter: such packets go up.
func (l *lowering) inputs(c *program.Calculation) (bits int, ok bool) {
	for _, st := range c.Steps {
		switch st.Kind {
		case program.EmitHeader:
			l.up("a checksum or hash over a whole header")
			return 0, false
		case program.EmitVar:
			l.get(asm.R0, int(st.LenSlot)*8)
			l.emit(asm.JNE.Imm(asm.R0, 0, l.upLabel("a field of variable length that is not empty")))
		default:
			bits += st.Width
		}
	}
	if bits > 128*8 {
		l.up("a checksum or hash over more than 128 bytes")
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
			l.load(asm.R0, st.Guard)
			l.emit(asm.JEq.Imm(asm.R0, 0, l.upLabel("a checksum or hash over a header that is not there")))
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

// sum leaves the Internet checksum of n bytes of scratch in R0.
func (l *lowering) sum(base, n int) {
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

// deparse puts the valid headers before the payload and sends the packet.
func (l *lowering) deparse() {
	l.what = "deparser"
	if l.p.DeparsePC != 0 {
		l.span(l.p.DeparsePC, "dp", "deparse", nil)
		l.at("deparse")
	}
	l.putImm(l.written, 0)
	for i := range l.p.Deparser {
		if !l.deparseHeader(&l.p.Deparser[i]) {
			return
		}
	}
	l.get(regTmp, l.written)
	fits, same, empty := l.newLabel(), l.newLabel(), l.newLabel()
	l.emit(asm.JLE.Imm(regTmp, outBytes, fits))
	l.up(fmt.Sprintf("headers of more than %d bytes", outBytes))
	l.at(fits)
	l.get(asm.R2, l.pos)
	l.emit(
		asm.JEq.Reg(asm.R2, regTmp, same),
		asm.JGT.Reg(asm.R2, regTmp, l.upLabel("headers that are fewer bytes than they were")),
		asm.Mov.Reg(asm.R1, regTmp),
		asm.Sub.Reg(asm.R1, asm.R2),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.Mov.Reg(asm.R1, regCtx),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnSkbChangeHead.Call(),
		asm.JNE.Imm(asm.R0, 0, l.upLabel("headers for which there is no room")),
	)
	l.at(same)
	l.emit(
		asm.JEq.Imm(regTmp, 0, empty),
		asm.JGT.Imm(regTmp, outBytes, empty),
		asm.Mov.Reg(asm.R1, regCtx),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Reg(asm.R3, regScratch),
		asm.Add.Imm(asm.R3, int32(l.deparsed)),
		asm.Mov.Reg(asm.R4, regTmp),
		asm.Mov.Imm(asm.R5, 0),
		asm.FnSkbStoreBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "not_written"),
	)
	l.at(empty)
	l.jump("sent")
}

// deparseHeader appends one header, when it is valid. How long the headers before it are is kept in scratch: a
// register would hold a constant that depends on which are valid, and the verifier would follow each combination.
func (l *lowering) deparseHeader(d *program.DeparseStep) bool {
	e := &l.p.Extractions[d.ID]
	base := l.image[d.ID]
	skip, built, fields := l.newLabel(), l.newLabel(), l.newLabel()
	l.load(asm.R0, d.Valid)
	l.emit(asm.JEq.Imm(asm.R0, 0, skip))
	if e.Raw != 0 {
		l.load(asm.R0, d.Raw)
		l.emit(asm.JEq.Imm(asm.R0, 0, fields))
		l.load(asm.R3, d.Dirty)
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
			l.at(clean)
		}
		l.jump(built)
		l.at(fields)
	}
	for i := 0; i < d.Bytes; i += 8 {
		l.putImm(base+i, 0)
	}
	h := &l.p.Headers[d.ID]
	if e.Varbit {
		l.get(asm.R0, int(h.Base+h.Type.VarLen)*8)
		l.emit(asm.JNE.Imm(asm.R0, 0, l.upLabel("a field of variable length that is not empty")))
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
	l.at(built)
	if d.Sum != nil {
		plain := l.newLabel()
		l.applies(d.Sum, plain)
		at := int16(base + d.Sum.At)
		l.emit(asm.StoreImm(regScratch, at, 0, asm.Half))
		l.sum(base, d.Bytes)
		l.emit(asm.HostTo(asm.BE, asm.R0, asm.Half), asm.StoreMem(regScratch, at, asm.R0, asm.Half))
		l.at(plain)
	}
	if d.Bytes > outBytes {
		l.up(fmt.Sprintf("headers of more than %d bytes", outBytes))
		return false
	}
	l.get(regTmp, l.written)
	l.emit(
		asm.JGT.Imm(regTmp, int32(outBytes-d.Bytes), l.upLabel(fmt.Sprintf("headers of more than %d bytes", outBytes))),
		asm.Mov.Reg(asm.R1, regScratch),
		asm.Add.Imm(asm.R1, int32(l.deparsed)),
		asm.Add.Reg(asm.R1, regTmp),
	)
	for i := 0; i < d.Bytes; i += 8 {
		l.get(asm.R0, base+i)
		l.emit(asm.StoreMem(asm.R1, int16(i), asm.R0, asm.DWord))
	}
	l.emit(asm.Add.Imm(regTmp, int32(d.Bytes)))
	l.put(l.written, regTmp)
	l.at(skip)
	return true
}

// hashCall translates dst = base + calculation modulo size.
func (l *lowering) hashCall(k *program.Call) {
	if !l.calculate(k.ID) {
		return
	}
	l.load(asm.R1, k.B)
	ok := l.newLabel()
	l.emit(asm.JNE.Imm(asm.R1, 0, ok), asm.Mov.Imm(asm.R1, 1))
	l.at(ok)
	l.emit(asm.Mod.Reg(asm.R0, asm.R1))
	l.load(asm.R1, k.A)
	l.emit(asm.Add.Reg(asm.R0, asm.R1))
	l.store(k.Dst, asm.R0)
}
