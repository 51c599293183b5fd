package interp

import (
	"fmt"
	"math/bits"
	"slices"
)

// parsedMatch is a match in the form of the packed key.
type parsedMatch struct {
	key    []uint64 // masked
	mask   []uint64
	ranges []uint64
	plen   int
	prio   int32
}

func (ts *tableState) parse(match []FieldMatch, prio int32, checkPrio bool) (parsedMatch, error) {
	t := ts.t
	if len(match) != len(t.key) {
		return parsedMatch{}, fmt.Errorf("%w: %d match fields; the key has %d", ErrInvalid, len(match), len(t.key))
	}
	if len(t.key) == 0 {
		return parsedMatch{}, fmt.Errorf("%w: the table has no key, so no entries but the default", ErrInvalid)
	}
	if checkPrio && t.kind <= LPM && prio != 0 {
		return parsedMatch{}, fmt.Errorf("%w: priority %d; a table without ternary, range or optional fields takes 0", ErrInvalid, prio)
	}
	if checkPrio && t.kind > LPM && prio < 0 {
		return parsedMatch{}, fmt.Errorf("%w: priority %d is negative", ErrInvalid, prio)
	}
	buf := make([]uint64, 2*t.words+ts.rwords)
	m := parsedMatch{key: buf[:t.words], mask: buf[t.words : 2*t.words], ranges: buf[2*t.words:], prio: prio}
	var val, msk [maxFieldWidth / 64]uint64
	r := m.ranges
	for i := range match {
		k, f := &t.key[i], &match[i]
		v, w := val[:k.words], msk[:k.words]
		for j := range w {
			w[j] = ^uint64(0)
		}
		maskWords(w, k.width)
		if err := putValue(v, f.Value, k.width); err != nil {
			return m, fmt.Errorf("field %q: %w", t.info.Key[i].Name, err)
		}
		var err error
		switch kind := t.info.Key[i].Kind; {
		case kind == Exact && (f.Any || len(f.Value) == 0):
			err = fmt.Errorf("%w: an exact field needs a value", ErrInvalid)
		case kind == Range:
			lo, hi := r[:k.words], r[k.words:2*k.words]
			r = r[2*k.words:]
			if f.Any {
				copy(hi, w)
			} else {
				copy(lo, v)
				if err = putValue(hi, f.High, k.width); err == nil && cmpWords(lo, hi) > 0 {
					err = fmt.Errorf("%w: range from %x to %x is empty", ErrInvalid, f.Value, f.High)
				}
			}
			clear(v)
			clear(w)
		case f.Any:
			clear(v)
			clear(w)
		case kind == LPM:
			if f.PrefixLen < 0 || f.PrefixLen > k.width {
				err = fmt.Errorf("%w: prefix length %d; 0 to %d are possible", ErrInvalid, f.PrefixLen, k.width)
				break
			}
			prefixMask(w, k.width, f.PrefixLen)
			m.plen = f.PrefixLen
		case kind != Exact && f.Mask != nil:
			err = putValue(w, f.Mask, k.width)
		}
		if err != nil {
			return m, fmt.Errorf("field %q: %w", t.info.Key[i].Name, err)
		}
		for j := range v {
			m.key[int(k.word)+j] |= v[j] & w[j] << k.shift
			m.mask[int(k.word)+j] |= w[j] << k.shift
		}
	}
	for i := range t.big {
		m.key[i] &= t.big[i]
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

// match returns the match of entry i in the control plane's form.
func (ts *tableState) match(i int32) []FieldMatch {
	t := ts.t
	e := &ts.entries[i]
	key := ts.keys[int(i)*t.words:]
	out := make([]FieldMatch, len(t.key))
	r := ts.entryRanges(i)
	for f := range t.key {
		k := &t.key[f]
		part := func(from []uint64) []uint64 {
			w := slices.Clone(from[k.word : k.word+k.words])
			w[0] >>= k.shift
			maskWords(w, k.width)
			return w
		}
		mask := part(e.group.mask)
		m := FieldMatch{Value: bytesOfWords(part(key), k.width)}
		switch t.info.Key[f].Kind {
		case LPM:
			for _, x := range mask {
				m.PrefixLen += bits.OnesCount64(x)
			}
			m.Any = m.PrefixLen == 0
		case Range:
			n := k.words
			m.Value, m.High = bytesOfWords(r[:n], k.width), bytesOfWords(r[n:2*n], k.width)
			top := make([]uint64, n)
			for j := range top {
				top[j] = ^uint64(0)
			}
			maskWords(top, k.width)
			m.Any = isZeroWords(r[:n]) && slices.Equal(r[n:2*n], top)
			r = r[2*n:]
		case Ternary, Optional:
			m.Mask = bytesOfWords(mask, k.width)
			m.Any = isZeroWords(mask)
		}
		out[f] = m
	}
	return out
}
