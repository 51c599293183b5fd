package interp

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// emitChecks verifies the checksums that the program verifies.
func (l *lowering) emitChecks() {
	if !l.p.verifies {
		return
	}
	l.what = "verification of checksums"
	std := &l.p.std
	if !std.checksumError.has {
		return
	}
	l.putImm(int(std.checksumError.slot)*8, 0)
	for i := range l.p.checks {
		k := &l.p.checks[i]
		if !k.verify {
			continue
		}
		skip := l.newLabel()
		l.load(asm.R0, k.field.guard())
		l.emit(asm.JEq.Imm(asm.R0, 0, skip))
		l.applies(k, skip)
		if l.calculate(k.calc) {
			l.load(asm.R1, k.field.slot())
			l.emit(asm.JEq.Reg(asm.R0, asm.R1, skip))
			l.putImm(int(std.checksumError.slot)*8, 1)
		}
		l.at(skip)
	}
}

// applies goes to skip when the checksum's condition does not hold.
func (l *lowering) applies(k *checksum, skip string) {
	if k.cond != 0 {
		end := l.newLabel()
		l.span(k.cond, end+"_", end, nil)
		l.at(end)
	}
	l.load(asm.R0, k.slot)
	l.emit(asm.JEq.Imm(asm.R0, 0, skip))
}

func (l *lowering) updateChecks() {
	l.what = "update of checksums"
	if !l.p.updates {
		return
	}
	for i := range l.p.checks {
		k := &l.p.checks[i]
		if !k.update || k.bytes {
			continue
		}
		skip := l.newLabel()
		l.applies(k, skip)
		if l.calculate(k.calc) {
			l.mask(asm.R0, maskOf(k.field.f.width))
			l.store(k.field.slot(), asm.R0)
		}
		l.at(skip)
	}
}

// calculate leaves a calculation's value in R0; false when the way goes up.
func (l *lowering) calculate(id int) bool {
	c := &l.p.calcs[id]
	if c.payload {
		l.up("a checksum or hash over the payload")
		return false
	}
	bits, ok := l.inputs(c)
	if !ok {
		return false
	}
	n := (bits + 7) / 8
	switch c.algo.kind {
	case hashCsum16:
		l.sum(l.hash, n)
	case hashCRC32, hashCRC:
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
func (l *lowering) inputs(c *calc) (bits int, ok bool) {
	for _, st := range c.steps {
		switch st.kind {
		case emitHeader:
			l.up("a checksum or hash over a whole header")
			return 0, false
		case emitVar:
			l.get(asm.R0, int(st.lens)*8)
			l.emit(asm.JNE.Imm(asm.R0, 0, l.upLabel("a field of variable length that is not empty")))
		default:
			bits += st.width
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
	for _, st := range c.steps {
		if st.guard != slotOne && !seen[st.guard] {
			seen[st.guard] = true
			l.load(asm.R0, st.guard)
			l.emit(asm.JEq.Imm(asm.R0, 0, l.upLabel("a checksum or hash over a header that is not there")))
		}
		if st.kind == emitVar {
			continue
		}
		for _, p := range parts(st.slot, at, st.width) {
			l.writePart(l.hash, &p)
		}
		at += st.width
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
	if l.p.deparsePC != 0 {
		l.span(l.p.deparsePC, "dp", "deparse", nil)
		l.at("deparse")
	}
	l.emit(asm.Mov.Imm(regTmp, 0))
	for i := range l.p.deparse {
		if !l.deparseHeader(&l.p.deparse[i]) {
			return
		}
	}
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

// deparseHeader appends one header, when it is valid, at regTmp.
func (l *lowering) deparseHeader(d *deparseStep) bool {
	e := &l.p.extracts[d.id]
	base := l.image[d.id]
	skip, built, fields := l.newLabel(), l.newLabel(), l.newLabel()
	l.load(asm.R0, d.valid)
	l.emit(asm.JEq.Imm(asm.R0, 0, skip))
	if e.raw != 0 {
		l.load(asm.R0, d.raw)
		l.emit(asm.JEq.Imm(asm.R0, 0, fields))
		l.load(asm.R3, d.dirty)
		l.emit(asm.JEq.Imm(asm.R3, 0, built))
		for k, ps := range d.patches {
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
	for i := 0; i < d.bytes; i += 8 {
		l.putImm(base+i, 0)
	}
	h := &l.p.headers[d.id]
	if e.varbit {
		l.get(asm.R0, int(h.base+h.typ.varLen)*8)
		l.emit(asm.JNE.Imm(asm.R0, 0, l.upLabel("a field of variable length that is not empty")))
	}
	off := 0
	for i := range h.typ.fields {
		f := &h.typ.fields[i]
		if f.varbit {
			continue
		}
		for _, p := range parts(h.base+f.off, off, f.width) {
			l.writePart(base, &p)
		}
		off += f.width
	}
	l.at(built)
	if d.sum != nil {
		plain := l.newLabel()
		l.applies(d.sum, plain)
		at := int16(base + d.sum.at)
		l.emit(asm.StoreImm(regScratch, at, 0, asm.Half))
		l.sum(base, d.bytes)
		l.emit(asm.HostTo(asm.BE, asm.R0, asm.Half), asm.StoreMem(regScratch, at, asm.R0, asm.Half))
		l.at(plain)
	}
	if d.bytes > outBytes {
		l.up(fmt.Sprintf("headers of more than %d bytes", outBytes))
		return false
	}
	l.emit(
		asm.JGT.Imm(regTmp, int32(outBytes-d.bytes), l.upLabel(fmt.Sprintf("headers of more than %d bytes", outBytes))),
		asm.Mov.Reg(asm.R1, regScratch),
		asm.Add.Imm(asm.R1, int32(l.deparsed)),
		asm.Add.Reg(asm.R1, regTmp),
	)
	for i := 0; i < d.bytes; i += 8 {
		l.get(asm.R0, base+i)
		l.emit(asm.StoreMem(asm.R1, int16(i), asm.R0, asm.DWord))
	}
	l.emit(asm.Add.Imm(regTmp, int32(d.bytes)))
	l.at(skip)
	return true
}

// hashCall translates dst = base + calculation modulo size.
func (l *lowering) hashCall(k *call) {
	if !l.calculate(k.id) {
		return
	}
	l.load(asm.R1, k.b)
	ok := l.newLabel()
	l.emit(asm.JNE.Imm(asm.R1, 0, ok), asm.Mov.Imm(asm.R1, 1))
	l.at(ok)
	l.emit(asm.Mod.Reg(asm.R0, asm.R1))
	l.load(asm.R1, k.a)
	l.emit(asm.Add.Reg(asm.R0, asm.R1))
	l.store(k.dst, asm.R0)
}
