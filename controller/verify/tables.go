package verify

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// tables is a switch's tables, indexed for lookup.
type tables struct {
	routes     [2][]prefixes // by family; longest first
	groups     map[uint64]*controller.Entry
	first      *controller.Entry   // group 0, which most packets use
	labels     []*controller.Entry // by descending priority
	carrier    [2]controller.Action
	uplink     map[fabric.PortNo]uint64 // uplink_of_port
	port       map[uint64]fabric.PortNo // port_of_uplink
	clones     map[uint64]fabric.PortNo // clone sessions
	guards     []*controller.Entry      // of source_guard
	ownSegment uint64                   // of own_segment: the block and the switch's micro segment; 0: none
	uplinks    uint64                   // of set_device
	quench     bool

	noQuench bool // as in Network.NoQuench
}

// prefixes are the routes of one prefix length.
type prefixes struct {
	bits   int
	routes map[controller.Value]*controller.Entry
}

func newTables(entries []controller.Entry) *tables {
	t := &tables{
		groups: map[uint64]*controller.Entry{}, uplink: map[fabric.PortNo]uint64{},
		port: map[uint64]fabric.PortNo{}, clones: map[uint64]fabric.PortNo{},
	}
	for i := range entries {
		switch e := &entries[i]; e.Table {
		case controller.RouteV4:
			t.addRoute(0, e)
		case controller.RouteV6:
			t.addRoute(1, e)
		case controller.ECMP:
			t.groups[e.Value.Lo] = e
			if e.Value.Lo == 0 {
				t.first = e
			}
		case controller.SourceRoute:
			t.labels = append(t.labels, e)
		case controller.LabelCarrier:
			if e.Value.Lo < 2 {
				t.carrier[e.Value.Lo] = e.Action
			}
		case controller.UplinkOfPort:
			t.uplink[fabric.PortNo(e.Value.Lo)] = e.Args[0]
		case controller.PortOfUplink:
			t.port[e.Value.Lo] = fabric.PortNo(e.Args[0])
		case controller.OwnSegment:
			t.ownSegment = e.Value.Lo
		case controller.SourceGuard:
			t.guards = append(t.guards, e)
		case controller.CloneSession:
			t.clones[e.Value.Lo] = fabric.PortNo(e.Args[0])
		case controller.Device:
			t.uplinks, t.quench = e.Args[3], e.Args[5] != controller.NeverQuench
		}
	}
	for f := range t.routes {
		slices.SortFunc(t.routes[f], func(a, b prefixes) int { return cmp.Compare(b.bits, a.bits) })
	}
	slices.SortStableFunc(t.labels, func(a, b *controller.Entry) int { return cmp.Compare(b.Priority, a.Priority) })
	return t
}

func (t *tables) addRoute(family int, e *controller.Entry) {
	i := slices.IndexFunc(t.routes[family], func(p prefixes) bool { return p.bits == int(e.PrefixLen) })
	if i < 0 {
		i = len(t.routes[family])
		t.routes[family] = append(t.routes[family], prefixes{int(e.PrefixLen), map[controller.Value]*controller.Entry{}})
	}
	t.routes[family][i].routes[e.Value] = e
}

// destination is an address as a lookup key of route tables.
type destination struct {
	host   fabric.NodeID
	addr   netip.Addr
	family int // 0 IPv4, 1 IPv6
	value  controller.Value
}

func newDestination(host fabric.NodeID, addr netip.Addr) destination {
	d := destination{host: host, addr: addr, value: controller.AddrValue(addr)}
	if addr.Is6() {
		d.family = 1
	}
	return d
}

// maskAddress returns an address with all bits after the first ones zero.
func maskAddress(v controller.Value, family, bits int) controller.Value {
	if family == 0 {
		v.Lo &= ^uint64(0) << (32 - min(bits, 32))
		return v
	}
	if bits <= 64 {
		return controller.Value{Hi: v.Hi & (^uint64(0) << (64 - bits))}
	}
	v.Lo &= ^uint64(0) << (128 - bits)
	return v
}

// shiftSegments returns the outer destination after table own_segment: without the switch's own micro segment, if that
// is first.
func (t *tables) shiftSegments(v controller.Value) controller.Value {
	const block = uint64(1<<fabric.USIDBlockBits-1) << 32
	if t.ownSegment == 0 || v.Hi>>16 != t.ownSegment {
		return v
	}
	return controller.Value{Hi: v.Hi&block | v.Hi<<16&^block | v.Lo>>48, Lo: v.Lo << 16}
}

// route returns the entry with the longest matching prefix; nil if there is none.
func (t *tables) route(v controller.Value, family int) *controller.Entry {
	for _, p := range t.routes[family] {
		if e, ok := p.routes[maskAddress(v, family, p.bits)]; ok {
			return e
		}
	}
	return nil
}

// group returns an ECMP group; nil if there is none.
func (t *tables) group(n uint64) *controller.Entry {
	if n == 0 {
		return t.first
	}
	return t.groups[n]
}

// label returns the entry that matches a label; nil if there is none.
func (t *tables) label(l fabric.Label) *controller.Entry {
	for _, e := range t.labels {
		if uint64(l)&e.Mask == e.Value.Lo {
			return e
		}
	}
	return nil
}
