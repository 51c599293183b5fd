package interp

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// SetValueSet replaces the members of a parser value set. Each matches on the
// fields of [program.ValueSetInfo.Widths]: Value, with Mask or PrefixLen when those
// are set; Any matches everything.
func (s *Switch) SetValueSet(id program.ValueSetID, members [][]program.FieldMatch) error {
	if id < 0 || int(id) >= len(s.valueSets) {
		return fmt.Errorf("interp: value set %d: %w", id, ErrNotFound)
	}
	info := &s.p.ValueSets[id]
	vals := map[int][]uint64{}
	for u := range s.p.ValueSetUses {
		use := &s.p.ValueSetUses[u]
		if use.Set != int(id) {
			continue
		}
		for _, m := range members {
			kv, err := packMember(use, m)
			if err != nil {
				return fmt.Errorf("interp: value set %q: %w", info.Name, err)
			}
			vals[u] = append(vals[u], kv...)
		}
	}
	old, oldVals := s.valueSets[id], maps.Clone(vals)
	for u := range vals {
		oldVals[u] = s.valueSetKeys[u]
	}
	for u := range s.p.ValueSetUses {
		if s.p.ValueSetUses[u].Set == int(id) {
			oldVals[u] = s.valueSetKeys[u]
			s.valueSetKeys[u] = vals[u]
		}
	}
	s.valueSets[id] = slices.Clone(members)
	s.onRollback(func() {
		s.valueSets[id] = old
		for u, v := range oldVals {
			s.valueSetKeys[u] = v
		}
	})
	return nil
}

// packMember returns a member's value and mask in the packed form of a select key.
func packMember(u *program.ValueSetUse, m []program.FieldMatch) ([]uint64, error) {
	if len(m) != len(u.Key) {
		return nil, fmt.Errorf("%w: a member of %d fields; the set has %d", ErrInvalid, len(m), len(u.Key))
	}
	out := make([]uint64, 2*u.Words)
	for i := range m {
		k, f := &u.Key[i], &m[i]
		v, w := make([]uint64, k.Words), make([]uint64, k.Words)
		prefixMask(w, k.Width, k.Width)
		if err := putValue(v, f.Value, k.Width); err != nil {
			return nil, fmt.Errorf("field %d: %w", i, err)
		}
		switch {
		case f.Any:
			clear(w)
		case f.High != nil:
			return nil, fmt.Errorf("field %d: %w: ranges in value sets; use a mask", i, program.ErrUnsupported)
		case f.Mask != nil:
			if err := putValue(w, f.Mask, k.Width); err != nil {
				return nil, fmt.Errorf("field %d: %w", i, err)
			}
		case f.PrefixLen > 0 && f.PrefixLen <= k.Width:
			prefixMask(w, k.Width, f.PrefixLen)
		}
		for j := range v {
			out[int(k.Word)+j] |= v[j] << k.Shift
			out[u.Words+int(k.Word)+j] |= w[j] << k.Shift
		}
	}
	for j := range u.Words {
		out[u.Words+j] &= u.Mask[j]
		out[j] &= out[u.Words+j]
	}
	return out, nil
}

// inValueSet reports whether a packed select key is in the set of a use.
func (s *Switch) inValueSet(use int, key []uint64) bool {
	w := len(key)
next:
	for vals := s.valueSetKeys[use]; len(vals) > 0; vals = vals[2*w:] {
		for i, x := range key {
			if x&vals[w+i] != vals[i] {
				continue next
			}
		}
		return true
	}
	return false
}

// ValueSet reads a value set's members.
func (s *Switch) ValueSet(id program.ValueSetID) ([][]program.FieldMatch, error) {
	if id < 0 || int(id) >= len(s.valueSets) {
		return nil, fmt.Errorf("interp: value set %d: %w", id, ErrNotFound)
	}
	return slices.Clone(s.valueSets[id]), nil
}
