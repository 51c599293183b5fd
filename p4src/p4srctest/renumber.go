// Package p4srctest has what tests make of the P4 program's files.
package p4srctest

import (
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Renumbered returns the P4Info as another compiler could have written it: every table, action, counter and the like
// has another id of its kind.
func Renumbered(info *p4config.P4Info) *p4config.P4Info {
	out := proto.CloneOf(info)
	renumber(out.ProtoReflect())
	return out
}

// What follows the kind of an object in its id is other by these bits.
const (
	kindShift = 24
	otherBits = 0x00a5a5
)

func renumber(m protoreflect.Message) {
	other := func(v protoreflect.Value) protoreflect.Value {
		if id := uint32(v.Uint()); id>>kindShift != 0 && id != ^uint32(0) {
			return protoreflect.ValueOfUint32(id ^ otherBits)
		}
		return v // of a field or a parameter, or a size
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			for i := range v.List().Len() {
				switch f.Kind() {
				case protoreflect.MessageKind:
					renumber(v.List().Get(i).Message())
				case protoreflect.Uint32Kind:
					v.List().Set(i, other(v.List().Get(i)))
				}
			}
		case f.IsMap():
		case f.Kind() == protoreflect.MessageKind:
			renumber(v.Message())
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, other(v))
		}
		return true
	})
}
