// Package wirefields reads a few fields of a protobuf message without generated code.
package wirefields

import "google.golang.org/protobuf/encoding/protowire"

// Each calls do for each field of a serialised protobuf message: with number for varints and fixed-size fields, with
// text for fields with a length.
func Each(b []byte, do func(field protowire.Number, typ protowire.Type, number uint64, text []byte) error) error {
	for len(b) > 0 {
		field, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var number uint64
		var text []byte
		switch typ {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			number = uint64(v)
		case protowire.Fixed64Type:
			number, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(field, typ, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := do(field, typ, number, text); err != nil {
			return err
		}
	}
	return nil
}
