package interp

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// parsedMatch is a match in the form of the packed key.
type parsedMatch struct {
	key    []uint64 // masked
	mask   []uint64
	ranges []uint64
	plen   int
	prio   int32
}

func (ts *tableState) parseMatch(match []program.FieldMatch, prio int32, checkPrio bool) (parsedMatch, error) {
	t := ts.t
	if len(match) != len(t.Key) {
		return parsedMatch{}, fmt.Errorf("%w: %d match fields; the key has %d", ErrInvalid, len(match), len(t.Key))
	}
	if len(t.Key) == 0 {
		return parsedMatch{}, fmt.Errorf("%w: the table has no key, so no entries but the default", ErrInvalid)
	}
	if checkPrio && t.Kind <= program.LPM && prio != 0 {
		return parsedMatch{}, fmt.Errorf("%w: priority %d; a table without ternary, range or optional fields takes 0", ErrInvalid, prio)
	}
	if checkPrio && t.Kind > program.LPM && prio < 0 {
		return parsedMatch{}, fmt.Errorf("%w: priority %d is negative", ErrInvalid, prio)
	}
	buf := make([]uint64, 2*t.Words+ts.rangeWords)
	m := parsedMatch{key: buf[:t.Words], mask: buf[t.Words : 2*t.Words], ranges: buf[2*t.Words:], prio: prio}
	var val, msk [program.MaxFieldWidth / 64]uint64
	r := m.ranges
	for i := range match {
		k, f := &t.Key[i], &match[i]
		v, w := val[:k.Words], msk[:k.Words]
		for j := range w {
			w[j] = ^uint64(0)
		}
		maskWords(w, k.Width)
		if err := putValue(v, f.Value, k.Width); err != nil {
			return m, fmt.Errorf("field %q: %w", t.Info.Key[i].Name, err)
		}
		var err error
		switch kind := t.Info.Key[i].Kind; {
		case kind == program.Exact && (f.Any || len(f.Value) == 0 && k.Width > 0):
			err = fmt.Errorf("%w: an exact field needs a value", ErrInvalid)
		case kind == program.Range:
			lo, hi := r[:k.Words], r[k.Words:2*k.Words]
			r = r[2*k.Words:]
			if f.Any {
				copy(hi, w)
			} else {
				copy(lo, v)
				if err = putValue(hi, f.High, k.Width); err == nil && cmpWords(lo, hi) > 0 {
					err = fmt.Errorf("%w: range from %x to %x is empty", ErrInvalid, f.Value, f.High)
				}
			}
			clear(v)
			clear(w)
		case f.Any:
			clear(v)
			clear(w)
		case kind == program.LPM:
			if f.PrefixLen < 0 || f.PrefixLen > k.Width {
				err = fmt.Errorf("%w: prefix length %d; 0 to %d are possible", ErrInvalid, f.PrefixLen, k.Width)
				break
			}
			prefixMask(w, k.Width, f.PrefixLen)
			m.plen = f.PrefixLen
		case kind != program.Exact && f.Mask != nil:
			err = putValue(w, f.Mask, k.Width)
		}
		if err != nil {
			return m, fmt.Errorf("field %q: %w", t.Info.Key[i].Name, err)
		}
		for j := range v {
			m.key[int(k.Word)+j] |= v[j] & w[j] << k.Shift
			m.mask[int(k.Word)+j] |= w[j] << k.Shift
		}
	}
	for i := range t.KeyMask {
		m.key[i] &= t.KeyMask[i]
	}
	return m, nil
}

// prefixMask sets the top plen of width bits.
func prefixMask(w []uint64, width, plen int) {
	for i := range w {
		w[i] = ^uint64(0)
	}
	maskWords(w, width)
	low := make([]uint64, len(w))
	for i := range low {
		low[i] = ^uint64(0)
	}
	maskWords(low, width-plen)
	for i := range w {
		w[i] &^= low[i]
	}
}

// matchOf returns the match of entry i in the control plane's form.
func (ts *tableState) matchOf(i int32) []program.FieldMatch {
	t := ts.t
	e := &ts.entries[i]
	key := ts.keys[int(i)*t.Words:]
	out := make([]program.FieldMatch, len(t.Key))
	r := ts.entryRanges(i)
	for f := range t.Key {
		k := &t.Key[f]
		part := func(from []uint64) []uint64 {
			w := slices.Clone(from[k.Word : k.Word+k.Words])
			w[0] >>= k.Shift
			maskWords(w, k.Width)
			return w
		}
		mask := part(e.group.mask)
		m := program.FieldMatch{Value: bytesOfWords(part(key), k.Width)}
		switch t.Info.Key[f].Kind {
		case program.LPM:
			for _, x := range mask {
				m.PrefixLen += bits.OnesCount64(x)
			}
			m.Any = m.PrefixLen == 0
		case program.Range:
			n := k.Words
			m.Value, m.High = bytesOfWords(r[:n], k.Width), bytesOfWords(r[n:2*n], k.Width)
			top := make([]uint64, n)
			for j := range top {
				top[j] = ^uint64(0)
			}
			maskWords(top, k.Width)
			m.Any = isZeroWords(r[:n]) && slices.Equal(r[n:2*n], top)
			r = r[2*n:]
		case program.Ternary, program.Optional:
			m.Mask = bytesOfWords(mask, k.Width)
			m.Any = isZeroWords(mask)
		}
		out[f] = m
	}
	return out
}
