package p4runtime

import (
	"encoding/binary"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// scratch is memory that operations reuse.
type scratch struct {
	match []program.FieldMatch // by position in the program's key
	key   []byte               // the match, padded, as a map key
	given []*p4.FieldMatch     // by position in P4Info
	args  [][]byte
}

// parseMatch checks the match fields of a table entry or a value set member. It leaves the match in sc.match and an
// encoding of it in sc.key, both valid until the next call, and returns the fields in canonical form: in itself, if
// all are.
func (sc *scratch) parseMatch(fields []*fieldSchema, byID map[uint32]int, keyLen int, in []*p4.FieldMatch) ([]*p4.FieldMatch, error) {
	sc.key = sc.key[:0]
	sc.match = append(sc.match[:0], make([]program.FieldMatch, keyLen)...)
	sc.given = append(sc.given[:0], make([]*p4.FieldMatch, len(fields))...)
	for _, m := range in {
		i, ok := byID[m.GetFieldId()]
		if !ok {
			return nil, rpc.Invalidf("no match field has id %d", m.GetFieldId())
		}
		if sc.given[i] != nil {
			return nil, rpc.Invalidf("match field %s is given twice", fields[i].name)
		}
		sc.given[i] = m
	}
	out := in
	for i, f := range fields {
		m := sc.given[i]
		fm := &sc.match[f.pos]
		if m == nil {
			if f.match == p4config.MatchField_EXACT {
				return nil, rpc.Invalidf("match field %s (id %d) is missing; an exact field must be given", f.name, f.id)
			}
			fm.Any = true
			sc.key = append(sc.key, 0)
			continue
		}
		shortest, err := f.parseField(m, fm)
		if err != nil {
			return nil, err
		}
		sc.appendKey(f, fm)
		if !shortest {
			if &out[0] == &in[0] {
				out = append([]*p4.FieldMatch(nil), in...)
			}
			for j := range out {
				if out[j] == m {
					out[j] = canonicalMatch(m)
				}
			}
		}
		f.toProgramKind(fm)
	}
	return out, nil
}

// parseField checks one field and fills fm with the values as sent. It reports whether all of them are canonical.
func (f *fieldSchema) parseField(m *p4.FieldMatch, fm *program.FieldMatch) (bool, error) {
	wrong := func() error {
		return rpc.Invalidf("match field %s is matched as %v, the request has %T", f.name, f.match, m.GetFieldMatchType())
	}
	switch f.match {
	case p4config.MatchField_EXACT:
		x, ok := m.GetFieldMatchType().(*p4.FieldMatch_Exact_)
		if !ok {
			return false, wrong()
		}
		fm.Value = x.Exact.GetValue()
	case p4config.MatchField_OPTIONAL:
		x, ok := m.GetFieldMatchType().(*p4.FieldMatch_Optional_)
		if !ok {
			return false, wrong()
		}
		fm.Value = x.Optional.GetValue()
	case p4config.MatchField_LPM:
		x, ok := m.GetFieldMatchType().(*p4.FieldMatch_Lpm)
		if !ok {
			return false, wrong()
		}
		fm.Value, fm.PrefixLen = x.Lpm.GetValue(), int(x.Lpm.GetPrefixLen())
		if err := checkWidth(fm.Value, f.width, f.name); err != nil {
			return false, err
		}
		switch n := fm.PrefixLen; {
		case n == 0:
			return false, rpc.Invalidf("match field %s: prefix length 0; leave the field out to match everything", f.name)
		case n < 0 || n > f.width:
			return false, rpc.Invalidf("match field %s: prefix length %d; it must be 1 to %d", f.name, n, f.width)
		case !trailingZeros(fm.Value, f.width-n):
			return false, rpc.Invalidf("match field %s: value %s has bits beyond its prefix length %d", f.name, rpc.ShortenBytes(fm.Value), n)
		}
	case p4config.MatchField_TERNARY:
		x, ok := m.GetFieldMatchType().(*p4.FieldMatch_Ternary_)
		if !ok {
			return false, wrong()
		}
		fm.Value, fm.Mask = x.Ternary.GetValue(), x.Ternary.GetMask()
		if err := checkWidth(fm.Mask, f.width, f.name+" mask"); err != nil {
			return false, err
		}
		if err := checkWidth(fm.Value, f.width, f.name); err != nil {
			return false, err
		}
		if isZero(fm.Mask) {
			return false, rpc.Invalidf("match field %s: the mask is zero; leave the field out to match everything", f.name)
		}
		if bitsOutside(fm.Value, fm.Mask) {
			return false, rpc.Invalidf("match field %s: value %s has bits outside its mask %s", f.name, rpc.ShortenBytes(fm.Value), rpc.ShortenBytes(fm.Mask))
		}
		return isCanonical(fm.Value) && isCanonical(fm.Mask), nil
	case p4config.MatchField_RANGE:
		x, ok := m.GetFieldMatchType().(*p4.FieldMatch_Range_)
		if !ok {
			return false, wrong()
		}
		fm.Value, fm.High = x.Range.GetLow(), x.Range.GetHigh()
		if err := checkWidth(fm.Value, f.width, f.name+" low"); err != nil {
			return false, err
		}
		if err := checkWidth(fm.High, f.width, f.name+" high"); err != nil {
			return false, err
		}
		if compareBytes(fm.Value, fm.High) > 0 {
			return false, rpc.Invalidf("match field %s: low %s is above high %s", f.name, rpc.ShortenBytes(fm.Value), rpc.ShortenBytes(fm.High))
		}
		if isZero(fm.Value) && compareBytes(fm.High, allOnes(f.width)) == 0 {
			return false, rpc.Invalidf("match field %s: the range holds every value; leave the field out to match everything", f.name)
		}
		return isCanonical(fm.Value) && isCanonical(fm.High), nil
	default:
		return false, rpc.Errorf(codes.Unimplemented, "match field %s has the match type %v", f.name, f.match)
	}
	if err := checkWidth(fm.Value, f.width, f.name); err != nil {
		return false, err
	}
	return isCanonical(fm.Value), nil
}

// appendKey adds a present field to the key.
func (sc *scratch) appendKey(f *fieldSchema, fm *program.FieldMatch) {
	if f.match != p4config.MatchField_EXACT {
		sc.key = append(sc.key, 1)
	}
	sc.key = appendPadded(sc.key, fm.Value, f.width)
	switch f.match {
	case p4config.MatchField_LPM:
		sc.key = binary.BigEndian.AppendUint16(sc.key, uint16(fm.PrefixLen))
	case p4config.MatchField_TERNARY:
		sc.key = appendPadded(sc.key, fm.Mask, f.width)
	case p4config.MatchField_RANGE:
		sc.key = appendPadded(sc.key, fm.High, f.width)
	}
}

// toProgramKind converts the match to the program's match kind of the field.
func (f *fieldSchema) toProgramKind(fm *program.FieldMatch) {
	if f.kind != program.Ternary {
		return
	}
	switch f.match {
	case p4config.MatchField_OPTIONAL:
		fm.Mask = nil // all ones
	case p4config.MatchField_LPM:
		fm.Mask, fm.PrefixLen = prefixMask(fm.PrefixLen, f.width), 0
	}
}

// canonicalMatch returns a copy of m with the shortest byte strings.
func canonicalMatch(m *p4.FieldMatch) *p4.FieldMatch {
	out := &p4.FieldMatch{FieldId: m.GetFieldId()}
	switch x := m.GetFieldMatchType().(type) {
	case *p4.FieldMatch_Exact_:
		out.FieldMatchType = &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: canonicalBytes(x.Exact.GetValue())}}
	case *p4.FieldMatch_Optional_:
		out.FieldMatchType = &p4.FieldMatch_Optional_{Optional: &p4.FieldMatch_Optional{Value: canonicalBytes(x.Optional.GetValue())}}
	case *p4.FieldMatch_Lpm:
		out.FieldMatchType = &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: canonicalBytes(x.Lpm.GetValue()), PrefixLen: x.Lpm.GetPrefixLen()}}
	case *p4.FieldMatch_Ternary_:
		out.FieldMatchType = &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{
			Value: canonicalBytes(x.Ternary.GetValue()), Mask: canonicalBytes(x.Ternary.GetMask())}}
	case *p4.FieldMatch_Range_:
		out.FieldMatchType = &p4.FieldMatch_Range_{Range: &p4.FieldMatch_Range{
			Low: canonicalBytes(x.Range.GetLow()), High: canonicalBytes(x.Range.GetHigh())}}
	}
	return out
}

// fromProgram returns the P4Runtime form of one of the program's own matches, or nil if it matches everything.
func (f *fieldSchema) fromProgram(fm program.FieldMatch) *p4.FieldMatch {
	if fm.Any {
		return nil
	}
	out := &p4.FieldMatch{FieldId: f.id}
	value := append([]byte(nil), canonicalBytes(fm.Value)...)
	switch f.match {
	case p4config.MatchField_EXACT:
		out.FieldMatchType = &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: value}}
	case p4config.MatchField_LPM:
		n := fm.PrefixLen
		if f.kind == program.Ternary {
			for n = f.width; n > 0 && compareBytes(prefixMask(n, f.width), fm.Mask) != 0; n-- {
			}
		}
		if n == 0 {
			return nil
		}
		out.FieldMatchType = &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: value, PrefixLen: int32(n)}}
	case p4config.MatchField_TERNARY:
		mask := fm.Mask
		if mask == nil {
			mask = allOnes(f.width)
		}
		if isZero(mask) {
			return nil
		}
		v := appendPadded(nil, value, f.width)
		for i := range v {
			v[len(v)-1-i] &= byteAt(mask, i)
		}
		out.FieldMatchType = &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{
			Value: canonicalBytes(v), Mask: append([]byte(nil), canonicalBytes(mask)...)}}
	case p4config.MatchField_OPTIONAL:
		if fm.Mask != nil && isZero(fm.Mask) {
			return nil
		}
		out.FieldMatchType = &p4.FieldMatch_Optional_{Optional: &p4.FieldMatch_Optional{Value: value}}
	case p4config.MatchField_RANGE:
		if isZero(fm.Value) && compareBytes(fm.High, allOnes(f.width)) == 0 {
			return nil
		}
		out.FieldMatchType = &p4.FieldMatch_Range_{Range: &p4.FieldMatch_Range{
			Low: value, High: append([]byte(nil), canonicalBytes(fm.High)...)}}
	}
	return out
}
