package p4runtime

import (
	"slices"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// maxTypeDepth is the largest nesting of types; P4 has no recursive types, but a hostile P4Info may.
const maxTypeDepth = 16

// scalar is one scalar of a type, in declaration order.
type scalar struct {
	width  int // bits
	signed bool
	isBool bool
	isEnum bool // serializable: P4Data.enum_value

	translated bool      // the width is that of controllers
	named      *nameType // the value is a string for controllers, and the width unknown; nil: a number
}

// flatWidth returns the sum of the widths of a type's scalars, in bits.
func (s *schema) flatWidth(spec *p4config.P4DataTypeSpec, depth int) (int, error) {
	leaves, err := s.scalarsOf(nil, spec, depth)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, l := range leaves {
		if l.named != nil {
			return 0, rpc.Invalidf("type %s has no numeric representation", l.named.name)
		}
		n += l.width
	}
	return n, nil
}

func (s *schema) scalarsOf(dst []scalar, spec *p4config.P4DataTypeSpec, depth int) ([]scalar, error) {
	if depth > maxTypeDepth {
		return nil, rpc.Invalidf("type is nested deeper than %d", maxTypeDepth)
	}
	switch t := spec.GetTypeSpec().(type) {
	case *p4config.P4DataTypeSpec_Bitstring:
		l, err := bitsOf(t.Bitstring)
		return append(dst, l), err
	case *p4config.P4DataTypeSpec_Header:
		for _, m := range s.headerMembers(t.Header.GetName()) {
			l, err := bitsOf(m.GetTypeSpec())
			if err != nil {
				return nil, err
			}
			dst = append(dst, l)
		}
		return dst, nil
	case *p4config.P4DataTypeSpec_Bool:
		return append(dst, scalar{width: 1, isBool: true}), nil
	case *p4config.P4DataTypeSpec_SerializableEnum:
		w := s.info.GetTypeInfo().GetSerializableEnums()[t.SerializableEnum.GetName()].GetUnderlyingType().GetBitwidth()
		if w <= 0 || w > maxWidth {
			return nil, rpc.Invalidf("enum %s has bit width %d", t.SerializableEnum.GetName(), w)
		}
		return append(dst, scalar{width: int(w), isEnum: true}), nil
	case *p4config.P4DataTypeSpec_NewType:
		nt := s.info.GetTypeInfo().GetNewTypes()[t.NewType.GetName()]
		if o := nt.GetOriginalType(); o != nil {
			return s.scalarsOf(dst, o, depth+1)
		}
		if w := nt.GetTranslatedType().GetSdnBitwidth(); w > 0 && w <= maxWidth {
			return append(dst, scalar{width: int(w), translated: true}), nil
		}
		if nt.GetTranslatedType().GetSdnString() != nil {
			return append(dst, scalar{width: maxWidth, translated: true, named: s.nameType(t.NewType.GetName())}), nil
		}
		return nil, rpc.Invalidf("type %s has no numeric representation", t.NewType.GetName())
	case *p4config.P4DataTypeSpec_Tuple:
		return s.leavesOf(dst, t.Tuple.GetMembers(), depth)
	case *p4config.P4DataTypeSpec_Struct:
		return s.leavesOf(dst, s.structMembers(t.Struct.GetName()), depth)
	}
	return nil, rpc.Invalidf("type %T is not supported here", spec.GetTypeSpec())
}

// bitsOf is the scalar of a bit<W> or int<W>.
func bitsOf(spec *p4config.P4BitstringLikeTypeSpec) (scalar, error) {
	l := scalar{}
	switch b := spec.GetTypeSpec().(type) {
	case *p4config.P4BitstringLikeTypeSpec_Bit:
		l.width = int(b.Bit.GetBitwidth())
	case *p4config.P4BitstringLikeTypeSpec_Int:
		l.width, l.signed = int(b.Int.GetBitwidth()), true
	default:
		return l, rpc.Invalidf("varbit values are not supported here")
	}
	if l.width < 0 || l.width == 0 && l.signed || l.width > maxWidth {
		return l, rpc.Invalidf("bit width %d; it must be 0 to %d, of int<W> 1 or more", l.width, maxWidth)
	}
	return l, nil
}

func (s *schema) headerMembers(name string) []*p4config.P4HeaderTypeSpec_Member {
	return s.info.GetTypeInfo().GetHeaders()[name].GetMembers()
}

func (s *schema) leavesOf(dst []scalar, members []*p4config.P4DataTypeSpec, depth int) ([]scalar, error) {
	var err error
	for _, m := range members {
		if dst, err = s.scalarsOf(dst, m, depth+1); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

func (s *schema) structMembers(name string) []*p4config.P4DataTypeSpec {
	var out []*p4config.P4DataTypeSpec
	for _, m := range s.info.GetTypeInfo().GetStructs()[name].GetMembers() {
		out = append(out, m.GetTypeSpec())
	}
	return out
}

// composeData builds the P4Data of a type; next returns the bits of one scalar after the other, nil for those of an
// invalid header.
func (s *schema) composeData(spec *p4config.P4DataTypeSpec, next func() []byte, depth int) (*p4.P4Data, error) {
	if depth > maxTypeDepth {
		return nil, rpc.Invalidf("type is nested deeper than %d", maxTypeDepth)
	}
	members := func(specs []*p4config.P4DataTypeSpec) (*p4.P4StructLike, error) {
		out := &p4.P4StructLike{}
		for _, m := range specs {
			d, err := s.composeData(m, next, depth+1)
			if err != nil {
				return nil, err
			}
			out.Members = append(out.Members, d)
		}
		return out, nil
	}
	switch t := spec.GetTypeSpec().(type) {
	case *p4config.P4DataTypeSpec_Tuple:
		m, err := members(t.Tuple.GetMembers())
		return &p4.P4Data{Data: &p4.P4Data_Tuple{Tuple: m}}, err
	case *p4config.P4DataTypeSpec_Struct:
		m, err := members(s.structMembers(t.Struct.GetName()))
		return &p4.P4Data{Data: &p4.P4Data_Struct{Struct: m}}, err
	case *p4config.P4DataTypeSpec_NewType:
		if o := s.info.GetTypeInfo().GetNewTypes()[t.NewType.GetName()].GetOriginalType(); o != nil {
			return s.composeData(o, next, depth+1)
		}
	case *p4config.P4DataTypeSpec_Header:
		h := &p4.P4Header{IsValid: true}
		for _, m := range s.headerMembers(t.Header.GetName()) {
			l, err := bitsOf(m.GetTypeSpec())
			if err != nil {
				return nil, err
			}
			value := next()
			if h.IsValid = value != nil; h.IsValid {
				h.Bitstrings = append(h.Bitstrings, l.canonicalBytes(value))
			}
		}
		return &p4.P4Data{Data: &p4.P4Data_Header{Header: h}}, nil
	}
	ls, err := s.scalarsOf(nil, spec, depth)
	if err != nil {
		return nil, err
	}
	value := next()
	if value == nil {
		value = []byte{0}
	}
	switch l := ls[0]; {
	case l.isBool:
		return &p4.P4Data{Data: &p4.P4Data_Bool{Bool: !isZero(value)}}, nil
	case l.isEnum:
		return &p4.P4Data{Data: &p4.P4Data_EnumValue{EnumValue: slices.Clone(canonicalBytes(value))}}, nil
	default:
		return &p4.P4Data{Data: &p4.P4Data_Bitstring{Bitstring: l.canonicalBytes(value)}}, nil
	}
}

// canonicalBytes is the byte string of a scalar.
func (l scalar) canonicalBytes(value []byte) []byte {
	switch {
	case l.named != nil: // a name already
		return slices.Clone(value)
	case l.signed:
		return canonicalSigned(value, l.width)
	}
	return slices.Clone(canonicalBytes(value))
}

// decomposeData checks data against a type and passes its scalars to put, each with its width in the type.
func (s *schema) decomposeData(spec *p4config.P4DataTypeSpec, data *p4.P4Data, put func(value []byte, width int), depth int) error {
	if depth > maxTypeDepth {
		return rpc.Invalidf("type is nested deeper than %d", maxTypeDepth)
	}
	members := func(specs []*p4config.P4DataTypeSpec, got *p4.P4StructLike) error {
		if got == nil || len(got.GetMembers()) != len(specs) {
			return rpc.Invalidf("data has %d members, the type %d", len(got.GetMembers()), len(specs))
		}
		for i, m := range specs {
			if err := s.decomposeData(m, got.GetMembers()[i], put, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	switch t := spec.GetTypeSpec().(type) {
	case *p4config.P4DataTypeSpec_Tuple:
		return members(t.Tuple.GetMembers(), data.GetTuple())
	case *p4config.P4DataTypeSpec_Struct:
		return members(s.structMembers(t.Struct.GetName()), data.GetStruct())
	case *p4config.P4DataTypeSpec_NewType:
		if o := s.info.GetTypeInfo().GetNewTypes()[t.NewType.GetName()].GetOriginalType(); o != nil {
			return s.decomposeData(o, data, put, depth+1)
		}
	}
	ls, err := s.scalarsOf(nil, spec, depth)
	if err != nil {
		return err
	}
	switch l := ls[0]; {
	case l.isBool:
		b, ok := data.GetData().(*p4.P4Data_Bool)
		if !ok {
			return rpc.Invalidf("data must be a bool, it is %T", data.GetData())
		}
		v := byte(0)
		if b.Bool {
			v = 1
		}
		put([]byte{v}, 1)
	case l.isEnum:
		if err := checkWidth(data.GetEnumValue(), l.width, "enum value"); err != nil {
			return err
		}
		put(data.GetEnumValue(), l.width)
	case l.signed:
		v, err := unsignedOf(data.GetBitstring(), l.width)
		if err != nil {
			return err
		}
		put(v, l.width)
	default:
		if err := checkWidth(data.GetBitstring(), l.width, "bitstring"); err != nil {
			return err
		}
		put(data.GetBitstring(), l.width)
	}
	return nil
}

// unsignedOf reads a two's complement byte string that must fit int<width> and returns its width low bits.
func unsignedOf(b []byte, width int) ([]byte, error) {
	if len(b) == 0 {
		return nil, rpc.Invalidf("bitstring: empty byte string; zero is written as \"\\x00\"")
	}
	fill := byte(0)
	if b[0]&0x80 != 0 {
		fill = 0xff
	}
	bit := func(i int) byte {
		if i/8 >= len(b) {
			return fill & 1
		}
		return byteAt(b, i/8) >> (i % 8) & 1
	}
	for i := width - 1; i < len(b)*8; i++ {
		if bit(i) != fill&1 {
			return nil, rpc.Invalidf("bitstring: value %s does not fit int<%d>", rpc.ShortenBytes(b), width)
		}
	}
	out := make([]byte, (width+7)/8)
	for i := range width {
		out[len(out)-1-i/8] |= bit(i) << (i % 8)
	}
	return out, nil
}

// canonicalSigned returns the shortest two's complement form of an int<width>.
func canonicalSigned(v []byte, width int) []byte {
	n := (width + 7) / 8
	out := appendPadded(nil, v, width)
	if r := width % 8; r != 0 && out[0]>>(r-1)&1 == 1 {
		out[0] |= 0xff << r
	}
	for n > 1 && (out[0] == 0 && out[1]&0x80 == 0 || out[0] == 0xff && out[1]&0x80 != 0) {
		out = out[1:]
		n--
	}
	return out
}

// bitReader cuts fields out of packed big-endian bytes.
type bitReader struct {
	b   []byte
	off int // bits
}

func (r *bitReader) next(width int) []byte {
	out := make([]byte, (width+7)/8)
	for i := range width {
		src := r.off + i
		if src/8 < len(r.b) && r.b[src/8]>>(7-src%8)&1 == 1 {
			dst := len(out)*8 - width + i
			out[dst/8] |= 1 << (7 - dst%8)
		}
	}
	r.off += width
	return out
}

// bitWriter packs fields into big-endian bytes.
type bitWriter struct {
	b   []byte
	off int // bits
}

func (w *bitWriter) put(value []byte, width int) {
	for i := range width {
		if byteAt(value, (width-1-i)/8)>>((width-1-i)%8)&1 == 1 {
			w.b[w.off/8] |= 1 << (7 - w.off%8)
		}
		w.off++
	}
}
