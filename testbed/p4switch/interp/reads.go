package interp

import (
	"iter"
)

// Find returns the entry with exactly this match and priority.
func (s *Switch) Find(id TableID, match []FieldMatch, priority int32) (Handle, bool) {
	ts, err := s.table(id)
	if err != nil {
		return 0, false
	}
	m, err := ts.parse(match, priority, false)
	if err != nil {
		return 0, false
	}
	i := ts.chainFind(&m)
	if i < 0 {
		return 0, false
	}
	return ts.handle(i), true
}

// Entry reads an entry.
func (s *Switch) Entry(id TableID, h Handle) (Entry, error) {
	ts, err := s.table(id)
	if err != nil {
		return Entry{}, err
	}
	i, err := ts.entry(h)
	if err != nil {
		return Entry{}, err
	}
	return s.read(ts, i), nil
}

func (s *Switch) read(ts *tableState, i int32) Entry {
	e := &ts.entries[i]
	return Entry{
		Match: ts.match(i), Priority: e.prio, IdleTimeoutNs: e.timeout, Const: e.konst,
		Target: s.target(ts.t, e.kind, e.target, ts.args[int(i)*ts.t.argMax:]),
	}
}

// target returns a target in the control plane's form.
func (s *Switch) target(t *table, kind TargetKind, target int32, args []uint64) Target {
	switch kind {
	case ByMember:
		return Target{Kind: kind, Member: s.profiles[t.info.Profile].members[target].id}
	case ByGroup:
		return Target{Kind: kind, Group: s.profiles[t.info.Profile].groups[target].id}
	}
	return Target{Call: s.actionCall(t.info.Actions[target].ID, args)}
}

func (s *Switch) actionCall(id ActionID, args []uint64) ActionCall {
	a := &s.p.actions[id]
	c := ActionCall{Action: id}
	for _, p := range a.params {
		c.Args = append(c.Args, bytesOfWords(args[:p.words], p.width))
		args = args[p.words:]
	}
	return c
}

// Entries yields all entries, constant ones too. The table must not change
// meanwhile.
func (s *Switch) Entries(id TableID) iter.Seq2[Handle, Entry] {
	return func(yield func(Handle, Entry) bool) {
		ts, err := s.table(id)
		if err != nil {
			return
		}
		for i := range ts.entries {
			if ts.entries[i].live && !yield(ts.handle(int32(i)), s.read(ts, int32(i))) {
				return
			}
		}
	}
}

// Len returns the number of entries of a table.
func (s *Switch) Len(id TableID) int {
	ts, err := s.table(id)
	if err != nil {
		return 0
	}
	return ts.n
}
