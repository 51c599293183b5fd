//go:build linux

package differential

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// Entries returns up to n random inserts of table entries for a program, with
// random actions. Tables with constant entries, without key, with a key of no
// bits, of which BMv2 ends, or with an action profile get none.
func Entries(rng *rand.Rand, info *p4config.P4Info, n int) []*p4.Update {
	actions := map[uint32]*p4config.Action{}
	for _, a := range info.GetActions() {
		actions[a.GetPreamble().GetId()] = a
	}
	var tables []*p4config.Table
	for _, t := range info.GetTables() {
		empty := func(f *p4config.MatchField) bool { return f.GetBitwidth() == 0 && f.GetTypeName() == nil }
		if !t.GetIsConstTable() && len(t.GetMatchFields()) > 0 && t.GetImplementationId() == 0 && !slices.ContainsFunc(t.GetMatchFields(), empty) {
			tables = append(tables, t)
		}
	}
	var updates []*p4.Update
	for range n {
		if len(tables) == 0 {
			return nil
		}
		t := tables[rng.IntN(len(tables))]
		e := &p4.TableEntry{TableId: t.GetPreamble().GetId()}
		prioritised := false
		for _, f := range t.GetMatchFields() {
			m, needs := match(rng, f)
			prioritised = prioritised || needs
			if m != nil {
				e.Match = append(e.Match, m)
			}
		}
		if prioritised {
			e.Priority = 1 + rng.Int32N(1<<20)
		}
		var usable []*p4config.Action
		for _, ref := range t.GetActionRefs() {
			if ref.GetScope() != p4config.ActionRef_DEFAULT_ONLY {
				usable = append(usable, actions[ref.GetId()])
			}
		}
		if len(usable) == 0 {
			continue
		}
		a := usable[rng.IntN(len(usable))]
		call := &p4.Action{ActionId: a.GetPreamble().GetId()}
		for _, p := range a.GetParams() {
			call.Params = append(call.Params, &p4.Action_Param{ParamId: p.GetId(), Value: number(rng, int(p.GetBitwidth()))})
		}
		e.Action = &p4.TableAction{Type: &p4.TableAction_Action{Action: call}}
		updates = append(updates, &p4.Update{
			Type: p4.Update_INSERT, Entity: &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: e}},
		})
	}
	return updates
}

// match returns a random match on a field, nil for "any", and whether fields of
// its kind need a priority.
func match(rng *rand.Rand, f *p4config.MatchField) (_ *p4.FieldMatch, prioritised bool) {
	width := int(f.GetBitwidth())
	m := &p4.FieldMatch{FieldId: f.GetId()}
	value := wide(rng, width)
	switch f.GetMatchType() {
	case p4config.MatchField_EXACT:
		m.FieldMatchType = &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: canonicalBytes(value)}}
	case p4config.MatchField_LPM:
		length := rng.IntN(width + 1)
		if length == 0 {
			return nil, false
		}
		keep(value, width, length)
		m.FieldMatchType = &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: canonicalBytes(value), PrefixLen: int32(length)}}
	case p4config.MatchField_TERNARY:
		mask := wide(rng, width)
		if rng.IntN(4) == 0 {
			return nil, true
		}
		zero := true
		for i := range value {
			value[i] &= mask[i]
			zero = zero && mask[i] == 0
		}
		if zero {
			return nil, true
		}
		m.FieldMatchType = &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: canonicalBytes(value), Mask: canonicalBytes(mask)}}
		return m, true
	case p4config.MatchField_RANGE:
		high := wide(rng, width)
		if string(high) < string(value) {
			value, high = high, value
		}
		m.FieldMatchType = &p4.FieldMatch_Range_{Range: &p4.FieldMatch_Range{Low: canonicalBytes(value), High: canonicalBytes(high)}}
		return m, true
	case p4config.MatchField_OPTIONAL:
		if rng.IntN(3) == 0 {
			return nil, true
		}
		m.FieldMatchType = &p4.FieldMatch_Optional_{Optional: &p4.FieldMatch_Optional{Value: canonicalBytes(value)}}
		return m, true
	}
	return m, false
}

// wide returns a random number of a width in whole bytes. Small numbers are
// common: they are what packets and ports hold.
func wide(rng *rand.Rand, width int) []byte {
	b := make([]byte, (width+7)/8)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	if rng.IntN(2) == 0 {
		clear(b[:len(b)-1])
		b[len(b)-1] &= 7
	}
	if extra := len(b)*8 - width; extra > 0 {
		b[0] &= 0xff >> extra
	}
	return b
}

func number(rng *rand.Rand, width int) []byte { return canonicalBytes(wide(rng, width)) }

// keep clears all but the first length of width bits.
func keep(b []byte, width, length int) {
	for bit := length; bit < width; bit++ {
		at := len(b)*8 - width + bit
		b[at/8] &^= 0x80 >> (at % 8)
	}
}

// canonicalBytes strips leading zeros, leaving at least a byte.
func canonicalBytes(b []byte) []byte {
	for len(b) > 1 && b[0] == 0 {
		b = b[1:]
	}
	return b
}

// Frame returns a random frame: well formed Ethernet, VLAN, IPv4, IPv6, TCP, UDP
// and RoCEv2 for the most part, cut short, bent or pure noise for the rest.
func Frame(rng *rand.Rand, address func() []byte) []byte {
	b := make([]byte, 0, 256)
	random := func(n int) {
		for range n {
			b = append(b, byte(rng.Uint32()))
		}
	}
	if rng.IntN(20) == 0 {
		random(14 + rng.IntN(120))
		return b
	}
	random(12)
	if rng.IntN(4) == 0 {
		b = append(b, 0x81, 0x00)
		random(2)
	}
	protocol := byte(17)
	if rng.IntN(5) == 0 {
		protocol = []byte{6, 1, byte(rng.Uint32())}[rng.IntN(3)]
	}
	payload := make([]byte, 8+12+rng.IntN(80))
	for i := range payload {
		payload[i] = byte(rng.Uint32())
	}
	if rng.IntN(4) != 0 {
		binary.BigEndian.PutUint16(payload[2:], 4791)
		payload[8] = []byte{0x06, 0x07, 0x08, 0x0a, 0x11, 0x81, byte(rng.Uint32())}[rng.IntN(7)]
	}
	if rng.IntN(2) == 0 {
		binary.BigEndian.PutUint16(payload, 0xC000|uint16(rng.IntN(8)))
	}
	binary.BigEndian.PutUint16(payload[4:], uint16(len(payload)))
	ttl := byte(64)
	if rng.IntN(10) == 0 {
		ttl = byte(rng.IntN(3))
	}
	switch rng.IntN(8) {
	case 0: // IPv6
		b = append(b, 0x86, 0xdd, 0x60, byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()))
		b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
		b = append(b, protocol, ttl)
		random(16)
		random(16)
	case 1:
		random(2) // some other type
	default:
		ip := len(b) + 2
		b = append(b, 0x08, 0x00, 0x45, byte(rng.Uint32()))
		b = binary.BigEndian.AppendUint16(b, uint16(20+len(payload)))
		random(2)
		b = append(b, 0x40, 0, ttl, protocol, 0, 0)
		b = append(b, address()...)
		b = append(b, address()...)
		sum := uint32(0)
		for i := ip; i < ip+20; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(b[i:]))
		}
		for sum>>16 != 0 {
			sum = sum&0xffff + sum>>16
		}
		binary.BigEndian.PutUint16(b[ip+10:], ^uint16(sum))
	}
	b = append(b, payload...)
	if rng.IntN(10) == 0 {
		b = b[:14+rng.IntN(len(b)-14)]
	}
	return b
}
