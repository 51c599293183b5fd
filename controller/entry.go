package controller

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Value is a match key of up to 128 bits.
type Value struct {
	Hi, Lo uint64
}

// AddrValue returns an IP address as a key.
func AddrValue(a netip.Addr) Value {
	if a.Is4() {
		b := a.As4()
		return Value{Lo: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return Value{Hi: binary.BigEndian.Uint64(b[:8]), Lo: binary.BigEndian.Uint64(b[8:])}
}

// addr4 is the inverse of AddrValue for IPv4.
func addr4(v uint64) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(v))
	return netip.AddrFrom4(b)
}

// addr6 is the inverse of AddrValue for IPv6.
func addr6(v Value) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], v.Hi)
	binary.BigEndian.PutUint64(b[8:], v.Lo)
	return netip.AddrFrom16(b)
}

func (v Value) compare(w Value) int {
	return cmp.Or(cmp.Compare(v.Hi, w.Hi), cmp.Compare(v.Lo, w.Lo))
}

// Key identifies an entry within the tables of a switch.
type Key struct {
	Table     Table
	PrefixLen uint8  // prefix length in bits; LPM tables only
	Priority  int32  // larger wins; ternary tables only
	Value     Value  // value to match; zero for a table without key
	Mask      uint64 // mask; ternary tables only
}

// Compare orders keys: by table, longer prefixes first, then by value and mask.
func (k Key) Compare(l Key) int {
	return cmp.Or(
		cmp.Compare(k.Table, l.Table),
		cmp.Compare(l.PrefixLen, k.PrefixLen),
		k.Value.compare(l.Value),
		cmp.Compare(k.Mask, l.Mask),
		cmp.Compare(l.Priority, k.Priority),
	)
}

// String prints the table and the key, as in "route_v4 10.0.1.0/24".
func (k Key) String() string {
	if k.Table >= tableCount {
		return k.Table.String()
	}
	switch l := k.Table.Layout(); {
	case l.Match == Keyless:
		return l.Name
	case l.Match == LPM && l.Key.Bits == 32:
		return fmt.Sprintf("%s %v/%d", l.Name, addr4(k.Value.Lo), k.PrefixLen)
	case l.Match == LPM:
		return fmt.Sprintf("%s %v/%d", l.Name, addr6(k.Value), k.PrefixLen)
	case l.Match == Ternary:
		return fmt.Sprintf("%s %#04x/%#04x", l.Name, k.Value.Lo, k.Mask)
	default:
		return fmt.Sprintf("%s %d", l.Name, k.Value.Lo)
	}
}

// Member is one choice of an ECMP group: a port, and its number of shares of the traffic.
type Member struct {
	Port   fabric.PortNo
	Weight int32
}

// Entry is a table entry. A table without key has one entry, its default action.
type Entry struct {
	Key
	Action Action
	// Args are the action's arguments in the order of its layout; the rest is 0.
	Args [maxArgs]uint64
	// Members is set in an entry of a selector table, in port order; Args then has no meaning. It is shared: do not
	// write to it.
	Members []Member
}

// Equal reports whether the entries have the same key and content.
func (e Entry) Equal(f Entry) bool { return e.Key == f.Key && e.sameContent(&f) }

func (e *Entry) sameContent(f *Entry) bool {
	return e.Action == f.Action && e.Args == f.Args && sameMembers(e.Members, f.Members)
}

// sameMembers compares members; shared slices need no comparison.
func sameMembers(a, b []Member) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// String prints the entry, as in "route_v4 10.0.1.0/24 -> forward_up(group=0)".
func (e Entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v -> %v", e.Key, e.Action)
	if e.Action >= actionCount {
		return b.String()
	}
	if e.Table < tableCount && e.Table.Layout().Selector {
		for i, m := range e.Members {
			b.WriteString([]string{" {", " "}[min(i, 1)])
			fmt.Fprintf(&b, "%d", m.Port)
			if m.Weight != 1 {
				fmt.Fprintf(&b, "*%d", m.Weight)
			}
		}
		b.WriteString("}")
		return b.String()
	}
	for i, p := range e.Action.Layout().Params {
		b.WriteString([]string{"(", " "}[min(i, 1)])
		if p.Bits == 48 { // a MAC address
			fmt.Fprintf(&b, "%s=%012x", p.Name, e.Args[i])
			continue
		}
		fmt.Fprintf(&b, "%s=%d", p.Name, e.Args[i])
	}
	if len(e.Action.Layout().Params) > 0 {
		b.WriteString(")")
	}
	return b.String()
}
