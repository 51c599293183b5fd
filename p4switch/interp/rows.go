package interp

import (
	"iter"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Row is a table entry in the packed form of lookups, for code that does lookups elsewhere, such as in the kernel. Its
// slices belong to the switch and are read-only.
type Row struct {
	Mask, Key []uint64 // one word per word of the table's packed key; masked
	Ranges    []uint64 // lowest and highest value of each range field, in the order of [program.Table].Ranges
	PrefixLen int      // prefix length, of an LPM table's entry
	Priority  int32
	Age       uint32   // among matching entries with the same priority and mask the smallest wins
	Args      []uint64 // the arguments of the action
	Kind      TargetKind
	Metered   bool  // its direct meter has rates, so that not every packet is green
	Target    int32 // the action, as an index into [program.TableInfo.Actions], or member or group
}

// DefaultPlace is the place that stands for a table's default entry.
const DefaultPlace = -1

// WatchTables makes the switch call f for each changed table entry: gone says that it is about to be deleted. It is
// also called now for all entries. place is the entry's index for [Switch.Row], or [DefaultPlace]. There is one
// watcher; nil removes it.
func (s *Switch) WatchTables(f func(id program.TableID, place int, gone bool)) {
	s.watch = f
	if f == nil {
		return
	}
	for id := range s.tables {
		f(program.TableID(id), DefaultPlace, false)
		for i := range s.tables[id].entries {
			if s.tables[id].entries[i].live {
				f(program.TableID(id), i, false)
			}
		}
	}
}

func (s *Switch) noteChanged(id program.TableID, place int32) {
	if s.watch != nil {
		s.watch(id, int(place), false)
	}
}

// indexEntry makes an entry, whose key and group are set, findable.
func (s *Switch) indexEntry(id program.TableID, i int32) {
	s.tables[id].addToGroup(i)
	s.noteChanged(id, i)
}

// unindexEntry takes an entry out of its group; its place stays taken.
func (s *Switch) unindexEntry(id program.TableID, i int32) {
	if s.watch != nil {
		s.watch(id, int(i), true)
	}
	s.tables[id].removeFromGroup(i)
}

// Row returns the entry at a place of a table. It is valid until the table changes.
func (s *Switch) Row(id program.TableID, place int) Row {
	ts := &s.tables[id]
	t, e := ts.t, &ts.entries[place]
	return Row{
		Mask: e.group.mask, Key: ts.keys[place*t.Words : (place+1)*t.Words], Ranges: ts.entryRanges(int32(place)), PrefixLen: e.group.plen,
		Priority: e.priority, Age: e.age, Args: ts.args[place*t.ArgMax : (place+1)*t.ArgMax],
		Kind: e.kind, Target: e.target, Metered: ts.meters[int32(place)] != nil,
	}
}

// Masks yields the masks of a table's entries in the order of lookup, each with the highest priority of its entries. If
// matching entries of different masks have the same priority, that of the earlier mask wins.
func (s *Switch) Masks(id program.TableID) iter.Seq2[[]uint64, int32] {
	return func(yield func([]uint64, int32) bool) {
		for _, g := range s.tables[id].groups {
			if !yield(g.mask, g.prio) {
				return
			}
		}
	}
}

// DefaultRow returns a table's default action; set is false if it has none.
func (s *Switch) DefaultRow(id program.TableID) (r Row, set bool) {
	d := &s.tables[id].def
	return Row{Kind: d.kind, Target: d.target, Args: d.args, Metered: s.tables[id].meters[-1] != nil}, d.set
}

// WatchProfiles makes the switch call f for each changed member or group of action profiles, and now for all. place is
// its index for [Switch.MemberRow] or [Switch.GroupRow], which are valid once the change is complete. There is one
// watcher; nil removes it.
func (s *Switch) WatchProfiles(f func(id program.ProfileID, group bool, place int)) {
	s.watchProfile = f
	for id := range s.profiles {
		for _, i := range s.profiles[id].members.index {
			s.profileChanged(program.ProfileID(id), false, i)
		}
		for _, i := range s.profiles[id].groups.index {
			s.profileChanged(program.ProfileID(id), true, i)
		}
	}
}

func (s *Switch) profileChanged(id program.ProfileID, group bool, place int32) {
	if s.watchProfile != nil {
		s.watchProfile(id, group, int(place))
	}
}

// MemberRow returns the action and arguments of the action profile's member at a place; ok is false if there is none.
func (s *Switch) MemberRow(id program.ProfileID, place int) (act program.ActionID, args []uint64, ok bool) {
	p := &s.profiles[id].members
	if place >= len(p.at) || p.index[p.at[place].id] != int32(place) {
		return 0, nil, false
	}
	m := &p.at[place]
	_, ok = p.index[m.id]
	return m.act, m.args, ok
}

// GroupRow returns the places of the members of the action profile's group at a place; ok is false if there is none.
func (s *Switch) GroupRow(id program.ProfileID, place int) (members []int32, ok bool) {
	p := &s.profiles[id].groups
	if place >= len(p.at) || p.index[p.at[place].id] != int32(place) {
		return nil, false
	}
	_, ok = p.index[p.at[place].id]
	return p.at[place].live, ok
}
