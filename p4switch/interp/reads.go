package interp

import (
	"iter"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Find returns the handle of the table entry with exactly this match and priority; false if there is none.
func (s *Switch) Find(id program.TableID, match []program.FieldMatch, priority int32) (Handle, bool) {
	ts, err := s.tableByID(id)
	if err != nil {
		return 0, false
	}
	m, err := ts.parseMatch(match, priority, false)
	if err != nil {
		return 0, false
	}
	i := ts.chainFind(&m)
	if i < 0 {
		return 0, false
	}
	return ts.handle(i), true
}

// Entry returns a table entry by its handle.
func (s *Switch) Entry(id program.TableID, h Handle) (Entry, error) {
	ts, err := s.tableByID(id)
	if err != nil {
		return Entry{}, err
	}
	i, err := ts.entryIndex(h)
	if err != nil {
		return Entry{}, err
	}
	return s.readEntry(ts, i), nil
}

// Target returns the action, member or group that a table entry executes.
func (s *Switch) Target(id program.TableID, h Handle) (Target, error) {
	ts, err := s.tableByID(id)
	if err != nil {
		return Target{}, err
	}
	i, err := ts.entryIndex(h)
	if err != nil {
		return Target{}, err
	}
	e := &ts.entries[i]
	return s.targetOf(ts.t, e.kind, e.target, ts.args[int(i)*ts.t.ArgMax:]), nil
}

func (s *Switch) readEntry(ts *tableState, i int32) Entry {
	e := &ts.entries[i]
	return Entry{
		Match: ts.matchOf(i), Priority: e.priority, IdleTimeoutNs: e.timeout, Const: e.konst,
		Target: s.targetOf(ts.t, e.kind, e.target, ts.args[int(i)*ts.t.ArgMax:]),
	}
}

// targetOf returns a target in the control plane's form.
func (s *Switch) targetOf(t *program.Table, kind TargetKind, target int32, args []uint64) Target {
	switch kind {
	case ByMember:
		return Target{Kind: kind, Member: s.profiles[t.Info.Profile].members.at[target].id}
	case ByGroup:
		return Target{Kind: kind, Group: s.profiles[t.Info.Profile].groups.at[target].id}
	}
	return Target{Call: s.actionCall(t.Info.Actions[target].ID, args)}
}

func (s *Switch) actionCall(id program.ActionID, args []uint64) ActionCall {
	a := &s.p.Actions[id]
	c := ActionCall{Action: id}
	for _, p := range a.Params {
		c.Args = append(c.Args, bytesOfWords(args[:p.Words], p.Width))
		args = args[p.Words:]
	}
	return c
}

// Entries yields all entries, constant ones too. The table must not change
// meanwhile.
func (s *Switch) Entries(id program.TableID) iter.Seq2[Handle, Entry] {
	return func(yield func(Handle, Entry) bool) {
		ts, err := s.tableByID(id)
		if err != nil {
			return
		}
		for i := range ts.entries {
			if ts.entries[i].live && !yield(ts.handle(int32(i)), s.readEntry(ts, int32(i))) {
				return
			}
		}
	}
}

// Len returns the number of entries of a table.
func (s *Switch) Len(id program.TableID) int {
	ts, err := s.tableByID(id)
	if err != nil {
		return 0
	}
	return ts.n
}
