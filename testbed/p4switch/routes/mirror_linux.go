package routes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/program"
)

// Tables of the kernel: main, and what IPv4 packets in outer headers look at first. The latter has the routes that take
// the header off, since one route takes it off IPv4 or IPv6 but not both.
const (
	mainTable   = unix.RT_TABLE_MAIN
	unwrapTable = 1004 // and its rule's priority
)

// sidInterface is what a route to a micro segment of the switch's own names as its interface: it must be up, and no port
// is so always.
const sidInterface = "micro-segments"

// Mirror keeps the routes of a network namespace as a switch's tables are. It is not safe for concurrent use.
type Mirror struct {
	netlink *netlink.Handle
	ports   map[uint32]*portState
	sid     int // index of sidInterface
	sw      *interp.Switch
	changed bool

	installed  map[netip.Prefix]Route
	neighbours map[neighbour]bool
	began      map[uint32]netlink.LinkStatistics // by port
}

type portState struct {
	Port
	up bool
}

type neighbour struct {
	port uint32
	mac  [6]byte
}

// Open takes the routes of the calling thread's network namespace: it has the kernel forward, and removes what another
// mirror left.
func Open(cfg Config) (*Mirror, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("routes: netlink: %w", err)
	}
	m := &Mirror{
		netlink: h, ports: map[uint32]*portState{}, installed: map[netip.Prefix]Route{}, neighbours: map[neighbour]bool{},
		began: map[uint32]netlink.LinkStatistics{},
	}
	for _, p := range cfg.Ports {
		m.ports[p.Number] = &portState{Port: p}
		l, err := h.LinkByIndex(p.Index)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("routes: %s: %w", p.Interface, err), m.Close())
		}
		if s := l.Attrs().Statistics; s != nil {
			m.began[p.Number] = *s
		}
	}
	if err := errors.Join(m.flush(), m.openSID(), m.settings(), m.addRule()); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// openSID makes the interface of micro segments: a veth pair, which every kernel has that namespaces are wired up in.
func (m *Mirror) openSID() error {
	l, err := m.netlink.LinkByName(sidInterface)
	if _, no := errors.AsType[netlink.LinkNotFoundError](err); no {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = sidInterface
		if err = m.netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: sidInterface + "2"}); err == nil {
			l, err = m.netlink.LinkByName(sidInterface)
		}
	}
	if err != nil {
		return fmt.Errorf("routes: interface %s: %w", sidInterface, err)
	}
	m.sid = l.Attrs().Index
	peer, err := m.netlink.LinkByName(sidInterface + "2")
	if err == nil {
		err = errors.Join(setIPv6(sidInterface), m.netlink.LinkSetUp(peer), m.netlink.LinkSetUp(l))
	}
	if err != nil {
		return fmt.Errorf("routes: interface %s: %w", sidInterface, err)
	}
	return nil
}

// setIPv6 has an interface speak IPv6, with no address of its own: addr_gen_mode none.
func setIPv6(name string) error {
	for _, s := range [][2]string{{"addr_gen_mode", "1"}, {"accept_ra", "0"}, {"disable_ipv6", "0"}} {
		if err := set("ipv6/conf/"+name+"/"+s[0], s[1]); err != nil {
			return err
		}
	}
	return nil
}

// settings has the kernel forward, choose next hops by ports as well as addresses, and none whose link is down.
func (m *Mirror) settings() error {
	for _, p := range m.ports {
		if err := errors.Join(setIPv6(p.Interface), set("ipv4/conf/"+p.Interface+"/rp_filter", "0")); err != nil {
			return err
		}
	}
	for _, s := range [][2]string{
		{"ipv6/conf/all/forwarding", "1"}, {"ipv4/ip_forward", "1"}, {"ipv4/conf/all/rp_filter", "0"},
		{"ipv6/conf/all/ignore_routes_with_linkdown", "1"}, {"ipv4/conf/all/ignore_routes_with_linkdown", "1"},
		{"ipv6/fib_multipath_hash_policy", "1"}, {"ipv4/fib_multipath_hash_policy", "1"},
	} {
		if err := set(s[0], s[1]); err != nil {
			return err
		}
	}
	return nil
}

func set(name, value string) error {
	if err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0o644); err != nil {
		return fmt.Errorf("routes: setting %s: %w; it takes CAP_NET_ADMIN, and IPv6 in the kernel", name, err)
	}
	return nil
}

// addRule has IPv4 in an outer header look at the routes first that take it off.
func (m *Mirror) addRule() error {
	r := netlink.NewRule()
	r.Family, r.Table, r.Priority, r.IPProto, r.Protocol = unix.AF_INET6, unwrapTable, unwrapTable, unix.IPPROTO_IPIP, Protocol
	if err := m.netlink.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("routes: rule for IPv4 in outer headers: %w", err)
	}
	return nil
}

// flush removes all routes that are known as a mirror's.
func (m *Mirror) flush() error {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		filter := &netlink.Route{Protocol: Protocol, Table: unix.RT_TABLE_UNSPEC}
		rs, err := m.netlink.RouteListFiltered(family, filter, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
		if err != nil {
			return fmt.Errorf("routes: read the kernel's: %w", err)
		}
		for i := range rs {
			r := &netlink.Route{Dst: rs[i].Dst, Table: rs[i].Table, Family: family, Protocol: Protocol, Type: rs[i].Type}
			if err := m.netlink.RouteDel(r); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("routes: remove the route to %v that another left: %w", rs[i].Dst, err)
			}
		}
	}
	return nil
}

// Use has the routes follow a switch from now on; [Mirror.Sync] makes them so. nil ends that.
func (m *Mirror) Use(sw *interp.Switch) {
	if m.sw != nil {
		m.sw.WatchTables(nil)
		m.sw.AddCounting(nil)
	}
	if m.sw = sw; sw == nil {
		return
	}
	m.changed = true
	sw.WatchTables(func(program.TableID) { m.changed = true })
	sw.AddCounting(m)
}

// SetPort says whether a port is up. [Mirror.Sync] makes the routes so.
func (m *Mirror) SetPort(number uint32, up bool) {
	p := m.ports[number]
	if p == nil || p.up == up {
		return
	}
	p.up, m.changed = up, true
	if up {
		return
	}
	// The kernel forgets the neighbours of an interface that is taken down, and its IPv6 routes. Those routes are
	// none of the desired ones from now on.
	for n := range m.neighbours {
		if n.port == number {
			delete(m.neighbours, n)
		}
	}
}

// Sync makes the routes as the switch's tables are, if these have changed: what is new or changed first, then what is
// gone goes. What an error leaves undone the next Sync does.
func (m *Mirror) Sync() error {
	if !m.changed || m.sw == nil {
		return nil
	}
	want, err := Desired(m.sw, func(port uint32) bool { return m.ports[port] != nil && m.ports[port].up })
	if err != nil {
		return err
	}
	var errs []error
	there := make(map[netip.Prefix]bool, len(want))
	for _, r := range want {
		there[r.To] = true
		if had, ok := m.installed[r.To]; ok && had.Equal(r) {
			continue
		}
		if err := m.install(r); err != nil {
			errs = append(errs, fmt.Errorf("routes: %v: %w", r.To, err))
			continue
		}
	}
	for to, r := range m.installed {
		if there[to] {
			continue
		}
		if err := m.remove(r); err != nil {
			errs = append(errs, fmt.Errorf("routes: %v: %w", to, err))
		}
	}
	m.changed = len(errs) > 0
	return errors.Join(errs...)
}

// Routes returns how many prefixes have a route.
func (m *Mirror) Routes() int { return len(m.installed) }

// Close removes the routes: a switch that has ended forwards nothing.
func (m *Mirror) Close() error {
	m.Use(nil)
	err := m.flush()
	m.netlink.Close()
	return err
}

// install makes a route.
func (m *Mirror) install(r Route) error {
	for i := range r.Hops {
		h := &r.Hops[i]
		mac := m.macOf(*h)
		if mac == [6]byte{} {
			return fmt.Errorf("the MAC address of port %d's neighbour is not known; say --neighbour %d@MAC", h.Port, h.Port)
		}
		if err := m.neighbour(neighbour{h.Port, mac}); err != nil {
			return err
		}
	}
	old, had := m.installed[r.To]
	route := m.base(r.To)
	switch r.Kind {
	case Discard:
		route.Type = unix.RTN_BLACKHOLE
	case Shift:
		route.LinkIndex, route.Encap = m.sid, nextCSID()
	case Unwrap:
		inner4 := m.base(r.To)
		inner4.LinkIndex, inner4.Encap, inner4.Table = m.sid, unwrap4(), unwrapTable
		if err := m.netlink.RouteReplace(inner4); err != nil {
			return fmt.Errorf("IPv4 in it: %w", err)
		}
		route.LinkIndex, route.Encap = m.sid, unwrap6()
	case Via:
		m.hops(route, r.Hops)
	}
	if err := m.netlink.RouteReplace(route); err != nil {
		return err
	}
	if had && old.Kind == Unwrap && r.Kind != Unwrap {
		if err := m.removeUnwrap(r.To); err != nil {
			return err
		}
	}
	m.installed[r.To] = r
	return nil
}

// base returns a route of ours to a prefix.
func (m *Mirror) base(to netip.Prefix) *netlink.Route {
	family := unix.AF_INET6
	if to.Addr().Is4() {
		family = unix.AF_INET
	}
	dst := &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), to.Addr().BitLen())}
	return &netlink.Route{Dst: dst, Family: family, Protocol: Protocol, Table: mainTable}
}

// hops has a route lead over next hops, all of them link-local IPv6 addresses.
func (m *Mirror) hops(route *netlink.Route, hops []Hop) {
	one := func(h Hop) *netlink.NexthopInfo {
		n := &netlink.NexthopInfo{LinkIndex: m.ports[h.Port].Index, Hops: h.Weight - 1}
		if via := linkLocal(m.macOf(h)); route.Family == unix.AF_INET {
			n.Via = &netlink.Via{AddrFamily: unix.AF_INET6, Addr: via}
		} else {
			n.Gw = via
		}
		return n
	}
	if len(hops) == 1 {
		n := one(hops[0])
		route.LinkIndex, route.Gw, route.Via = n.LinkIndex, n.Gw, n.Via
		return
	}
	for _, h := range hops {
		route.MultiPath = append(route.MultiPath, one(h))
	}
}

func (m *Mirror) macOf(h Hop) [6]byte {
	if h.MAC != [6]byte{} {
		return h.MAC
	}
	return m.ports[h.Port].Neighbour
}

// linkLocal makes a link-local address of a MAC address, as interfaces do.
func linkLocal(mac [6]byte) net.IP {
	return net.IP{0xfe, 0x80, 0, 0, 0, 0, 0, 0, mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}
}

// neighbour says which MAC address a next hop has.
func (m *Mirror) neighbour(n neighbour) error {
	if m.neighbours[n] {
		return nil
	}
	err := m.netlink.NeighSet(&netlink.Neigh{
		LinkIndex: m.ports[n.port].Index, Family: unix.AF_INET6, State: netlink.NUD_PERMANENT, IP: linkLocal(n.mac),
		HardwareAddr: n.mac[:],
	})
	if err != nil {
		return fmt.Errorf("neighbour %v of %s: %w", net.HardwareAddr(n.mac[:]), m.ports[n.port].Interface, err)
	}
	m.neighbours[n] = true
	return nil
}

// remove takes a route away; the kernel may have done so.
func (m *Mirror) remove(r Route) error {
	if r.Kind == Unwrap {
		if err := m.removeUnwrap(r.To); err != nil {
			return err
		}
	}
	route := m.base(r.To)
	if r.Kind == Discard {
		route.Type = unix.RTN_BLACKHOLE
	}
	if err := m.netlink.RouteDel(route); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	delete(m.installed, r.To)
	return nil
}

func (m *Mirror) removeUnwrap(to netip.Prefix) error {
	route := m.base(to)
	route.Table = unwrapTable
	if err := m.netlink.RouteDel(route); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// counterData is the program's counter of what left by each port. The kernel counts a port's packets and not whether they are
// data, so all of them are there.
const counterData = "port_tx_data"

// Counted implements [interp.Counting].
func (m *Mirror) Counted(id program.CounterID, index int) (packets, bytes uint64, err error) {
	p := m.ports[uint32(index)]
	if p == nil || m.sw.Program().Counters[id].Name != counterData {
		return 0, 0, nil
	}
	l, err := m.netlink.LinkByIndex(p.Index)
	if err != nil || l.Attrs().Statistics == nil {
		return 0, 0, err
	}
	s, began := l.Attrs().Statistics, m.began[p.Number]
	return s.TxPackets - began.TxPackets, s.TxBytes - began.TxBytes, nil
}

// CountedAt implements [interp.Counting]: of entries nothing is counted.
func (*Mirror) CountedAt(program.TableID, int) (packets, bytes uint64, err error) { return 0, 0, nil }
