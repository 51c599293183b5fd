package interp

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
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

func (l *lowering) parser() {
	l.putImm(l.code, int32(l.p.errs.none))
	fill := make([]int, len(l.p.stacks))
	l.jump(l.node(l.p.parser.init, 0, fill))
	for len(l.pending) > 0 {
		n := l.pending[0]
		l.pending = l.pending[1:]
		l.parseState(n)
	}
	l.what = "parser"
	l.at("parsed")
	std := &l.p.std
	l.get(asm.R0, l.code)
	if std.parserError.has {
		l.setStd(std.parserError, asm.R0)
	} else {
		l.emit(asm.JNE.Imm(asm.R0, int32(l.p.errs.none), "drop_parser"))
	}
}

// node returns the label of a state that is reached with the parser at pos.
func (l *lowering) node(state int32, pos int, fill []int) string {
	key := fmt.Sprintf("s%d at %d %v", state, pos, fill)
	if n, ok := l.nodes[key]; ok {
		return n
	}
	if len(l.nodes) == maxStates {
		return l.upLabel(fmt.Sprintf("more than %d ways through the parser", maxStates))
	}
	n := parseNode{state: state, pos: pos, fill: slices.Clone(fill)}
	n.label = fmt.Sprintf("parse%d", len(l.nodes))
	l.nodes[key] = n.label
	l.pending = append(l.pending, n)
	return n.label
}

// stop ends parsing at pos with an error that is in the program.
func (l *lowering) stop(pos int, code uint64) {
	l.putImm(l.pos, int32(pos))
	l.putImm(l.code, int32(code))
	l.jump("parsed")
}

// need stops parsing when the packet has not n bytes from its start.
func (l *lowering) need(n, pos int) {
	ok := l.newLabel()
	l.get(asm.R0, l.length)
	l.emit(asm.JGE.Imm(asm.R0, int32(n), ok))
	l.stop(pos, l.p.errs.tooShort)
	l.at(ok)
}

func (l *lowering) parseState(n parseNode) {
	l.at(n.label)
	if n.state < 0 {
		l.putImm(l.pos, int32(n.pos))
		l.jump("parsed")
		return
	}
	st := &l.p.parser.states[n.state]
	l.what = fmt.Sprintf("parser state %q", st.name)
	for i := range st.ops {
		if !l.parseOp(&st.ops[i], &n) {
			return
		}
	}
	l.selectNext(st, &n)
}

// parseOp is false when the way goes up here.
func (l *lowering) parseOp(op *parseOp, n *parseNode) bool {
	if op.pc != 0 {
		end := l.newLabel()
		l.span(op.pc, end+"_", end, nil)
		l.at(end)
	}
	switch op.kind {
	case parseExtract:
		return l.extract(op, op.id, n)
	case parseExtractStack:
		k := &l.p.stacks[op.id]
		at := n.fill[op.id]
		if at >= len(k.headers) {
			l.stop(n.pos, l.p.errs.stack)
			return false
		}
		if !l.extract(op, k.headers[at], n) {
			return false
		}
		n.fill[op.id] = at + 1
		l.putImm(int(k.next)*8, int32(at+1))
	case parseRun:
	case parseLookahead:
		return l.lookahead(op, n)
	case parseAdvance:
		by, ok := l.konst[op.slot]
		if !ok {
			l.up("advance by a number of bits known at run time only")
			return false
		}
		if by%8 != 0 {
			l.stop(n.pos, l.p.errs.invalid)
			return false
		}
		if by > headBytes*8 {
			l.up(fmt.Sprintf("headers of more than %d bytes", headBytes))
			return false
		}
		l.need(n.pos+int(by/8), n.pos)
		n.pos += int(by / 8)
	case parseVerify:
		ok := l.newLabel()
		l.load(asm.R0, op.slot)
		l.emit(asm.JNE.Imm(asm.R0, 0, ok))
		l.load(asm.R0, op.slot2)
		l.mask(asm.R0, 1<<32-1)
		l.put(l.code, asm.R0)
		l.putImm(l.pos, int32(n.pos))
		l.jump("parsed")
		l.at(ok)
	default:
		l.up("extract into a stack of header unions")
		return false
	}
	return true
}

func (l *lowering) extract(op *parseOp, id int, n *parseNode) bool {
	e := &l.p.extracts[id]
	if e.varbit {
		if !op.sized {
			l.up("a header that computes its own length")
			return false
		}
		l.load(asm.R0, op.slot)
		l.emit(asm.JNE.Imm(asm.R0, 0, l.upLabel("a field of variable length that is not empty")))
		return l.extractEmpty(e, id, n)
	}
	if n.pos+e.bytes > headBytes {
		l.up(fmt.Sprintf("headers of more than %d bytes", headBytes))
		return false
	}
	l.need(n.pos+e.bytes, n.pos)
	for i := range e.fields {
		l.readPart(l.head+n.pos, &e.fields[i])
	}
	if e.raw != 0 {
		for i := 0; i < e.bytes; i += 8 {
			l.get(asm.R0, l.head+n.pos+i)
			l.put(l.image[id]+i, asm.R0)
		}
		l.putImm(int(e.raw)*8, 1)
		l.putImm(int(e.dirty)*8, 0)
	}
	n.pos += e.bytes
	l.setValid(id)
	return true
}

// extractEmpty extracts a header whose field of variable length is empty.
func (l *lowering) extractEmpty(e *extraction, id int, n *parseNode) bool {
	if n.pos+e.bytes > headBytes {
		l.up(fmt.Sprintf("headers of more than %d bytes", headBytes))
		return false
	}
	l.need(n.pos+e.bytes, n.pos)
	for _, f := range e.slow {
		if f.isVar {
			for w := range f.words {
				l.putImm(int(f.slot)*8+8*w, 0)
			}
			continue
		}
		for _, p := range parts(f.slot, f.off, f.width) {
			l.readPart(l.head+n.pos, &p)
		}
	}
	h := &l.p.headers[id]
	l.putImm(int(h.base+h.typ.varLen)*8, 0)
	n.pos += e.bytes
	l.setValid(id)
	return true
}

// whole reports whether a part is one, two, four or eight whole bytes; at is
// where they are.
func (p *part) whole() (at int, size asm.Size, ok bool) {
	if p.shift%8 != 0 {
		return 0, 0, false
	}
	for _, s := range []asm.Size{asm.Byte, asm.Half, asm.Word, asm.DWord} {
		if p.mask == maskOf(8*s.Sizeof()) {
			return int(p.byte) + 8 - int(p.shift)/8 - s.Sizeof(), s, true
		}
	}
	return 0, 0, false
}

func swap(r asm.Register, s asm.Size) []asm.Instruction {
	if s == asm.Byte {
		return nil
	}
	return []asm.Instruction{asm.HostTo(asm.BE, r, s)}
}

// readPart brings a run of bits from the bytes at base into its slot.
func (l *lowering) readPart(base int, f *part) {
	l.bitsAt(base, f)
	if f.right != 0 {
		l.emit(asm.LSh.Imm(asm.R0, int32(f.right)))
	}
	if f.right != 0 || f.more {
		l.get(asm.R1, int(f.slot)*8)
		l.mask(asm.R1, ^(f.mask << f.right))
		l.emit(asm.Or.Reg(asm.R0, asm.R1))
	}
	l.store(f.slot, asm.R0)
}

// bitsAt brings a run of bits into R0.
func (l *lowering) bitsAt(base int, f *part) {
	if at, size, ok := f.whole(); ok {
		l.emit(asm.LoadMem(asm.R0, regScratch, int16(base+at), size))
		l.emit(swap(asm.R0, size)...)
		return
	}
	l.emit(asm.LoadMem(asm.R0, regScratch, int16(base+int(f.byte)), asm.DWord), asm.HostTo(asm.BE, asm.R0, asm.DWord))
	if f.shift != 0 {
		l.emit(asm.RSh.Imm(asm.R0, int32(f.shift)))
	}
	l.mask(asm.R0, f.mask)
}

// writePart is the reverse of readPart.
func (l *lowering) writePart(base int, f *part) {
	l.load(asm.R0, f.slot)
	if f.right != 0 {
		l.emit(asm.RSh.Imm(asm.R0, int32(f.right)))
	}
	if at, size, ok := f.whole(); ok {
		l.emit(swap(asm.R0, size)...)
		l.emit(asm.StoreMem(regScratch, int16(base+at), asm.R0, size))
		return
	}
	l.mask(asm.R0, f.mask)
	if f.shift != 0 {
		l.emit(asm.LSh.Imm(asm.R0, int32(f.shift)))
	}
	at := int16(base + int(f.byte))
	l.emit(asm.LoadMem(asm.R1, regScratch, at, asm.DWord), asm.HostTo(asm.BE, asm.R1, asm.DWord))
	l.mask(asm.R1, ^(f.mask << f.shift))
	l.emit(asm.Or.Reg(asm.R1, asm.R0), asm.HostTo(asm.BE, asm.R1, asm.DWord), asm.StoreMem(regScratch, at, asm.R1, asm.DWord))
}

// ahead brings the bits of a lookahead into R0; false when the way goes up.
func (l *lowering) ahead(off, width int, n *parseNode) bool {
	if width > 64 || n.pos+(off+width+7)/8 > headBytes {
		l.up("a lookahead of more than 64 bits or too far")
		return false
	}
	l.need(n.pos+(off+width+7)/8, n.pos)
	ps := parts(0, off, width)
	l.emit(asm.Mov.Imm(asm.R3, 0))
	for i := range ps {
		l.bitsAt(l.head+n.pos, &ps[i])
		if ps[i].right != 0 {
			l.emit(asm.LSh.Imm(asm.R0, int32(ps[i].right)))
		}
		l.emit(asm.Or.Reg(asm.R3, asm.R0))
	}
	l.emit(asm.Mov.Reg(asm.R0, asm.R3))
	return true
}

func (l *lowering) lookahead(op *parseOp, n *parseNode) bool {
	if op.dst.f.words != 1 {
		l.up("a lookahead of more than 64 bits or too far")
		return false
	}
	if !l.ahead(op.off, op.width, n) {
		return false
	}
	l.mask(asm.R0, maskOf(op.dst.f.width))
	l.store(op.dst.slot, asm.R0)
	return true
}

func (l *lowering) selectNext(st *parseState, n *parseNode) {
	if st.words == 0 {
		l.jump(l.node(st.next, n.pos, n.fill))
		return
	}
	if st.keyPC != 0 {
		end := l.newLabel()
		l.span(st.keyPC, end+"_", end, nil)
		l.at(end)
	}
	for w := range st.words {
		l.putImm(l.key+8*w, 0)
	}
	for i := range st.key {
		k := &st.key[i]
		for w := range int(k.words) {
			if k.lookahead {
				if !l.ahead(k.off, k.width, n) {
					return
				}
			} else {
				l.load(asm.R0, k.slot+uint32(w))
			}
			l.addKey(int(k.word)+w, k.shift)
		}
	}
	for i := range st.cases {
		c := &st.cases[i]
		if c.vset >= 0 {
			l.up("a value set")
			return
		}
		no := l.newLabel()
		for w := range st.words {
			l.get(asm.R0, l.key+8*w)
			l.mask(asm.R0, c.mask[w])
			l.imm(asm.R1, c.val[w])
			l.emit(asm.JNE.Reg(asm.R0, asm.R1, no))
		}
		l.jump(l.node(c.next, n.pos, n.fill))
		l.at(no)
	}
	l.jump(l.node(st.next, n.pos, n.fill))
}

// addKey puts R0 into a word of the key.
func (l *lowering) addKey(word int, shift uint8) {
	if shift != 0 {
		l.emit(asm.LSh.Imm(asm.R0, int32(shift)))
	}
	l.get(asm.R1, l.key+8*word)
	l.emit(asm.Or.Reg(asm.R0, asm.R1))
	l.put(l.key+8*word, asm.R0)
}
