package interp

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// putUndoable sets a map entry so that a rollback undoes it; a nil pointer removes the entry.
func putUndoable[V any](s *Switch, m map[uint32]*V, k uint32, v *V) {
	old := m[k]
	set := func(v *V) {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	set(v)
	s.onRollback(func() { set(old) })
}

// SetCloneSession makes or replaces a clone (mirror) session. Ids are 0 to
// 32767, as in simple_switch.
func (s *Switch) SetCloneSession(id uint32, c CloneSession) error {
	if id >= cloneFlag {
		return fmt.Errorf("interp: clone session %d: %w: ids go up to %d", id, ErrInvalid, cloneFlag-1)
	}
	if c.Truncate < 0 {
		return fmt.Errorf("interp: clone session %d: %w: truncation to %d bytes", id, ErrInvalid, c.Truncate)
	}
	c.Replicas = slices.Clone(c.Replicas)
	if s.clones == nil {
		s.clones = map[uint32]*CloneSession{}
	}
	putUndoable(s, s.clones, id, &c)
	return nil
}

// DeleteCloneSession removes a clone session.
func (s *Switch) DeleteCloneSession(id uint32) error {
	if s.clones[id] == nil {
		return fmt.Errorf("interp: clone session %d: %w", id, ErrNotFound)
	}
	putUndoable(s, s.clones, id, nil)
	return nil
}

// CloneSession reads a clone session.
func (s *Switch) CloneSession(id uint32) (CloneSession, error) {
	c := s.clones[id]
	if c == nil {
		return CloneSession{}, fmt.Errorf("interp: clone session %d: %w", id, ErrNotFound)
	}
	out := *c
	out.Replicas = slices.Clone(c.Replicas)
	return out, nil
}

// CloneSessions yields all clone sessions in the order of their ids.
func (s *Switch) CloneSessions() iter.Seq2[uint32, CloneSession] {
	return func(yield func(uint32, CloneSession) bool) {
		for _, id := range slices.Sorted(maps.Keys(s.clones)) {
			if !yield(id, *s.clones[id]) {
				return
			}
		}
	}
}

// SetMulticastGroup creates or replaces a multicast group. Id 0 is refused: to a program it means no multicast.
func (s *Switch) SetMulticastGroup(id uint32, replicas []Replica) error {
	if id == 0 {
		return fmt.Errorf("interp: multicast group 0: %w: a program's mcast_grp of 0 means no multicast", ErrInvalid)
	}
	r := slices.Clone(replicas)
	if s.groups == nil {
		s.groups = map[uint32]*[]Replica{}
	}
	putUndoable(s, s.groups, id, &r)
	return nil
}

// DeleteMulticastGroup removes a multicast group.
func (s *Switch) DeleteMulticastGroup(id uint32) error {
	if s.groups[id] == nil {
		return fmt.Errorf("interp: multicast group %d: %w", id, ErrNotFound)
	}
	putUndoable(s, s.groups, id, nil)
	return nil
}

// MulticastGroup reads a multicast group.
func (s *Switch) MulticastGroup(id uint32) ([]Replica, error) {
	r := s.groups[id]
	if r == nil {
		return nil, fmt.Errorf("interp: multicast group %d: %w", id, ErrNotFound)
	}
	return slices.Clone(*r), nil
}

// MulticastGroups yields all multicast groups in the order of their ids.
func (s *Switch) MulticastGroups() iter.Seq2[uint32, []Replica] {
	return func(yield func(uint32, []Replica) bool) {
		for _, id := range slices.Sorted(maps.Keys(s.groups)) {
			if !yield(id, slices.Clone(*s.groups[id])) {
				return
			}
		}
	}
}
