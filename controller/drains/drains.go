// Package drains stores which links operators have taken out of use, so that several controllers agree, although
// operators reach them at different times and they may restart at any time.
//
// A [Set] holds the latest mark of each link. Marks are ordered by version and, for two operators at the same time,
// by the controller that took them. Merging is commutative, associative and idempotent, so controllers need only
// send each other their sets at intervals. A Set has no goroutine, socket or clock, and is not safe for concurrent
// use.
package drains

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Mark is a record that a link was drained (taken out of use), or put back into use.
type Mark struct {
	Link    fabric.LinkID
	Drained bool
	Version uint64
	By      string // the controller that an operator asked
	Forced  bool   // the operator insisted, even if hosts lose their last path
}

// newer reports whether m overrides o, a mark of the same link.
func (m Mark) newer(o Mark) bool {
	by := cmp.Compare(m.By, o.By)
	return m.Version > o.Version || m.Version == o.Version && (by > 0 || by == 0 && m.rank() > o.rank())
}

// rank orders marks that only an error can make: of one version, by one controller.
func (m Mark) rank() int {
	r := 0
	if m.Drained {
		r += 2
	}
	if m.Forced {
		r++
	}
	return r
}

// Set is the records of which links are drained, which controllers exchange. The zero value has none.
type Set struct{ marks map[fabric.LinkID]Mark }

// Clone returns a copy.
func (s *Set) Clone() Set { return Set{maps.Clone(s.marks)} }

// Put records that a link is drained or not. It returns false, and changes nothing, if the record says so already.
func (s *Set) Put(id fabric.LinkID, drained, forced bool, by string) bool {
	m, ok := s.marks[id]
	if m.Drained == drained && (ok || !drained) {
		return false
	}
	s.put(Mark{Link: id, Drained: drained, Version: m.Version + 1, By: by, Forced: drained && forced})
	return true
}

func (s *Set) put(m Mark) {
	if s.marks == nil {
		s.marks = map[fabric.LinkID]Mark{}
	}
	s.marks[m.Link] = m
}

// Drained returns the records of drained links, by version: in the same order at every controller.
func (s *Set) Drained() []Mark {
	out := slices.DeleteFunc(s.Marks(), func(m Mark) bool { return !m.Drained })
	slices.SortFunc(out, func(a, b Mark) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.By, b.By), cmp.Compare(a.Link, b.Link))
	})
	return out
}

// Merge adds newer records from another controller, and returns those.
func (s *Set) Merge(marks []Mark) (added []Mark) {
	for _, m := range marks {
		if have, ok := s.marks[m.Link]; !ok || m.newer(have) {
			s.put(m)
			added = append(added, m)
		}
	}
	return added
}

// Marks returns all records, by link.
func (s *Set) Marks() []Mark {
	out := make([]Mark, 0, len(s.marks))
	for _, m := range s.marks {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Mark) int { return cmp.Compare(a.Link, b.Link) })
	return out
}
