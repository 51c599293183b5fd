package ebpf

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// loweredTable is a table that the kernel looks up, and its map. A key is the
// table's packed key in the machine's order; of a trie a prefix length before
// the exact fields and the LPM field, the latter in network order; of a ternary
// table the index of the mask before the masked key. A value is three words,
// the action's index in the table plus one, the priority and the entry's
// index, then the action's arguments.
type loweredTable struct {
	ID                 program.TableID
	Trie               bool
	Keyed              bool // false: only a default; packets go up while a table with a range field has entries
	KeySize, ValueSize int  // bytes
	MaxEntries         int
	Counted            bool // has a map d of direct counters

	control int // offset of its part of control
}

// maxMasks is how many masks of a ternary table the kernel tries.
func maxMasks(t *program.Table) int { return min(64, max(1, t.Info.Size)) }

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
func refused(t *program.Table) string {
	switch {
	case t.Timeout:
		return "idle timeouts"
	case t.Kind == program.LPM && t.Key[t.LPM].Words > 1 && t.Key[t.LPM].Width%64 != 0:
		return fmt.Sprintf("an LPM field of %d bits", t.Key[t.LPM].Width)
	case t.Words > 16:
		return "a key of more than 1024 bits"
	}
	return ""
}

// fixed reports whether the table can only run its default.
func fixed(t *program.Table) bool {
	return len(t.Key) == 0 && t.Info.ConstDefault && t.Info.Profile < 0 && !t.Info.HasDirectCounter && t.Info.DirectMeter < 0
}

func (l *lowering) controlLayout() {
	at := 16
	for i := range l.p.Tables {
		t := &l.p.Tables[i]
		if refused(t) != "" || fixed(t) {
			continue
		}
		lt := &loweredTable{
			ID: program.TableID(i), Keyed: len(t.Key) > 0 && t.Kind != program.Range, Counted: t.Info.HasDirectCounter,
			KeySize: 8 * t.Words, ValueSize: 24 + 8*t.ArgMax, MaxEntries: max(t.Info.Size, 1), control: at,
		}
		at += controlArgs + 8*t.ArgMax
		switch t.Kind {
		case program.LPM:
			lt.Trie, lt.KeySize = true, 4+8*l.trieWords(t)
		case program.Ternary:
			lt.KeySize += 8
			at += 8 + 8*maxMasks(t)*t.Words
		}
		l.tables[i] = lt
	}
	l.out.ControlSize = at
}

func (l *lowering) trieWords(t *program.Table) int {
	n := 0
	for i := range t.Key {
		n += int(t.Key[i].Words)
	}
	return n
}

// table applies a table: what it does on each way is inlined.
func (l *lowering) table(id int, prefix, end string) {
	t := &l.p.Tables[id]
	where := l.what
	defer func() { l.what = where }()
	l.what = fmt.Sprintf("table %q", t.Info.Name)
	goOn := func(pc int32) { l.jump(fmt.Sprintf("%s%d", prefix, pc)) }
	if why := refused(t); why != "" {
		l.up(why)
		return
	}
	if fixed(t) {
		if t.Default < 0 {
			goOn(t.MissPC)
			return
		}
		for i, v := range t.DefaultArgs {
			l.imm(asm.R0, v)
			l.put((int(l.p.Args)+i)*8, asm.R0)
		}
		l.runAction(t, t.Default, end, func() { goOn(t.Actions[t.Default].Miss) })
		return
	}
	lt := l.tables[id]
	if lt.control+controlArgs+8*t.ArgMax+8*maxMasks(t)*(t.Words+1) > maxLowered {
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
	if lt.Counted { // behind those of the entries
		l.putImm(l.journalOf(lt), int32(lt.MaxEntries)+1)
	}
	l.emit(asm.LoadMem(asm.R0, regControl, int16(lt.control+controlDefault), asm.DWord))
	l.put(l.act, asm.R0)
	for i := range t.ArgMax {
		l.emit(asm.LoadMem(asm.R1, regControl, int16(lt.control+controlArgs+8*i), asm.DWord))
		l.put((int(l.p.Args)+i)*8, asm.R1)
	}
	l.at(run)
	l.get(asm.R0, l.act)
	var acts []string
	for k := range t.Actions {
		acts = append(acts, l.newLabel())
		l.emit(asm.JEq.Imm(asm.R0, int32(k+1), acts[k]))
	}
	l.emit(asm.JEq.Imm(asm.R0, goesUp, l.upLabel("an action profile or a configured meter")))
	goOn(t.MissPC)
	for k := range t.Actions {
		a := &t.Actions[k]
		l.at(acts[k])
		l.runAction(t, k, end, func() {
			if a.Hit != a.Miss {
				l.get(asm.R0, l.hit)
				l.emit(asm.JNE.Imm(asm.R0, 0, fmt.Sprintf("%s%d", prefix, a.Hit)))
			}
			goOn(a.Miss)
		})
	}
}

func (l *lowering) runAction(t *program.Table, k int, end string, then func()) {
	where := l.what
	l.what = fmt.Sprintf("action %q", t.Info.Actions[k].Name)
	l.span(t.Actions[k].PC, l.newLabel()+"_", end, then)
	l.what = where
}

// lookup leaves the action's index plus one in act, 0 after a miss, and its arguments.
func (l *lowering) lookup(t *program.Table, lt *loweredTable) {
	if t.Kind == program.LPM {
		l.trieKey(t)
		l.find(lt, l.key+4)
		l.take1(t, lt)
		return
	}
	for w := range t.Words {
		l.putImm(l.key+8*w, 0)
	}
	for i := range t.Key {
		k := &t.Key[i]
		for w := range int(k.Words) {
			l.keyWord(k, w)
			l.addKey(int(k.Word)+w, k.Shift)
		}
	}
	for w, m := range t.KeyMask {
		if m != ^uint64(0) {
			l.get(asm.R0, l.key+8*w)
			l.mask(asm.R0, m)
			l.put(l.key+8*w, asm.R0)
		}
	}
	if t.Kind == program.Exact {
		l.find(lt, l.key)
		l.take1(t, lt)
		return
	}
	l.putImm(l.prio, 0)
	masks := lt.control + controlArgs + 8*t.ArgMax
	done := l.newLabel()
	for i := range maxMasks(t) {
		l.emit(asm.LoadMem(asm.R0, regControl, int16(masks), asm.DWord), asm.JLE.Imm(asm.R0, int32(i), done))
		l.putImm(l.key2, int32(i))
		for w := range t.Words {
			l.get(asm.R0, l.key+8*w)
			l.emit(asm.LoadMem(asm.R1, regControl, int16(masks+8+8*(i*t.Words+w)), asm.DWord), asm.And.Reg(asm.R0, asm.R1))
			l.put(l.key2+8*(w+1), asm.R0)
		}
		l.find(lt, l.key2)
		l.take1(t, lt)
	}
	l.at(done)
}

// keyWord brings a word of a key field into R0, 0 when its header is not valid.
func (l *lowering) keyWord(k *program.KeyPiece, w int) {
	l.load(asm.R0, k.Slot+uint32(w))
	if k.Guard != program.SlotOne {
		ok := l.newLabel()
		l.load(asm.R1, k.Guard)
		l.emit(asm.JNE.Imm(asm.R1, 0, ok), asm.Mov.Imm(asm.R0, 0))
		l.at(ok)
	}
}

// trieKey builds the key of a trie, whose length is 32 bits before a word's bound.
func (l *lowering) trieKey(t *program.Table) {
	bits, at := 0, l.key+8
	for i := range t.Key {
		if i == t.LPM {
			continue
		}
		k := &t.Key[i]
		for w := range int(k.Words) {
			l.keyWord(k, w)
			l.staticMask(t, k, w)
			l.put(at, asm.R0)
			at, bits = at+8, bits+64
		}
	}
	k := &t.Key[t.LPM]
	for w := int(k.Words) - 1; w >= 0; w-- {
		l.keyWord(k, w)
		l.staticMask(t, k, w)
		if k.Width < 64 {
			l.emit(asm.LSh.Imm(asm.R0, int32(64-k.Width)))
		}
		l.emit(asm.HostTo(asm.BE, asm.R0, asm.DWord))
		l.put(at, asm.R0)
		at += 8
	}
	l.emit(asm.StoreImm(regScratch, int16(l.key+4), int64(bits+k.Width), asm.Word))
}

func (l *lowering) staticMask(t *program.Table, k *program.KeyPiece, w int) {
	if t.KeyMask != nil {
		l.mask(asm.R0, t.KeyMask[int(k.Word)+w]>>k.Shift)
	}
}

func (l *lowering) find(lt *loweredTable, key int) {
	l.emit(
		asm.Mov.Reg(asm.R2, regScratch),
		asm.Add.Imm(asm.R2, int32(key)),
		asm.LoadMapPtr(asm.R1, 0).WithReference(fmt.Sprintf("t%d", lt.ID)),
		asm.FnMapLookupElem.Call(),
	)
}

// take1 takes what find found, if it is better than what was found before.
func (l *lowering) take1(t *program.Table, lt *loweredTable) {
	none := l.newLabel()
	l.emit(asm.JEq.Imm(asm.R0, 0, none))
	if t.Kind == program.Ternary {
		l.emit(asm.LoadMem(asm.R1, asm.R0, 8, asm.DWord))
		l.get(asm.R2, l.prio)
		l.emit(asm.JLE.Reg(asm.R1, asm.R2, none))
		l.put(l.prio, asm.R1)
	}
	l.emit(asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord))
	l.put(l.act, asm.R1)
	if t.MeterTo.Field != nil { // an entry with a configured meter goes up: the others' packets are green
		l.putImm(int(t.MeterTo.Slot)*8, 0)
	}
	if lt.Counted {
		l.emit(asm.LoadMem(asm.R1, asm.R0, 16, asm.DWord), asm.Add.Imm(asm.R1, 1))
		l.put(l.journalOf(lt), asm.R1)
	}
	for i := range t.ArgMax {
		l.emit(asm.LoadMem(asm.R1, asm.R0, int16(24+8*i), asm.DWord))
		l.put((int(l.p.Args)+i)*8, asm.R1)
	}
	l.at(none)
}

// journalOf is where the entry to count is noted; a table is applied once.
func (l *lowering) journalOf(lt *loweredTable) int {
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

// loweredEntry is a key and value of a table's map.
type loweredEntry struct {
	Key, Value []byte
}

// entries yields what a table's map has to hold for the table to be as it is in
// the switch. Of entries with equal masks and keys only the first counts.
func (lt *loweredTable) entries(s *interp.Switch, p *program.Program) iter.Seq[loweredEntry] {
	return func(yield func(loweredEntry) bool) {
		t := &p.Tables[lt.ID]
		for r := range s.Rows(lt.ID) {
			if t.Kind == program.Ternary && r.Group >= maxMasks(t) {
				return
			}
			value := make([]byte, 0, lt.ValueSize)
			act := uint64(r.Target) + 1
			if r.Kind != interp.ByAction || r.Metered {
				act = goesUp
			}
			value = binary.NativeEndian.AppendUint64(value, act)
			value = binary.NativeEndian.AppendUint64(value, uint64(int64(r.Priority)+1<<32))
			value = binary.NativeEndian.AppendUint64(value, uint64(r.Place))
			for _, a := range r.Args {
				value = binary.NativeEndian.AppendUint64(value, a)
			}
			if !yield(loweredEntry{lt.keyOf(t, r.Key, r.Group, r.PrefixLen), value}) {
				return
			}
		}
	}
}

func (lt *loweredTable) keyOf(t *program.Table, key []uint64, group, plen int) []byte {
	var b []byte
	put := func(x uint64) { b = binary.NativeEndian.AppendUint64(b, x) }
	if t.Kind != program.LPM {
		if t.Kind == program.Ternary {
			put(uint64(group))
		}
		for _, x := range key {
			put(x)
		}
		return b
	}
	bits := plen
	b = make([]byte, 4)
	word := func(k *program.KeyPiece, w int) uint64 {
		if k.Words > 1 {
			return key[int(k.Word)+w]
		}
		return key[k.Word] >> k.Shift & program.MaskOf(k.Width)
	}
	for i := range t.Key {
		if k := &t.Key[i]; i != t.LPM {
			for w := range int(k.Words) {
				put(word(k, w))
				bits += 64
			}
		}
	}
	k := &t.Key[t.LPM]
	for w := int(k.Words) - 1; w >= 0; w-- {
		b = binary.BigEndian.AppendUint64(b, word(k, w)<<max(0, 64-k.Width))
	}
	binary.NativeEndian.PutUint32(b, uint32(bits))
	return b
}

// controlValue returns the control value for the switch's tables as they are.
// clock masks the kernel's clock, whose reading less epoch, both ns, is the
// switch's time.
func (o *lowered) controlValue(s *interp.Switch, clock, epoch uint64) []byte {
	b := make([]byte, o.ControlSize)
	put := func(at int, v uint64) { binary.NativeEndian.PutUint64(b[at:], v) }
	put(0, clock)
	put(8, epoch)
	for i := range o.Tables {
		lt := &o.Tables[i]
		t := &o.p.Tables[lt.ID]
		if d, set := s.DefaultRow(lt.ID); set {
			put(lt.control+controlDefault, uint64(d.Target)+1)
			if d.Kind != interp.ByAction || d.Metered {
				put(lt.control+controlDefault, goesUp)
			}
			for k, a := range d.Args {
				put(lt.control+controlArgs+8*k, a)
			}
		}
		if n := s.Len(lt.ID); n > lt.MaxEntries || t.Kind == program.Range && n > 0 {
			put(lt.control+controlUp, 1)
		}
		if t.Kind != program.Ternary {
			continue
		}
		at := lt.control + controlArgs + 8*t.ArgMax
		masks := s.Masks(lt.ID)
		if len(masks) > maxMasks(t) {
			put(lt.control+controlUp, 1)
			continue
		}
		put(at, uint64(len(masks)))
		for g, mask := range masks {
			for w, m := range mask {
				put(at+8+8*(g*t.Words+w), m)
			}
		}
	}
	return b
}
