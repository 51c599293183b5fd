package fabric

import "net/netip"

// SRv6 micro segments (uSID, RFC 9800) name the same paths as labels do, in a form that routers support: an outer
// IPv6 destination that lists the switches of the path and the receiving host, 16 bits each, behind a block of 32.
// A switch that finds its own uSID first removes it from the list, and has a static route for the next one.

// USIDBlock is the IPv6 prefix of all micro segments (uSIDs, RFC 9800): their locator block.
var USIDBlock = netip.MustParsePrefix("fcbb:bb00::/32")

// Sizes in bits of the block and of a micro segment, and the number of micro segments in an address.
const (
	USIDBlockBits = 32
	USIDBits      = 16
	MaxUSIDs      = (128 - USIDBlockBits) / USIDBits
)

// MaxUSID is the largest number of a global micro segment; higher numbers are local to a router (RFC 9800's LIB, as
// SONiC and FRR divide them).
const MaxUSID = 0xDFFF

// HasUSIDs reports whether the fabric has few enough nodes that each gets a micro segment.
func (f *Fabric) HasUSIDs() bool { return f.Nodes() <= MaxUSID }

// USID returns a node's micro segment: its NodeID plus 1, since 0 ends a list.
func USID(id NodeID) uint16 { return uint16(id) + 1 }

// SID returns the IPv6 address that holds a list of micro segments, at most [MaxUSIDs].
func SID(ids ...NodeID) netip.Addr {
	a := USIDBlock.Addr().As16()
	for i, id := range ids {
		at := (USIDBlockBits + i*USIDBits) / 8
		a[at], a[at+1] = byte(USID(id)>>8), byte(USID(id))
	}
	return netip.AddrFrom16(a)
}

// Locator returns a node's prefix below [USIDBlock], to which other switches have routes.
func Locator(id NodeID) netip.Prefix { return netip.PrefixFrom(SID(id), USIDBlockBits+USIDBits) }

// Segments appends to ids the nodes whose micro segments replace label l from host src to host dst: the switches
// from ToR to ToR, and dst. ok is false, and ids unchanged, for a label that names no path between them, as within
// a ToR.
func (f *Fabric) Segments(ids []NodeID, src, dst NodeID, l Label) (_ []NodeID, ok bool) {
	var buf [4]Hop
	from, to := f.ToROf(src), f.ToROf(dst)
	hops, ok := f.Path(buf[:0], from, to, l)
	if !ok || from == to {
		return ids, false
	}
	for _, h := range hops {
		ids = append(ids, h.From)
	}
	return append(ids, to, dst), true
}
