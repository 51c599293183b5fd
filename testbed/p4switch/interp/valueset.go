package interp

import (
	"fmt"
	"maps"
	"slices"
)

// SetValueSet replaces the members of a parser value set. Each matches on the
// fields of [ValueSetInfo.Widths]: Value, with Mask or PrefixLen when those
// are set; Any matches everything.
func (s *Switch) SetValueSet(id ValueSetID, members [][]FieldMatch) error {
	if id < 0 || int(id) >= len(s.vsets) {
		return fmt.Errorf("interp: value set %d: %w", id, ErrNotFound)
	}
	info := &s.p.vsets[id]
	vals := map[int][]uint64{}
	for u := range s.p.vsetUses {
		use := &s.p.vsetUses[u]
		if use.set != int(id) {
			continue
		}
		for _, m := range members {
			kv, err := use.pack(m)
			if err != nil {
				return fmt.Errorf("interp: value set %q: %w", info.Name, err)
			}
			vals[u] = append(vals[u], kv...)
		}
	}
	old, oldVals := s.vsets[id], maps.Clone(vals)
	for u := range vals {
		oldVals[u] = s.vsetVals[u]
	}
	for u := range s.p.vsetUses {
		if s.p.vsetUses[u].set == int(id) {
			oldVals[u] = s.vsetVals[u]
			s.vsetVals[u] = vals[u]
		}
	}
	s.vsets[id] = slices.Clone(members)
	s.onRollback(func() {
		s.vsets[id] = old
		for u, v := range oldVals {
			s.vsetVals[u] = v
		}
	})
	return nil
}

// pack returns a member's value and mask in the packed form of a select key.
func (u *vsetUse) pack(m []FieldMatch) ([]uint64, error) {
	if len(m) != len(u.key) {
		return nil, fmt.Errorf("%w: a member of %d fields; the set has %d", ErrInvalid, len(m), len(u.key))
	}
	out := make([]uint64, 2*u.words)
	for i := range m {
		k, f := &u.key[i], &m[i]
		v, w := make([]uint64, k.words), make([]uint64, k.words)
		prefixMask(w, k.width, k.width)
		if err := putValue(v, f.Value, k.width); err != nil {
			return nil, fmt.Errorf("field %d: %w", i, err)
		}
		switch {
		case f.Any:
			clear(w)
		case f.High != nil:
			return nil, fmt.Errorf("field %d: %w: ranges in value sets; use a mask", i, ErrUnsupported)
		case f.Mask != nil:
			if err := putValue(w, f.Mask, k.width); err != nil {
				return nil, fmt.Errorf("field %d: %w", i, err)
			}
		case f.PrefixLen > 0 && f.PrefixLen <= k.width:
			prefixMask(w, k.width, f.PrefixLen)
		}
		for j := range v {
			out[int(k.word)+j] |= v[j] << k.shift
			out[u.words+int(k.word)+j] |= w[j] << k.shift
		}
	}
	for j := range u.words {
		out[u.words+j] &= u.mask[j]
		out[j] &= out[u.words+j]
	}
	return out, nil
}

// inValueSet reports whether a packed select key is in the set of a use.
func (s *Switch) inValueSet(use int, key []uint64) bool {
	w := len(key)
next:
	for vals := s.vsetVals[use]; len(vals) > 0; vals = vals[2*w:] {
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
func (s *Switch) ValueSet(id ValueSetID) ([][]FieldMatch, error) {
	if id < 0 || int(id) >= len(s.vsets) {
		return nil, fmt.Errorf("interp: value set %d: %w", id, ErrNotFound)
	}
	return slices.Clone(s.vsets[id]), nil
}
