package interp

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/cilium/ebpf/asm"
)

// LoweredTable is a table that the kernel looks up, and its map. A key is the
// table's packed key in the machine's order; of a trie a prefix length before
// the exact fields and the LPM field, the latter in network order; of a ternary
// table the index of the mask before the masked key. A value is three words,
// the action's index in the table plus one, the priority and the entry's
// index, then the action's arguments.
type LoweredTable struct {
	ID                 TableID
	Trie               bool
	Keyed              bool // false: only a default; packets go up while a table with a range field has entries
	KeySize, ValueSize int  // bytes
	MaxEntries         int
	Counted            bool // has a map d of direct counters

	control int // offset of its part of control
}

// maxMasks is how many masks of a ternary table the kernel tries.
func (t *table) maxMasks() int { return min(64, max(1, t.info.Size)) }

// Parts of a table's control: whether it goes up, its default's action plus
// one, then the default's arguments, and of a ternary table how many masks and
// these.
const (
	controlUp = iota * 8
	controlDefault
	controlArgs
)

// goesUp is the action of an entry that the kernel does not carry out.
const goesUp = 1 << 20

// refused says why a table is not looked up in the kernel; "" when it is.
func (t *table) refused() string {
	switch {
	case t.info.DirectMeter >= 0:
		return "a direct meter"
	case t.timeout:
		return "idle timeouts"
	case t.kind == LPM && t.key[t.lpm].words > 1 && t.key[t.lpm].width%64 != 0:
		return fmt.Sprintf("an LPM field of %d bits", t.key[t.lpm].width)
	case t.words > 16:
		return "a key of more than 1024 bits"
	}
	return ""
}

// fixed reports whether the table can only run its default.
func (t *table) fixed() bool { return len(t.key) == 0 && t.info.ConstDefault && t.info.Profile < 0 }

func (l *lowering) controlLayout() {
	at := 16
	for i := range l.p.tables {
		t := &l.p.tables[i]
		if t.refused() != "" || t.fixed() {
			continue
		}
		lt := &LoweredTable{
			ID: TableID(i), Keyed: len(t.key) > 0 && t.kind != Range, Counted: t.info.HasDirectCounter,
			KeySize: 8 * t.words, ValueSize: 24 + 8*t.argMax, MaxEntries: max(t.info.Size, 1), control: at,
		}
		at += controlArgs + 8*t.argMax
		switch t.kind {
		case LPM:
			lt.Trie, lt.KeySize = true, 4+8*l.trieWords(t)
		case Ternary:
			lt.KeySize += 8
			at += 8 + 8*t.maxMasks()*t.words
		}
		l.tables[i] = lt
	}
	l.out.ControlSize = at
}

func (l *lowering) trieWords(t *table) int {
	n := 0
	for i := range t.key {
		n += int(t.key[i].words)
	}
	return n
}

// table applies a table: what it does on each way is inlined.
func (l *lowering) table(id int, prefix, end string) {
	t := &l.p.tables[id]
	where := l.what
	defer func() { l.what = where }()
	l.what = fmt.Sprintf("table %q", t.info.Name)
	goOn := func(pc int32) { l.jump(fmt.Sprintf("%s%d", prefix, pc)) }
	if why := t.refused(); why != "" {
		l.up(why)
		return
	}
	if t.fixed() {
		if t.defAct < 0 {
			goOn(t.missPC)
			return
		}
		for i, v := range t.defArgs {
			l.imm(asm.R0, v)
			l.put((int(l.p.args)+i)*8, asm.R0)
		}
		l.runAction(t, t.defAct, end, func() { goOn(t.acts[t.defAct].def) })
		return
	}
	lt := l.tables[id]
	if lt.control+controlArgs+8*t.argMax+8*t.maxMasks()*(t.words+1) > maxLowered {
		l.up("a control state that is too large")
		return
	}
	l.emit(
		asm.LoadMem(asm.R0, regControl, int16(lt.control+controlUp), asm.DWord),
		asm.JNE.Imm(asm.R0, 0, l.upLabel("entries that the kernel does not take")),
	)
	l.putImm(l.act, 0)
	if lt.Keyed {
		l.lookup(t, lt)
	}
	// A miss: the default.
	run := l.newLabel()
	l.putImm(l.hit, 1)
	l.get(asm.R0, l.act)
	l.emit(asm.JNE.Imm(asm.R0, 0, run))
	l.putImm(l.hit, 0)
	l.emit(asm.LoadMem(asm.R0, regControl, int16(lt.control+controlDefault), asm.DWord))
	l.put(l.act, asm.R0)
	for i := range t.argMax {
		l.emit(asm.LoadMem(asm.R1, regControl, int16(lt.control+controlArgs+8*i), asm.DWord))
		l.put((int(l.p.args)+i)*8, asm.R1)
	}
	l.at(run)
	l.get(asm.R0, l.act)
	var acts []string
	for k := range t.acts {
		acts = append(acts, l.newLabel())
		l.emit(asm.JEq.Imm(asm.R0, int32(k+1), acts[k]))
	}
	l.emit(asm.JEq.Imm(asm.R0, goesUp, l.upLabel("an action profile")))
	goOn(t.missPC)
	for k := range t.acts {
		a := &t.acts[k]
		l.at(acts[k])
		l.runAction(t, k, end, func() {
			if a.hit != a.def {
				l.get(asm.R0, l.hit)
				l.emit(asm.JNE.Imm(asm.R0, 0, fmt.Sprintf("%s%d", prefix, a.hit)))
			}
			goOn(a.def)
		})
	}
}

func (l *lowering) runAction(t *table, k int, end string, then func()) {
	where := l.what
	l.what = fmt.Sprintf("action %q", t.info.Actions[k].Name)
	l.span(t.acts[k].pc, l.newLabel()+"_", end, then)
	l.what = where
}

// lookup leaves the action's index plus one in act, 0 after a miss, and its arguments.
func (l *lowering) lookup(t *table, lt *LoweredTable) {
	if t.kind == LPM {
		l.trieKey(t)
		l.find(lt, l.key+4)
		l.take1(t, lt)
		return
	}
	for w := range t.words {
		l.putImm(l.key+8*w, 0)
	}
	for i := range t.key {
		k := &t.key[i]
		for w := range int(k.words) {
			l.keyWord(k, w)
			l.addKey(int(k.word)+w, k.shift)
		}
	}
	for w, m := range t.big {
		if m != ^uint64(0) {
			l.get(asm.R0, l.key+8*w)
			l.mask(asm.R0, m)
			l.put(l.key+8*w, asm.R0)
		}
	}
	if t.kind == Exact {
		l.find(lt, l.key)
		l.take1(t, lt)
		return
	}
	l.putImm(l.prio, 0)
	masks := lt.control + controlArgs + 8*t.argMax
	done := l.newLabel()
	for i := range t.maxMasks() {
		l.emit(asm.LoadMem(asm.R0, regControl, int16(masks), asm.DWord), asm.JLE.Imm(asm.R0, int32(i), done))
		l.putImm(l.key2, int32(i))
		for w := range t.words {
			l.get(asm.R0, l.key+8*w)
			l.emit(asm.LoadMem(asm.R1, regControl, int16(masks+8+8*(i*t.words+w)), asm.DWord), asm.And.Reg(asm.R0, asm.R1))
			l.put(l.key2+8*(w+1), asm.R0)
		}
		l.find(lt, l.key2)
		l.take1(t, lt)
	}
	l.at(done)
}

// keyWord brings a word of a key field into R0, 0 when its header is not valid.
func (l *lowering) keyWord(k *keyPiece, w int) {
	l.load(asm.R0, k.slot+uint32(w))
	if k.guard != slotOne {
		ok := l.newLabel()
		l.load(asm.R1, k.guard)
		l.emit(asm.JNE.Imm(asm.R1, 0, ok), asm.Mov.Imm(asm.R0, 0))
		l.at(ok)
	}
}

// trieKey builds the key of a trie, whose length is 32 bits before a word's bound.
func (l *lowering) trieKey(t *table) {
	bits, at := 0, l.key+8
	for i := range t.key {
		if i == t.lpm {
			continue
		}
		k := &t.key[i]
		for w := range int(k.words) {
			l.keyWord(k, w)
			l.staticMask(t, k, w)
			l.put(at, asm.R0)
			at, bits = at+8, bits+64
		}
	}
	k := &t.key[t.lpm]
	for w := int(k.words) - 1; w >= 0; w-- {
		l.keyWord(k, w)
		l.staticMask(t, k, w)
		if k.width < 64 {
			l.emit(asm.LSh.Imm(asm.R0, int32(64-k.width)))
		}
		l.emit(asm.HostTo(asm.BE, asm.R0, asm.DWord))
		l.put(at, asm.R0)
		at += 8
	}
	l.emit(asm.StoreImm(regScratch, int16(l.key+4), int64(bits+k.width), asm.Word))
}

func (l *lowering) staticMask(t *table, k *keyPiece, w int) {
	if t.big != nil {
		l.mask(asm.R0, t.big[int(k.word)+w]>>k.shift)
	}
}

func (l *lowering) find(lt *LoweredTable, key int) {
	l.emit(
		asm.Mov.Reg(asm.R2, regScratch),
		asm.Add.Imm(asm.R2, int32(key)),
		asm.LoadMapPtr(asm.R1, 0).WithReference(fmt.Sprintf("t%d", lt.ID)),
		asm.FnMapLookupElem.Call(),
	)
}

// take1 takes what find found, if it is better than what was found before.
func (l *lowering) take1(t *table, lt *LoweredTable) {
	none := l.newLabel()
	l.emit(asm.JEq.Imm(asm.R0, 0, none))
	if t.kind == Ternary {
		l.emit(asm.LoadMem(asm.R1, asm.R0, 8, asm.DWord))
		l.get(asm.R2, l.prio)
		l.emit(asm.JLE.Reg(asm.R1, asm.R2, none))
		l.put(l.prio, asm.R1)
	}
	l.emit(asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord))
	l.put(l.act, asm.R1)
	if lt.Counted {
		l.emit(asm.LoadMem(asm.R1, asm.R0, 16, asm.DWord), asm.Add.Imm(asm.R1, 1))
		l.put(l.journalOf(lt), asm.R1)
	}
	for i := range t.argMax {
		l.emit(asm.LoadMem(asm.R1, asm.R0, int16(24+8*i), asm.DWord))
		l.put((int(l.p.args)+i)*8, asm.R1)
	}
	l.at(none)
}

// journalOf is where the entry to count is noted; a table is applied once.
func (l *lowering) journalOf(lt *LoweredTable) int {
	name := fmt.Sprintf("d%d", lt.ID)
	for _, j := range l.journal {
		if j.kind == name {
			return j.at
		}
	}
	j := journalSite{at: l.take(8), kind: name}
	l.journal = append(l.journal, j)
	return j.at
}

// LoweredEntry is a key and value of a table's map.
type LoweredEntry struct {
	Key, Value []byte
}

// LoweredEntries yields what a table's map has to hold for the table to be as
// it is in the switch. Of entries with equal masks and keys only the first
// counts.
func (s *Switch) LoweredEntries(lt *LoweredTable) iter.Seq[LoweredEntry] {
	return func(yield func(LoweredEntry) bool) {
		ts := &s.tables[lt.ID]
		t := ts.t
		for gi, g := range ts.groups {
			if t.kind == Ternary && gi >= t.maxMasks() {
				return
			}
			for _, sl := range g.tab {
				if sl.idx == 0 {
					continue
				}
				i := int(sl.idx - 1)
				e := &ts.entries[i]
				value := make([]byte, 0, lt.ValueSize)
				act := uint64(e.target) + 1
				if e.kind != ByAction {
					act = goesUp
				}
				value = binary.NativeEndian.AppendUint64(value, act)
				value = binary.NativeEndian.AppendUint64(value, uint64(int64(e.prio)+1<<32))
				value = binary.NativeEndian.AppendUint64(value, uint64(i))
				for _, a := range ts.args[i*t.argMax : (i+1)*t.argMax] {
					value = binary.NativeEndian.AppendUint64(value, a)
				}
				if !yield(LoweredEntry{lt.keyOf(t, ts.keys[i*t.words:(i+1)*t.words], gi, g.plen), value}) {
					return
				}
			}
		}
	}
}

func (lt *LoweredTable) keyOf(t *table, key []uint64, group, plen int) []byte {
	var b []byte
	put := func(x uint64) { b = binary.NativeEndian.AppendUint64(b, x) }
	if t.kind != LPM {
		if t.kind == Ternary {
			put(uint64(group))
		}
		for _, x := range key {
			put(x)
		}
		return b
	}
	bits := plen
	b = make([]byte, 4)
	word := func(k *keyPiece, w int) uint64 {
		if k.words > 1 {
			return key[int(k.word)+w]
		}
		return key[k.word] >> k.shift & maskOf(k.width)
	}
	for i := range t.key {
		if k := &t.key[i]; i != t.lpm {
			for w := range int(k.words) {
				put(word(k, w))
				bits += 64
			}
		}
	}
	k := &t.key[t.lpm]
	for w := int(k.words) - 1; w >= 0; w-- {
		b = binary.BigEndian.AppendUint64(b, word(k, w)<<max(0, 64-k.width))
	}
	binary.NativeEndian.PutUint32(b, uint32(bits))
	return b
}

// LoweredControl returns the control value for the switch's tables as they
// are. clock masks the kernel's clock, whose reading less epoch, both ns, is
// the switch's time.
func (s *Switch) LoweredControl(o *Lowered, clock, epoch uint64) []byte {
	b := make([]byte, o.ControlSize)
	put := func(at int, v uint64) { binary.NativeEndian.PutUint64(b[at:], v) }
	put(0, clock)
	put(8, epoch)
	for i := range o.Tables {
		lt := &o.Tables[i]
		ts := &s.tables[lt.ID]
		t := ts.t
		if d := &ts.def; d.set {
			put(lt.control+controlDefault, uint64(d.target)+1)
			if d.kind != ByAction {
				put(lt.control+controlDefault, goesUp)
			}
			for k, a := range d.args {
				put(lt.control+controlArgs+8*k, a)
			}
		}
		if ts.n > lt.MaxEntries || t.kind == Range && ts.n > 0 {
			put(lt.control+controlUp, 1)
		}
		if t.kind != Ternary {
			continue
		}
		at := lt.control + controlArgs + 8*t.argMax
		if len(ts.groups) > t.maxMasks() {
			put(lt.control+controlUp, 1)
			continue
		}
		put(at, uint64(len(ts.groups)))
		for g, gr := range ts.groups {
			for w, m := range gr.mask {
				put(at+8+8*(g*t.words+w), m)
			}
		}
	}
	return b
}
