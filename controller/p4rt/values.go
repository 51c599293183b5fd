package p4rt

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// Readable values: decimal or 0x numbers, addresses of IP and Ethernet, and text where a program has names instead
// of numbers (0 bits in its P4Info).

// parseValue returns a value of a width in bits as P4Runtime sends it.
func parseValue(text string, bits int) ([]byte, error) {
	if bits == 0 {
		return []byte(text), nil
	}
	n := new(big.Int)
	if addr, err := netip.ParseAddr(text); err == nil && (addr.Is4() && bits == 32 || addr.Is6() && bits == 128) {
		n.SetBytes(addr.AsSlice())
	} else if mac, err := net.ParseMAC(text); err == nil && len(mac) == 6 && bits == 48 {
		n.SetBytes(mac)
	} else if _, ok := n.SetString(text, 0); !ok || n.Sign() < 0 {
		return nil, fmt.Errorf("%q is no value of %d bits; write %s", text, bits, bytesText(bits))
	}
	if n.BitLen() > bits {
		return nil, fmt.Errorf("it does not fit into %d bits", bits)
	}
	if b := n.Bytes(); len(b) > 0 {
		return b, nil
	}
	return []byte{0}, nil
}

// bytesText describes how to write a value of a width in bits.
func bytesText(bits int) string {
	switch bits {
	case 32:
		return "a number, 0x and digits, or an address such as 10.0.0.1"
	case 48:
		return "a number, 0x and digits, or an address such as 02:00:00:00:00:01"
	case 128:
		return "a number, 0x and digits, or an address such as fd00::1"
	}
	return "a number, or 0x and digits"
}

// isAddress matches names of address fields.
var isAddress = regexp.MustCompile(`(?i)addr|ip|dst|src|nexthop`)

// showValue returns a value in readable form, which [parseValue] reads: by its width, and for 32 bits by its name.
func showValue(name string, bits int, b []byte) string {
	if bits == 0 && name != "" {
		return string(b)
	}
	n := new(big.Int).SetBytes(b)
	switch {
	case n.BitLen() > max(bits, 64):
		return "0x" + hex.EncodeToString(b)
	case bits == 48:
		return net.HardwareAddr(n.FillBytes(make([]byte, 6))).String()
	case bits == 128, bits == 32 && isAddress.MatchString(name):
		addr, _ := netip.AddrFromSlice(n.FillBytes(make([]byte, bits/8)))
		return addr.String()
	}
	return n.String()
}

// parseMatch reads VALUE, VALUE/PREFIX, VALUE/MASK or LOW..HIGH, depending on the field's match kind. A match of
// anything is nil: P4Runtime leaves such fields out.
func parseMatch(f *p4config.MatchField, text string) (*p4.FieldMatch, error) {
	m, bits := &p4.FieldMatch{FieldId: f.GetId()}, int(f.GetBitwidth())
	sep, form := "/", ""
	switch f.GetMatchType() {
	case p4config.MatchField_LPM:
		form = "ADDRESS/BITS"
	case p4config.MatchField_TERNARY:
		form = "VALUE/MASK"
	case p4config.MatchField_RANGE:
		sep, form = "..", "LOW..HIGH"
	}
	first, second, two := strings.Cut(text, sep)
	if form == "" {
		first, two = text, false
	} else if !two {
		return nil, fmt.Errorf("the field matches %s; write %s", strings.ToLower(f.GetMatchType().String()), form)
	}
	value, err := parseValue(first, bits)
	if err != nil {
		return nil, err
	}
	if f.GetMatchType() == p4config.MatchField_LPM {
		n, err := strconv.Atoi(second)
		if err != nil || n < 0 || n > bits {
			return nil, fmt.Errorf("%q is no prefix length of 0 to %d", second, bits)
		}
		if n == 0 {
			return nil, nil
		}
		m.FieldMatchType = &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: value, PrefixLen: int32(n)}}
		return m, nil
	}
	var other []byte
	if two {
		if other, err = parseValue(second, bits); err != nil {
			return nil, err
		}
	}
	switch f.GetMatchType() {
	case p4config.MatchField_EXACT:
		m.FieldMatchType = &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: value}}
	case p4config.MatchField_TERNARY:
		if new(big.Int).SetBytes(other).Sign() == 0 {
			return nil, nil
		}
		m.FieldMatchType = &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: value, Mask: other}}
	case p4config.MatchField_RANGE:
		m.FieldMatchType = &p4.FieldMatch_Range_{Range: &p4.FieldMatch_Range{Low: value, High: other}}
	case p4config.MatchField_OPTIONAL:
		m.FieldMatchType = &p4.FieldMatch_Optional_{Optional: &p4.FieldMatch_Optional{Value: value}}
	default:
		return nil, fmt.Errorf("the field matches %v, which this client does not write", f.GetMatchType())
	}
	return m, nil
}

// showMatch returns a field's match in the form that [parseMatch] reads.
func showMatch(f *p4config.MatchField, m *p4.FieldMatch) string {
	show := func(b []byte) string { return showValue(f.GetName(), int(f.GetBitwidth()), b) }
	switch x := m.GetFieldMatchType().(type) {
	case *p4.FieldMatch_Exact_:
		return show(x.Exact.GetValue())
	case *p4.FieldMatch_Lpm:
		return fmt.Sprintf("%s/%d", show(x.Lpm.GetValue()), x.Lpm.GetPrefixLen())
	case *p4.FieldMatch_Ternary_:
		return fmt.Sprintf("%s/0x%x", show(x.Ternary.GetValue()), new(big.Int).SetBytes(x.Ternary.GetMask()))
	case *p4.FieldMatch_Range_:
		return show(x.Range.GetLow()) + ".." + show(x.Range.GetHigh())
	case *p4.FieldMatch_Optional_:
		return show(x.Optional.GetValue())
	}
	return "?"
}
