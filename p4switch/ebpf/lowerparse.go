package ebpf

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// A parser is unrolled: where a state's bytes lie and how full the stacks are
// is known on each way, so every way to a state that differs in these has code
// of its own, and every load a fixed place.
type parseNode struct {
	state int32
	pos   int
	fill  []int // of the stacks
	label string
}

func (l *lowering) lowerParser() {
	l.putImm(l.code, int32(l.p.Errors.None))
	fill := make([]int, len(l.p.Stacks))
	l.emitJump(l.parseNodeLabel(l.p.Parser.Init, 0, fill))
	for len(l.pending) > 0 {
		n := l.pending[0]
		l.pending = l.pending[1:]
		l.parseState(n)
	}
	l.what = "parser"
	l.placeLabel("parsed")
	std := &l.p.Standard
	l.loadScratch(asm.R0, l.code)
	if std.ParserError.Has {
		l.setStd(std.ParserError, asm.R0)
	}
}

// parseNodeLabel returns the label of a parser state, for a given parser position and fill of header stacks.
func (l *lowering) parseNodeLabel(state int32, pos int, fill []int) string {
	key := fmt.Sprintf("s%d at %d %v", state, pos, fill)
	if n, ok := l.nodes[key]; ok {
		return n
	}
	if len(l.nodes) == maxStates {
		return l.interpreterLabel(fmt.Sprintf("more than %d paths through the parser", maxStates))
	}
	n := parseNode{state: state, pos: pos, fill: slices.Clone(fill)}
	n.label = fmt.Sprintf("parse%d", len(l.nodes))
	l.nodes[key] = n.label
	l.pending = append(l.pending, n)
	return n.label
}

// endParsing emits the end of parsing at pos with a parser error.
func (l *lowering) endParsing(pos int, code uint64) {
	l.putImm(l.pos, int32(pos))
	l.putImm(l.code, int32(code))
	l.emitJump("parsed")
}

// checkPacketLength emits code that stops parsing if the packet is shorter than n bytes after pos.
func (l *lowering) checkPacketLength(n, pos int) {
	ok := l.newLabel()
	l.loadScratch(asm.R0, l.length)
	l.emit(asm.JGE.Imm(asm.R0, int32(n), ok))
	l.endParsing(pos, l.p.Errors.TooShort)
	l.placeLabel(ok)
}

func (l *lowering) parseState(n parseNode) {
	l.placeLabel(n.label)
	if n.state < 0 {
		l.putImm(l.pos, int32(n.pos))
		l.emitJump("parsed")
		return
	}
	st := &l.p.Parser.States[n.state]
	l.what = fmt.Sprintf("parser state %q", st.Name)
	for i := range st.Ops {
		if !l.parseOp(&st.Ops[i], &n) {
			return
		}
	}
	l.selectNext(st, &n)
}

// parseOp compiles a parser operation; false if the packet must be passed up here.
func (l *lowering) parseOp(op *program.ParseOp, n *parseNode) bool {
	if op.PC != 0 {
		end := l.newLabel()
		l.lowerSpan(op.PC, end+"_", end, nil)
		l.placeLabel(end)
	}
	switch op.Kind {
	case program.ParseExtract:
		return l.lowerExtract(op, op.ID, n)
	case program.ParseExtractStack:
		k := &l.p.Stacks[op.ID]
		at := n.fill[op.ID]
		if at >= len(k.Headers) {
			l.endParsing(n.pos, l.p.Errors.Stack)
			return false
		}
		if !l.lowerExtract(op, k.Headers[at], n) {
			return false
		}
		n.fill[op.ID] = at + 1
		l.putImm(int(k.Next)*8, int32(at+1))
	case program.ParseRun:
	case program.ParseLookahead:
		return l.lowerLookahead(op, n)
	case program.ParseAdvance:
		by, ok := l.constants[op.Slot]
		if !ok {
			l.passToInterpreter("advance by a number of bits known at run time only")
			return false
		}
		if by%8 != 0 {
			l.endParsing(n.pos, l.p.Errors.Invalid)
			return false
		}
		if by > maxHeaderBytes*8 {
			l.passToInterpreter(fmt.Sprintf("headers of more than %d bytes", maxHeaderBytes))
			return false
		}
		l.checkPacketLength(n.pos+int(by/8), n.pos)
		n.pos += int(by / 8)
	case program.ParseVerify:
		ok := l.newLabel()
		l.loadSlot(asm.R0, op.Slot)
		l.emit(asm.JNE.Imm(asm.R0, 0, ok))
		l.loadSlot(asm.R0, op.Slot2)
		l.maskRegister(asm.R0, 1<<32-1)
		l.storeScratch(l.code, asm.R0)
		l.putImm(l.pos, int32(n.pos))
		l.emitJump("parsed")
		l.placeLabel(ok)
	default:
		l.passToInterpreter("extract into a stack of header unions")
		return false
	}
	return true
}

func (l *lowering) lowerExtract(op *program.ParseOp, id int, n *parseNode) bool {
	e := &l.p.Extractions[id]
	if e.Varbit {
		if !op.Sized {
			l.passToInterpreter("a header that computes its own length")
			return false
		}
		l.loadSlot(asm.R0, op.Slot)
		l.emit(asm.JNE.Imm(asm.R0, 0, l.interpreterLabel("a field of variable length that is not empty")))
		return l.extractEmpty(e, id, n)
	}
	if n.pos+e.Bytes > maxHeaderBytes {
		l.passToInterpreter(fmt.Sprintf("headers of more than %d bytes", maxHeaderBytes))
		return false
	}
	l.checkPacketLength(n.pos+e.Bytes, n.pos)
	for i := range e.Fields {
		l.readPart(l.head+n.pos, &e.Fields[i])
	}
	if e.Raw != 0 {
		for i := 0; i < e.Bytes; i += 8 {
			l.loadScratch(asm.R0, l.head+n.pos+i)
			l.storeScratch(l.image[id]+i, asm.R0)
		}
		l.putImm(int(e.Raw)*8, 1)
		l.putImm(int(e.Dirty)*8, 0)
	}
	n.pos += e.Bytes
	l.setValid(id)
	return true
}

// extractEmpty extracts a header whose field of variable length is empty.
func (l *lowering) extractEmpty(e *program.Extraction, id int, n *parseNode) bool {
	if e.Bits%8 != 0 {
		l.endParsing(n.pos, l.p.Errors.Invalid)
		return false
	}
	if n.pos+e.Bytes > maxHeaderBytes {
		l.passToInterpreter(fmt.Sprintf("headers of more than %d bytes", maxHeaderBytes))
		return false
	}
	l.checkPacketLength(n.pos+e.Bytes, n.pos)
	for _, f := range e.Slow {
		if f.Varbit {
			for w := range f.Words {
				l.putImm(int(f.Slot)*8+8*w, 0)
			}
			continue
		}
		for _, p := range program.Parts(f.Slot, f.Offset, f.Width) {
			l.readPart(l.head+n.pos, &p)
		}
	}
	h := &l.p.Headers[id]
	l.putImm(int(h.Base+h.Type.VarLen)*8, 0)
	n.pos += e.Bytes
	l.setValid(id)
	return true
}

// wholeBytes reports whether a part is one, two, four or eight whole bytes; at is
// where they are.
func wholeBytes(p *program.Part) (at int, size asm.Size, ok bool) {
	if p.Shift%8 != 0 {
		return 0, 0, false
	}
	for _, s := range []asm.Size{asm.Byte, asm.Half, asm.Word, asm.DWord} {
		if p.Mask == program.MaskOf(8*s.Sizeof()) {
			return int(p.Byte) + 8 - int(p.Shift)/8 - s.Sizeof(), s, true
		}
	}
	return 0, 0, false
}

func swapBytes(r asm.Register, s asm.Size) []asm.Instruction {
	if s == asm.Byte {
		return nil
	}
	return []asm.Instruction{asm.HostTo(asm.BE, r, s)}
}

// readPart brings a run of bits from the bytes at base into its slot.
func (l *lowering) readPart(base int, f *program.Part) {
	l.bitsAt(base, f)
	if f.Right != 0 {
		l.emit(asm.LSh.Imm(asm.R0, int32(f.Right)))
	}
	if f.Right != 0 || f.More {
		l.loadScratch(asm.R1, int(f.Slot)*8)
		l.maskRegister(asm.R1, ^(f.Mask << f.Right))
		l.emit(asm.Or.Reg(asm.R0, asm.R1))
	}
	l.storeSlot(f.Slot, asm.R0)
}

// bitsAt brings a run of bits into R0.
func (l *lowering) bitsAt(base int, f *program.Part) {
	if at, size, ok := wholeBytes(f); ok {
		l.emit(asm.LoadMem(asm.R0, regScratch, int16(base+at), size))
		l.emit(swapBytes(asm.R0, size)...)
		return
	}
	l.emit(asm.LoadMem(asm.R0, regScratch, int16(base+int(f.Byte)), asm.DWord), asm.HostTo(asm.BE, asm.R0, asm.DWord))
	if f.Shift != 0 {
		l.emit(asm.RSh.Imm(asm.R0, int32(f.Shift)))
	}
	l.maskRegister(asm.R0, f.Mask)
}

// writePart is the reverse of readPart.
func (l *lowering) writePart(base int, f *program.Part) {
	l.loadSlot(asm.R0, f.Slot)
	if f.Right != 0 {
		l.emit(asm.RSh.Imm(asm.R0, int32(f.Right)))
	}
	if at, size, ok := wholeBytes(f); ok {
		l.emit(swapBytes(asm.R0, size)...)
		l.emit(asm.StoreMem(regScratch, int16(base+at), asm.R0, size))
		return
	}
	l.maskRegister(asm.R0, f.Mask)
	if f.Shift != 0 {
		l.emit(asm.LSh.Imm(asm.R0, int32(f.Shift)))
	}
	at := int16(base + int(f.Byte))
	l.emit(asm.LoadMem(asm.R1, regScratch, at, asm.DWord), asm.HostTo(asm.BE, asm.R1, asm.DWord))
	l.maskRegister(asm.R1, ^(f.Mask << f.Shift))
	l.emit(asm.Or.Reg(asm.R1, asm.R0), asm.HostTo(asm.BE, asm.R1, asm.DWord), asm.StoreMem(regScratch, at, asm.R1, asm.DWord))
}

// loadLookahead emits code that loads the bits of a lookahead into R0; false if the packet must be passed up.
func (l *lowering) loadLookahead(off, width int, n *parseNode) bool {
	if width > 64 || n.pos+(off+width+7)/8 > maxHeaderBytes {
		l.passToInterpreter("a lookahead of more than 64 bits or too far")
		return false
	}
	l.checkPacketLength(n.pos+(off+width+7)/8, n.pos)
	ps := program.Parts(0, off, width)
	l.emit(asm.Mov.Imm(asm.R3, 0))
	for i := range ps {
		l.bitsAt(l.head+n.pos, &ps[i])
		if ps[i].Right != 0 {
			l.emit(asm.LSh.Imm(asm.R0, int32(ps[i].Right)))
		}
		l.emit(asm.Or.Reg(asm.R3, asm.R0))
	}
	l.emit(asm.Mov.Reg(asm.R0, asm.R3))
	return true
}

func (l *lowering) lowerLookahead(op *program.ParseOp, n *parseNode) bool {
	if op.Dst.Field.Words != 1 {
		l.passToInterpreter("a lookahead of more than 64 bits or too far")
		return false
	}
	if !l.loadLookahead(op.Offset, op.Width, n) {
		return false
	}
	l.maskRegister(asm.R0, program.MaskOf(op.Dst.Field.Width))
	l.storeSlot(op.Dst.Slot, asm.R0)
	return true
}

func (l *lowering) selectNext(st *program.ParseState, n *parseNode) {
	if st.Words == 0 {
		l.emitJump(l.parseNodeLabel(st.Next, n.pos, n.fill))
		return
	}
	if st.KeyPC != 0 {
		end := l.newLabel()
		l.lowerSpan(st.KeyPC, end+"_", end, nil)
		l.placeLabel(end)
	}
	for w := range st.Words {
		l.putImm(l.key+8*w, 0)
	}
	for i := range st.Key {
		k := &st.Key[i]
		for w := range int(k.Words) {
			if k.Lookahead {
				if !l.loadLookahead(k.Offset, k.Width, n) {
					return
				}
			} else {
				l.loadSlot(asm.R0, k.Slot+uint32(w))
			}
			l.addKey(int(k.Word)+w, k.Shift)
		}
	}
	for i := range st.Cases {
		c := &st.Cases[i]
		if c.ValueSetUse >= 0 {
			l.passToInterpreter("a value set")
			return
		}
		no := l.newLabel()
		for w := range st.Words {
			l.loadScratch(asm.R0, l.key+8*w)
			l.maskRegister(asm.R0, c.Mask[w])
			l.loadImmediate(asm.R1, c.Value[w])
			l.emit(asm.JNE.Reg(asm.R0, asm.R1, no))
		}
		l.emitJump(l.parseNodeLabel(c.Next, n.pos, n.fill))
		l.placeLabel(no)
	}
	l.emitJump(l.parseNodeLabel(st.Next, n.pos, n.fill))
}

// addKey emits code that stores R0 as a word of the key.
func (l *lowering) addKey(word int, shift uint8) {
	if shift != 0 {
		l.emit(asm.LSh.Imm(asm.R0, int32(shift)))
	}
	l.loadScratch(asm.R1, l.key+8*word)
	l.emit(asm.Or.Reg(asm.R0, asm.R1))
	l.storeScratch(l.key+8*word, asm.R0)
}
