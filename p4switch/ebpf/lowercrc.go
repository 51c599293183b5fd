package ebpf

import (
	"hash/crc32"
	"math/bits"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// lowerCRC emits code that computes a CRC of the first n bytes of the hash area into R0, one table step per byte; false
// if the packet must be passed up.
func (l *lowering) lowerCRC(c *program.Calculation, n int) bool {
	width, init, xor, refl, table := crcSteps(&c.Hash)
	at := slices.Index(l.out.CRCs, table)
	if at < 0 {
		at = len(l.out.CRCs)
		if at >= 15 { // a 16-bit offset reaches no further
			l.passToInterpreter("more than 15 CRCs")
			return false
		}
		l.out.CRCs = append(l.out.CRCs, table)
	}
	l.mapValue("crc")
	l.emit(asm.Mov.Reg(regTmp, asm.R0))
	l.loadImmediate(asm.R0, init)
	for i := range n {
		l.emit(asm.LoadMem(asm.R1, regScratch, int16(l.hash+i), asm.Byte))
		if refl {
			l.emit(asm.Xor.Reg(asm.R1, asm.R0), asm.And.Imm(asm.R1, 0xff))
		} else {
			l.emit(asm.Mov.Reg(asm.R3, asm.R0), asm.RSh.Imm(asm.R3, int32(width-8)))
			l.emit(asm.Xor.Reg(asm.R1, asm.R3), asm.And.Imm(asm.R1, 0xff))
		}
		l.emit(asm.LSh.Imm(asm.R1, 3), asm.Add.Reg(asm.R1, regTmp), asm.LoadMem(asm.R1, asm.R1, int16(at*2048), asm.DWord))
		if refl {
			l.emit(asm.RSh.Imm(asm.R0, 8), asm.Xor.Reg(asm.R0, asm.R1))
		} else {
			l.emit(asm.LSh.Imm(asm.R0, 8), asm.Xor.Reg(asm.R0, asm.R1))
			l.maskRegister(asm.R0, program.MaskOf(width))
		}
	}
	l.loadImmediate(asm.R1, xor)
	l.emit(asm.Xor.Reg(asm.R0, asm.R1))
	l.maskRegister(asm.R0, program.MaskOf(width))
	return true
}

// crcSteps gives a CRC's register and table, those of a reflected CRC in the
// reflected form, which needs no reversal of bits at run time.
func crcSteps(h *program.Hash) (width int, init, xor uint64, refl bool, table [256]uint64) {
	if h.Kind == program.HashCRC32 {
		for i, v := range crc32.IEEETable {
			table[i] = uint64(v)
		}
		return 32, 1<<32 - 1, 1<<32 - 1, true, table
	}
	t := h.CRC
	if !t.ReflectIn {
		return t.Width, t.Init, t.XorOut, false, t.Table
	}
	reverse := func(x uint64) uint64 { return bits.Reverse64(x) >> (64 - t.Width) }
	for i := range table {
		table[i] = reverse(t.Table[bits.Reverse8(uint8(i))])
	}
	return t.Width, reverse(t.Init), t.XorOut, true, table
}
