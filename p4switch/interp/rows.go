package interp

import (
	"iter"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Row is an entry of a table in packed form, for code that looks the table up
// elsewhere than here. Its slices are the switch's: they are to be read only.
type Row struct {
	Group     int // index into [Switch.Masks]
	PrefixLen int // of an LPM table's entry
	Place     int // among the table's entries, as [Counting] has it
	Priority  int32
	Key, Args []uint64 // the masked key; the arguments of the action
	Kind      TargetKind
	Metered   bool  // its direct meter is configured: not every packet is green
	Target    int32 // the action, as an index into [program.TableInfo.Actions], or member or group
}

// Rows yields a table's entries by group. Of entries with the same key and mask
// it yields the one of the highest priority.
func (s *Switch) Rows(id program.TableID) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		ts := &s.tables[id]
		t := ts.t
		for gi, g := range ts.groups {
			for _, sl := range g.tab {
				if sl.idx == 0 {
					continue
				}
				i := int(sl.idx - 1)
				e := &ts.entries[i]
				if !yield(Row{
					Group: gi, PrefixLen: g.plen, Place: i, Priority: e.prio, Key: ts.keys[i*t.Words : (i+1)*t.Words],
					Args: ts.args[i*t.ArgMax : (i+1)*t.ArgMax], Kind: e.kind, Target: e.target, Metered: ts.meters[int32(i)] != nil,
				}) {
					return
				}
			}
		}
	}
}

// Masks returns the masks of a table's entries in the order in which they are
// tried.
func (s *Switch) Masks(id program.TableID) [][]uint64 {
	groups := s.tables[id].groups
	out := make([][]uint64, len(groups))
	for i, g := range groups {
		out[i] = g.mask
	}
	return out
}

// DefaultRow returns what a table does on a miss; set is false when it does
// nothing.
func (s *Switch) DefaultRow(id program.TableID) (r Row, set bool) {
	d := &s.tables[id].def
	return Row{Kind: d.kind, Target: d.target, Args: d.args, Metered: s.tables[id].meters[-1] != nil}, d.set
}
