package interp

import (
	"fmt"
	"slices"
	"sort"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// constantTables returns the tables with constant entries, filled as in the program, by TableID; nil for other tables.
// All switches copy them.
func constantTables(p *program.Program) []*tableState {
	return p.Shared(func() any {
		out := make([]*tableState, len(p.Tables))
		for i := range p.Tables {
			if t := &p.Tables[i]; t.Info.ConstEntries {
				out[i] = &tableState{}
				out[i].buildIndex(t)
			}
		}
		return out
	}).([]*tableState)
}

// init makes the state of table t as the program has it. Constant entries are
// the program's own, shared by all its switches: nothing of them changes but
// counts and times.
func (ts *tableState) init(t *program.Table, template *tableState) {
	if template == nil {
		ts.buildIndex(t)
		return
	}
	*ts = *template
	ts.counts = slices.Clone(ts.counts)
	if t.Timeout {
		ts.entries = slices.Clone(ts.entries)
	}
}

func (ts *tableState) buildIndex(t *program.Table) {
	ts.t = t
	for _, f := range t.Ranges {
		ts.rangeWords += 2 * int(t.Key[f].Words)
	}
	if t.Default >= 0 {
		ts.def = defaultEntry{set: true, kind: ByAction, target: int32(t.Default), args: t.DefaultArgs}
	}
	for i := range t.Consts {
		c := &t.Consts[i]
		k, err := ts.parseMatch(c.Match, c.Priority, false)
		if err != nil {
			continue // Load has checked
		}
		idx := ts.newEntry()
		e := &ts.entries[idx]
		e.kind, e.target, e.priority, e.konst = ByAction, int32(t.IndexOf[c.Action]), c.Priority, t.Info.ConstEntries
		copy(ts.args[int(idx)*t.ArgMax:], c.Args)
		ts.setKey(idx, k)
		ts.addToGroup(idx)
	}
}

// tableByID returns the table with an id, or [ErrNotFound].
func (s *Switch) tableByID(id program.TableID) (*tableState, error) {
	if id < 0 || int(id) >= len(s.tables) {
		return nil, fmt.Errorf("interp: table %d: %w", id, ErrNotFound)
	}
	return &s.tables[id], nil
}

// groupFor finds the group of a mask, making it when create is set.
func (ts *tableState) groupFor(mask []uint64, plen int, create bool) *maskGroup {
	if ts.t.Kind == program.Exact && len(ts.groups) > 0 {
		return ts.groups[0]
	}
	for _, g := range ts.groups {
		if slices.Equal(g.mask, mask) {
			return g
		}
	}
	if !create {
		return nil
	}
	g := &maskGroup{mask: slices.Clone(mask), plen: plen, prio: -1 << 31}
	at := len(ts.groups)
	if ts.t.Kind == program.LPM {
		at = sort.Search(len(ts.groups), func(i int) bool { return ts.groups[i].plen < plen })
	}
	ts.groups = slices.Insert(ts.groups, at, g)
	return g
}

// chainFind walks the entries of equal key for one of the same priority and ranges.
func (ts *tableState) chainFind(m *parsedMatch) int32 {
	g := ts.groupFor(m.mask, m.plen, false)
	if g == nil || len(g.slots) == 0 {
		return -1
	}
	at, ok := g.find(ts, hashOf(m.key), m.key)
	if !ok {
		return -1
	}
	for i := g.slots[at].idx - 1; i >= 0; i = ts.entries[i].next {
		if (ts.t.Kind <= program.LPM || ts.entries[i].priority == m.prio) && slices.Equal(ts.entryRanges(i), m.ranges) {
			return i
		}
	}
	return -1
}

func (ts *tableState) entryRanges(i int32) []uint64 {
	return ts.ranges[int(i)*ts.rangeWords : (int(i)+1)*ts.rangeWords]
}

// newEntry allocates an index for an entry.
func (ts *tableState) newEntry() int32 {
	if k := len(ts.free) - 1; k >= 0 {
		i := ts.free[k]
		ts.free = ts.free[:k]
		gen := ts.entries[i].generation + 1
		ts.entries[i] = entry{generation: gen}
		if ts.t.Info.HasDirectCounter {
			clear(ts.counts[2*i : 2*i+2])
		}
		clear(ts.args[int(i)*ts.t.ArgMax : (int(i)+1)*ts.t.ArgMax])
		return i
	}
	i := int32(len(ts.entries))
	ts.entries = append(ts.entries, entry{generation: 1})
	ts.keys = appendZeros(ts.keys, ts.t.Words)
	ts.args = appendZeros(ts.args, ts.t.ArgMax)
	ts.ranges = appendZeros(ts.ranges, ts.rangeWords)
	if ts.t.Info.HasDirectCounter {
		ts.counts = appendZeros(ts.counts, 2)
	}
	return i
}

// appendZeros appends n zeros.
func appendZeros(s []uint64, n int) []uint64 {
	s = slices.Grow(s, n)
	s = s[:len(s)+n]
	clear(s[len(s)-n:])
	return s
}

// setKey sets the match of entry i, which relink then makes findable.
func (ts *tableState) setKey(i int32, m parsedMatch) {
	copy(ts.keys[int(i)*ts.t.Words:], m.key)
	copy(ts.entryRanges(i), m.ranges)
	e := &ts.entries[i]
	e.group = ts.groupFor(m.mask, m.plen, true)
}

// addToGroup inserts entry i, whose key and mask are set, into the hash table of its mask.
func (ts *tableState) addToGroup(i int32) {
	e := &ts.entries[i]
	g := e.group
	if len(g.slots) == 0 || !slices.Contains(ts.groups, g) {
		g = ts.groupFor(g.mask, g.plen, true)
		e.group = g
	}
	w := ts.t.Words
	key := ts.keys[int(i)*w : int(i)*w+w]
	g.grow()
	at, ok := g.find(ts, hashOf(key), key)
	e.next = -1
	if !ok {
		g.slots[at] = hashSlot{hashOf(key), i + 1}
		g.used++
	} else {
		// Into the chain, before the first of lower priority.
		prev, cur := int32(-1), g.slots[at].idx-1
		for cur >= 0 && ts.entries[cur].priority >= e.priority {
			prev, cur = cur, ts.entries[cur].next
		}
		e.next = cur
		if prev < 0 {
			g.slots[at].idx = i + 1
		} else {
			ts.entries[prev].next = i
		}
	}
	e.live = true
	e.age = ts.linked
	ts.linked++
	ts.n++
	if ts.t.Kind > program.LPM && e.priority > g.prio {
		g.prio = e.priority
		ts.sortGroup(g)
	}
}

// sortGroup moves g, whose priority rose, forward to its place.
func (ts *tableState) sortGroup(g *maskGroup) {
	i := slices.Index(ts.groups, g)
	k := i
	for k > 0 && ts.groups[k-1].prio < g.prio {
		k--
	}
	copy(ts.groups[k+1:i+1], ts.groups[k:i])
	ts.groups[k] = g
}

// removeFromGroup removes entry i from the hash table of its mask; its index stays reserved.
func (ts *tableState) removeFromGroup(i int32) {
	e := &ts.entries[i]
	g := e.group
	w := ts.t.Words
	key := ts.keys[int(i)*w : int(i)*w+w]
	at, ok := g.find(ts, hashOf(key), key)
	if !ok {
		return
	}
	if g.slots[at].idx-1 == i {
		if e.next >= 0 {
			g.slots[at].idx = e.next + 1
		} else {
			g.remove(at)
		}
	} else {
		for k := g.slots[at].idx - 1; k >= 0; k = ts.entries[k].next {
			if ts.entries[k].next == i {
				ts.entries[k].next = e.next
				break
			}
		}
	}
	e.live = false
	ts.n--
	if g.used == 0 && ts.t.Kind != program.Exact {
		ts.groups = slices.Delete(ts.groups, slices.Index(ts.groups, g), slices.Index(ts.groups, g)+1)
	}
}

func (ts *tableState) handle(i int32) Handle {
	return Handle(ts.entries[i].generation)<<32 | Handle(uint32(i))
}

// entryIndex returns the index of the entry with a handle.
func (ts *tableState) entryIndex(h Handle) (int32, error) {
	i, gen := int64(uint32(h)), uint32(h>>32)
	if i >= int64(len(ts.entries)) || ts.entries[i].generation != gen || !ts.entries[i].live {
		return 0, fmt.Errorf("interp: table %q: entry %#x: %w", ts.t.Info.Name, uint64(h), ErrNotFound)
	}
	return int32(i), nil
}

// Insert adds an entry to a table. The error wraps ErrExists (an entry has the same match and priority), ErrFull,
// ErrConst (the program fixes the entries) or ErrInvalid.
func (s *Switch) Insert(id program.TableID, e Entry) (Handle, error) {
	ts, err := s.tableByID(id)
	if err != nil {
		return 0, err
	}
	fail := func(err error) (Handle, error) {
		return 0, fmt.Errorf("interp: table %q: insert: %w", ts.t.Info.Name, err)
	}
	if ts.t.Info.ConstEntries {
		return fail(fmt.Errorf("%w: its entries come with the program", ErrConst))
	}
	m, err := ts.parseMatch(e.Match, e.Priority, true)
	if err != nil {
		return fail(err)
	}
	if i := ts.chainFind(&m); i >= 0 {
		return fail(fmt.Errorf("%w: as entry %#x; modify that", ErrExists, uint64(ts.handle(i))))
	}
	if ts.n >= ts.t.Info.Size {
		return fail(fmt.Errorf("%w: it holds %d entries, its size in the program; delete some or recompile with a larger size", ErrFull, ts.n))
	}
	target, err := s.resolveTarget(ts.t, e.Target)
	if err != nil {
		return fail(err)
	}
	i := ts.newEntry()
	if ts.t.Info.HasDirectCounter {
		p, b, err := s.countedAt(id, i)
		if err != nil {
			ts.free = append(ts.free, i)
			return fail(err)
		}
		ts.counts[2*i], ts.counts[2*i+1] = -p, -b
	}
	n := &ts.entries[i]
	n.kind, n.target, n.priority = e.Target.Kind, target, e.Priority
	n.lastHit, n.timeout = s.now, e.IdleTimeoutNs
	if err := s.putArgs(ts.args[int(i)*ts.t.ArgMax:], ts.t, e.Target); err != nil {
		ts.free = append(ts.free, i)
		return fail(err)
	}
	ts.setKey(i, m)
	s.indexEntry(id, i)
	s.countReferences(ts.t, e.Target.Kind, target, 1)
	if s.inTx {
		s.undo = append(s.undo, func() {
			s.unindexEntry(id, i)
			s.countReferences(ts.t, ts.entries[i].kind, ts.entries[i].target, -1)
			ts.free = append(ts.free, i)
		})
	}
	return ts.handle(i), nil
}

// resolveTarget checks a target and returns its index form.
func (s *Switch) resolveTarget(t *program.Table, g Target) (int32, error) {
	if g.Kind == ByAction {
		i, ok := t.IndexOf[g.Call.Action]
		if !ok {
			return 0, fmt.Errorf("%w: action %d is not one of the table's", ErrInvalid, g.Call.Action)
		}
		a := &t.Info.Actions[i]
		if len(g.Call.Args) != len(a.Params) {
			return 0, fmt.Errorf("%w: action %q takes %d arguments, not %d", ErrInvalid, a.Name, len(a.Params), len(g.Call.Args))
		}
		if t.Info.Profile >= 0 {
			return 0, fmt.Errorf("%w: the table has an action profile: its entries name members or groups", ErrInvalid)
		}
		return int32(i), nil
	}
	if t.Info.Profile < 0 {
		return 0, fmt.Errorf("%w: the table has no action profile: its entries name actions", ErrInvalid)
	}
	ps := &s.profiles[t.Info.Profile]
	if g.Kind == ByMember {
		i, ok := ps.members.index[g.Member]
		if !ok {
			return 0, fmt.Errorf("member %d: %w", g.Member, ErrNotFound)
		}
		if t.Local[ps.members.at[i].act] < 0 {
			return 0, fmt.Errorf("%w: the action of member %d is not one of the table's", ErrInvalid, g.Member)
		}
		return i, nil
	}
	i, ok := ps.groups.index[g.Group]
	if !ok {
		return 0, fmt.Errorf("group %d: %w", g.Group, ErrNotFound)
	}
	return i, nil
}

// putArgs writes the arguments of a ByAction target into dst.
func (s *Switch) putArgs(dst []uint64, t *program.Table, g Target) error {
	if g.Kind != ByAction {
		return nil
	}
	return s.callArgs(dst, g.Call)
}

func (s *Switch) callArgs(dst []uint64, c ActionCall) error {
	a := &s.p.Actions[c.Action]
	for i := range a.Params {
		w := a.Params[i].Words
		if err := putValue(dst[:w], c.Args[i], a.Params[i].Width); err != nil {
			return fmt.Errorf("action %q: argument %q: %w", a.Info.Name, a.Info.Params[i].Name, err)
		}
		dst = dst[w:]
	}
	return nil
}

// countReferences adds by to the number of references to a member or group.
func (s *Switch) countReferences(t *program.Table, kind TargetKind, target int32, by int) {
	switch kind {
	case ByMember:
		s.profiles[t.Info.Profile].members.at[target].refs += by
	case ByGroup:
		s.profiles[t.Info.Profile].groups.at[target].refs += by
	}
}

// Modify changes the action of a table entry. Its counters keep their values.
func (s *Switch) Modify(id program.TableID, h Handle, g Target) error {
	ts, i, err := s.mutableEntry(id, h, "modify")
	if err != nil {
		return err
	}
	target, err := s.resolveTarget(ts.t, g)
	if err != nil {
		return fmt.Errorf("interp: table %q: modify: %w", ts.t.Info.Name, err)
	}
	args := make([]uint64, ts.t.ArgMax)
	if err := s.putArgs(args, ts.t, g); err != nil {
		return fmt.Errorf("interp: table %q: modify: %w", ts.t.Info.Name, err)
	}
	e := &ts.entries[i]
	old, oldArgs := *e, slices.Clone(ts.args[int(i)*ts.t.ArgMax:(int(i)+1)*ts.t.ArgMax])
	set := func(kind TargetKind, target int32, args []uint64) {
		e := &ts.entries[i]
		s.countReferences(ts.t, e.kind, e.target, -1)
		e.kind, e.target = kind, target
		copy(ts.args[int(i)*ts.t.ArgMax:], args)
		s.countReferences(ts.t, kind, target, 1)
		s.noteChanged(id, i)
	}
	set(g.Kind, target, args)
	if s.inTx {
		s.undo = append(s.undo, func() { set(old.kind, old.target, oldArgs) })
	}
	return nil
}

// mutableEntry returns the index of an entry that may be changed, or an error.
func (s *Switch) mutableEntry(id program.TableID, h Handle, what string) (*tableState, int32, error) {
	ts, err := s.tableByID(id)
	if err != nil {
		return nil, 0, err
	}
	i, err := ts.entryIndex(h)
	if err != nil {
		return nil, 0, err
	}
	if ts.entries[i].konst {
		return nil, 0, fmt.Errorf("interp: table %q: %s: %w: its entries come with the program", ts.t.Info.Name, what, ErrConst)
	}
	return ts, i, nil
}

// Delete removes a table entry.
func (s *Switch) Delete(id program.TableID, h Handle) error {
	ts, i, err := s.mutableEntry(id, h, "delete")
	if err != nil {
		return err
	}
	s.unindexEntry(id, i)
	s.countReferences(ts.t, ts.entries[i].kind, ts.entries[i].target, -1)
	gone := func() {
		delete(ts.meters, i)
		ts.free = append(ts.free, i)
	}
	if !s.inTx {
		gone()
		return nil
	}
	s.done = append(s.done, gone)
	s.undo = append(s.undo, func() {
		s.indexEntry(id, i)
		s.countReferences(ts.t, ts.entries[i].kind, ts.entries[i].target, 1)
	})
	return nil
}
