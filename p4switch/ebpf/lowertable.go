package ebpf

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

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
	Keyed              bool // false: only a default
	KeySize, ValueSize int  // bytes
	MaskSize           int  // bytes; 0: no masks
	MaxMasks           int
	MaxEntries         int
	MaxKeys            int  // of entries: those with ranges have several
	Counted            bool // has a map d of direct counters

	control int // offset of its part of control
}

// How many masks of a table, and of all tables, the kernel tries. The verifier follows the instructions of each, 140 or
// so, of the million that it follows at most.
const (
	maxMasks = 512
	allMasks = 2048
	minMasks = 32 // of a table, when the verifier refuses more
)

// maxRanged is how many keys the entries of a table with ranges may have.
const maxRanged = 1 << 20

// Parts of a table's control: whether it goes up, of a table with masks where in their array they begin and how many
// they are, the default's action plus one and its arguments.
const (
	controlPassUp = iota * 8
	controlFirst
	controlMasks
	controlDefault
	controlArgs
)

// Parts of a mask in the array.
const (
	maskNumber = iota * 8
	maskRank
	maskOr
	maskWords
)

// verdictUp is the action of an entry that the kernel does not carry out.
const verdictUp = 1 << 20

// whyNotInKernel returns why a table cannot be looked up in the kernel; "" if it can.
func whyNotInKernel(t *program.Table) string {
	switch {
	case t.Timeout:
		return "idle timeouts"
	case t.Kind == program.LPM && (t.Key[t.LPM].Words > 1 && t.Key[t.LPM].Width%64 != 0 || t.Key[t.LPM].Width == 0):
		return fmt.Sprintf("an LPM field of %d bits", t.Key[t.LPM].Width)
	case slices.ContainsFunc(t.Ranges, func(f int) bool { return t.Key[f].Words > 1 }):
		return "a range field of more than 64 bits"
	case t.Words > 16:
		return "a key of more than 1024 bits"
	}
	return ""
}

// onlyDefault reports whether the table can only execute its default action.
func onlyDefault(t *program.Table) bool {
	return len(t.Key) == 0 && t.Info.ConstDefault && t.Info.Profile < 0 && !t.Info.HasDirectCounter && t.Info.DirectMeter < 0
}

func (l *lowering) controlLayout() {
	at := 16
	for i := range l.p.Tables {
		t := &l.p.Tables[i]
		if whyNotInKernel(t) != "" || onlyDefault(t) {
			continue
		}
		lt := &loweredTable{
			ID: program.TableID(i), Keyed: len(t.Key) > 0, Counted: t.Info.HasDirectCounter,
			KeySize: 8 * t.Words, ValueSize: 24 + 8*t.ArgMax, MaxEntries: max(t.Info.Size, 1), control: at,
		}
		at += controlArgs + 8*t.ArgMax
		lt.MaxKeys = lt.MaxEntries
		switch t.Kind {
		case program.LPM:
			lt.Trie, lt.KeySize = true, 4+8*l.trieWords(t)
		case program.Ternary, program.Range:
			lt.KeySize += 8
			lt.MaskSize, lt.MaxMasks = maskWords+8*t.Words, min(maxMasks, lt.MaxEntries)
			if t.Kind == program.Range {
				lt.MaxMasks, lt.MaxKeys = maxMasks, min(64*lt.MaxEntries, maxRanged)
			}
		}
		l.tables[i] = lt
	}
	l.out.ControlSize = at
	l.shareMasks()
	l.profileLayout()
}

// shareMasks bounds the number of masks of all tables.
func (l *lowering) shareMasks() {
	for most := l.cfg.Masks; ; most /= 2 {
		sum := 0
		for _, lt := range l.tables {
			lt.MaxMasks = min(lt.MaxMasks, most)
			sum += lt.MaxMasks
		}
		if sum <= allMasks || most == 1 {
			return
		}
	}
}

func (l *lowering) trieWords(t *program.Table) int {
	n := 0
	for i := range t.Key {
		n += int(t.Key[i].Words)
	}
	return n
}

// lowerTable compiles the application of a table; the code of each action is inlined.
func (l *lowering) lowerTable(id int, prefix, end string) {
	t := &l.p.Tables[id]
	where := l.what
	defer func() { l.what = where }()
	l.what = fmt.Sprintf("table %q", t.Info.Name)
	goOn := func(pc int32) { l.emitJump(fmt.Sprintf("%s%d", prefix, pc)) }
	if why := whyNotInKernel(t); why != "" {
		l.passToInterpreter(why)
		return
	}
	if onlyDefault(t) {
		if t.Default < 0 {
			goOn(t.MissPC)
			return
		}
		for i, v := range t.DefaultArgs {
			l.loadImmediate(asm.R0, v)
			l.storeScratch((int(l.p.Args)+i)*8, asm.R0)
		}
		l.runAction(t, t.Default, end, func() { goOn(t.Actions[t.Default].Miss) })
		return
	}
	lt := l.tables[id]
	if lt.control+controlArgs+8*t.ArgMax > maxLowered {
		l.passToInterpreter("a control state that is too large")
		return
	}
	l.emit(
		asm.LoadMem(asm.R0, regControl, int16(lt.control+controlPassUp), asm.DWord),
		asm.JNE.Imm(asm.R0, 0, l.interpreterLabel("entries that the kernel does not take")),
	)
	l.putImm(l.act, 0)
	if lt.Keyed {
		l.lowerLookup(t, lt)
	}
	run, found, miss := l.newLabel(), l.newLabel(), l.newLabel()
	l.putImm(l.hit, 1)
	l.loadScratch(asm.R0, l.act)
	l.emit(asm.JNE.Imm(asm.R0, 0, found))
	l.placeLabel(miss) // the default
	l.putImm(l.hit, 0)
	if lt.Counted { // behind those of the entries
		l.putImm(l.missJournal(t, lt), int32(lt.MaxEntries)+1)
	}
	l.emit(asm.LoadMem(asm.R0, regControl, int16(lt.control+controlDefault), asm.DWord))
	l.storeScratch(l.act, asm.R0)
	for i := range t.ArgMax {
		l.emit(asm.LoadMem(asm.R1, regControl, int16(lt.control+controlArgs+8*i), asm.DWord))
		l.storeScratch((int(l.p.Args)+i)*8, asm.R1)
	}
	l.emitJump(run)
	l.placeLabel(found)
	if t.Info.Profile >= 0 {
		l.lowerActionProfile(t, miss)
	}
	l.placeLabel(run)
	l.loadScratch(asm.R0, l.act)
	var acts []string
	for k := range t.Actions {
		acts = append(acts, l.newLabel())
		l.emit(asm.JEq.Imm(asm.R0, int32(k+1), acts[k]))
	}
	l.emit(asm.JEq.Imm(asm.R0, verdictUp, l.interpreterLabel("a configured meter, or a default action of an action profile")))
	goOn(t.MissPC)
	for k := range t.Actions {
		a := &t.Actions[k]
		l.placeLabel(acts[k])
		l.runAction(t, k, end, func() {
			if a.Hit != a.Miss {
				l.loadScratch(asm.R0, l.hit)
				l.emit(asm.JNE.Imm(asm.R0, 0, fmt.Sprintf("%s%d", prefix, a.Hit)))
			}
			goOn(a.Miss)
		})
	}
}

func (l *lowering) runAction(t *program.Table, k int, end string, then func()) {
	where := l.what
	l.what = fmt.Sprintf("action %q", t.Info.Actions[k].Name)
	l.lowerSpan(t.Actions[k].PC, l.newLabel()+"_", end, then)
	l.what = where
}

// lowerLookup leaves the action's index plus one in act, 0 after a miss, and its arguments.
func (l *lowering) lowerLookup(t *program.Table, lt *loweredTable) {
	if t.Kind == program.LPM {
		l.trieKey(t)
		l.emitLookup(lt, l.key+4)
		l.keepBetterEntry(t, lt)
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
			l.loadScratch(asm.R0, l.key+8*w)
			l.maskRegister(asm.R0, m)
			l.storeScratch(l.key+8*w, asm.R0)
		}
	}
	if t.Kind == program.Exact {
		l.emitLookup(lt, l.key)
		l.keepBetterEntry(t, lt)
		return
	}
	l.tryMasks(t, lt)
}

// tryMasks looks the key up under each mask, until no later one has an entry of a larger rank.
func (l *lowering) tryMasks(t *program.Table, lt *loweredTable) {
	next, done := l.newLabel(), l.newLabel()
	l.putImm(l.priority, 0)
	l.emit(asm.Mov.Imm(regTmp, 0))
	l.placeLabel(next)
	l.emit(
		asm.LoadMem(asm.R0, regControl, int16(lt.control+controlMasks), asm.DWord),
		asm.JGE.Reg(regTmp, asm.R0, done),
		asm.LoadMem(asm.R0, regControl, int16(lt.control+controlFirst), asm.DWord),
		asm.Add.Reg(asm.R0, regTmp),
		asm.StoreMem(asm.R10, -4, asm.R0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, 0).WithReference(fmt.Sprintf("m%d", lt.ID)),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, done),
	)
	l.loadScratch(asm.R2, l.priority)
	l.emit(asm.LoadMem(asm.R1, asm.R0, maskOr, asm.DWord), asm.Or.Reg(asm.R2, asm.R1))
	l.storeScratch(l.priority, asm.R2)
	l.emit(asm.LoadMem(asm.R1, asm.R0, maskRank, asm.DWord), asm.JLE.Reg(asm.R1, asm.R2, done))
	l.emit(asm.LoadMem(asm.R1, asm.R0, maskNumber, asm.DWord))
	l.storeScratch(l.key2, asm.R1)
	for w := range t.Words {
		l.loadScratch(asm.R1, l.key+8*w)
		l.emit(asm.LoadMem(asm.R2, asm.R0, int16(maskWords+8*w), asm.DWord), asm.And.Reg(asm.R1, asm.R2))
		l.storeScratch(l.key2+8*(w+1), asm.R1)
	}
	l.emitLookup(lt, l.key2)
	l.keepBetterEntry(t, lt)
	l.emit(asm.Add.Imm(regTmp, 1), asm.JLT.Imm(regTmp, int32(lt.MaxMasks), next))
	l.placeLabel(done)
}

// keyWord brings a word of a key field into R0, 0 when its header is not valid.
func (l *lowering) keyWord(k *program.KeyPiece, w int) {
	l.loadSlot(asm.R0, k.Slot+uint32(w))
	if k.Guard != program.SlotOne {
		ok := l.newLabel()
		l.loadSlot(asm.R1, k.Guard)
		l.emit(asm.JNE.Imm(asm.R1, 0, ok), asm.Mov.Imm(asm.R0, 0))
		l.placeLabel(ok)
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
			l.storeScratch(at, asm.R0)
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
		l.storeScratch(at, asm.R0)
		at += 8
	}
	l.emit(asm.StoreImm(regScratch, int16(l.key+4), int64(bits+k.Width), asm.Word))
}

func (l *lowering) staticMask(t *program.Table, k *program.KeyPiece, w int) {
	if t.KeyMask != nil {
		l.maskRegister(asm.R0, t.KeyMask[int(k.Word)+w]>>k.Shift)
	}
}

func (l *lowering) emitLookup(lt *loweredTable, key int) {
	l.emit(
		asm.Mov.Reg(asm.R2, regScratch),
		asm.Add.Imm(asm.R2, int32(key)),
		asm.LoadMapPtr(asm.R1, 0).WithReference(fmt.Sprintf("t%d", lt.ID)),
		asm.FnMapLookupElem.Call(),
	)
}

// keepBetterEntry emits code that keeps the entry just found if it has a higher priority than the best one so far.
func (l *lowering) keepBetterEntry(t *program.Table, lt *loweredTable) {
	none := l.newLabel()
	l.emit(asm.JEq.Imm(asm.R0, 0, none))
	if lt.MaxMasks > 0 {
		l.emit(asm.LoadMem(asm.R1, asm.R0, 8, asm.DWord))
		l.loadScratch(asm.R2, l.priority)
		l.emit(asm.JLE.Reg(asm.R1, asm.R2, none))
		l.storeScratch(l.priority, asm.R1)
	}
	l.emit(asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord))
	l.storeScratch(l.act, asm.R1)
	if t.MeterTo.Field != nil { // an entry with a configured meter goes up: the others' packets are green
		l.putImm(int(t.MeterTo.Slot)*8, 0)
	}
	if lt.Counted {
		l.emit(asm.LoadMem(asm.R1, asm.R0, 16, asm.DWord), asm.Add.Imm(asm.R1, 1))
		l.storeScratch(l.journalOf(lt), asm.R1)
	}
	for i := range t.ArgMax {
		l.emit(asm.LoadMem(asm.R1, asm.R0, int16(24+8*i), asm.DWord))
		l.storeScratch((int(l.p.Args)+i)*8, asm.R1)
	}
	l.placeLabel(none)
}

// missJournal is where the default entry to count is noted: in a table with a profile beside the entry whose group is
// empty.
func (l *lowering) missJournal(t *program.Table, lt *loweredTable) int {
	if t.Info.Profile < 0 {
		return l.journalOf(lt)
	}
	j := journalSite{at: l.takeScratch(8), kind: fmt.Sprintf("d%d", lt.ID)}
	l.journal = append(l.journal, j)
	return j.at
}

// journalOf is where the entry to count is noted; a table is applied once.
func (l *lowering) journalOf(lt *loweredTable) int {
	name := fmt.Sprintf("d%d", lt.ID)
	for _, j := range l.journal {
		if j.kind == name {
			return j.at
		}
	}
	j := journalSite{at: l.takeScratch(8), kind: name}
	l.journal = append(l.journal, j)
	return j.at
}
