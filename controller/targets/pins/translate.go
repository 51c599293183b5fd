package pins

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// switchPlace is a switch's position in the fabric, with methods that derive its table entries from it.
type switchPlace struct{ targets.SwitchPlace }

// The names of the controller's objects begin with prefix.
const prefix = "ethereal-"

// belowPriority is the priority of the entries that let packets for hosts below skip the labels.
const belowPriority = 1 << 16

const protocolUDP = "\x11"

func (p switchPlace) node() *fabric.Node { return p.Fabric.Node(p.Switch) }

// port returns PINS' name of a port: its number.
func (p switchPlace) port(no fabric.PortNo) (string, bool) {
	id, ok := p.Ports.ID(no)
	return strconv.FormatUint(uint64(id), 10), ok
}

// hopName returns the name of the next hop through a port, and of its router interface.
func hopName(port string) string { return prefix + port }

// peer returns the node at the other end of a port.
func (p switchPlace) peer(no fabric.PortNo) fabric.NodeID {
	return p.Fabric.Link(p.node().Link(no)).Peer(p.Switch).Node
}

// neighborName returns the address of a next hop: the link-local one of its MAC address.
func neighborName(mac [6]byte) string {
	a := [16]byte{0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]}
	return string(a[:])
}

func exact(field, value string) match { return match{field: field, value: value} }

func ternary(field string, value, mask uint64) match {
	return match{field: field, value: hexNumber(value), mask: hexNumber(mask)}
}

func hexNumber(v uint64) string { return trim(string(binary.BigEndian.AppendUint64(nil, v))) }

// foundation returns the entries that a switch needs before any entry of the controller, in the order of
// references: each part refers only to earlier ones.
func (p switchPlace) foundation() [][]row {
	parts := make([][]row, 4)
	n := p.node()
	src := p.Fabric.MAC(p.Switch)
	for no := fabric.PortNo(1); int(no) <= n.Ports(); no++ {
		port, ok := p.port(no)
		if !ok {
			continue // entries for it are refused
		}
		mac := p.Fabric.MAC(p.peer(no))
		id, addr := exact("router_interface_id", hopName(port)), exact("neighbor_id", trim(neighborName(mac)))
		parts[0] = append(parts[0], row{table: interfaceTable, match: []match{id},
			action: "unicast_set_port_and_src_mac", args: []string{port, trim(string(src[:]))}})
		parts[1] = append(parts[1], row{table: neighborTable, match: []match{id, addr},
			action: "set_dst_mac", args: []string{trim(string(mac[:]))}})
		parts[2] = append(parts[2], row{table: nexthopTable, match: []match{exact("nexthop_id", hopName(port))},
			action: "set_ip_nexthop", args: []string{hopName(port), addr.value}})
	}
	// Hosts send to other hosts' MAC addresses: every unicast address is routed.
	parts[3] = append(parts[3], row{table: admitTable, priority: 1, match: []match{ternary("dst_mac", 0, 1<<40)}, action: "admit_to_l3"})
	if v4, v6, ok := p.hostPrefixes(); ok {
		a, b := v4.Addr().As4(), v6.Addr().As16()
		parts[3] = append(parts[3],
			row{table: aclTable, priority: belowPriority, action: "acl_forward", match: []match{
				exact("is_ipv4", "\x01"), ternary("dst_ip", uint64(binary.BigEndian.Uint32(a[:])), (1<<v4.Bits()-1)<<(32-v4.Bits())),
			}},
			row{table: aclTable, priority: belowPriority, action: "acl_forward", match: []match{
				exact("is_ipv6", "\x01"), ternary("dst_ipv6", binary.BigEndian.Uint64(b[:]), ^uint64(0)<<(64-v6.Bits())),
			}})
	}
	return parts
}

// hostPrefixes returns the prefixes of the hosts below a switch with uplinks.
func (p switchPlace) hostPrefixes() (v4, v6 netip.Prefix, ok bool) {
	switch n := p.node(); n.Tier {
	case fabric.ToR:
		return p.Fabric.ToRPrefix4(p.Switch), p.Fabric.ToRPrefix6(p.Switch), n.Uplinks() > 0
	case fabric.Aggregation:
		return p.Fabric.PodPrefix4(n.Pod), p.Fabric.PodPrefix6(n.Pod), true
	}
	return v4, v6, false
}

// toRow returns the row of an entry of the controller's core; with keyOnly its action stays empty.
func (p switchPlace) toRow(e controller.Entry, keyOnly bool) (row, error) {
	r := row{}
	switch e.Table {
	case controller.RouteV4, controller.RouteV6:
		r.table = v4Table
		field, bits, value := "ipv4_dst", 32, hexNumber(e.Value.Lo)
		if e.Table == controller.RouteV6 {
			r.table, field, bits = v6Table, "ipv6_dst", 128
			value = trim(string(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, e.Value.Hi), e.Value.Lo)))
		}
		if int(e.PrefixLen) > bits {
			return r, fmt.Errorf("the prefix is longer than %d bits", bits)
		}
		r.match = []match{exact("vrf_id", "")}
		if e.PrefixLen > 0 {
			r.match = append(r.match, match{field: field, value: value, prefix: int32(e.PrefixLen)})
		}
	case controller.ECMP:
		r.table, r.match = groupTable, []match{exact("wcmp_group_id", prefix+strconv.FormatUint(e.Value.Lo, 10))}
	case controller.SourceRoute:
		const port = uint64(fabric.FirstLabelPort)
		r.table, r.priority = aclTable, e.Priority
		r.match = []match{exact("is_ip", "\x01"), {field: "ip_protocol", value: protocolUDP, mask: "\xff"},
			ternary("l4_src_port", port|e.Value.Lo, port|e.Mask), ternary("l4_dst_port", fabric.RoCEPort, 0xffff)}
		if e.Priority < 1 || e.Priority >= belowPriority {
			return r, fmt.Errorf("the priority must be 1 to %d", belowPriority-1)
		}
	case controller.LabelCarrier:
		return r, fmt.Errorf("sai_p4 looks for labels in the UDP source port alone; set carrier_v4 and carrier_v6 to udp-sport")
	default:
		return r, fmt.Errorf("sai_p4 has no such table")
	}
	if keyOnly {
		return r, nil
	}
	to := func(no fabric.PortNo) (string, error) {
		if no < 1 || int(no) > p.node().Ports() {
			return "", fmt.Errorf("the switch has no port %d", no)
		}
		port, ok := p.port(no)
		if !ok {
			return "", fmt.Errorf("port %d is not mapped", no)
		}
		return port, nil
	}
	switch e.Action {
	case controller.Discard:
		r.action = "drop"
		return r, nil
	case controller.ForwardUp:
		r.action, r.args = "set_wcmp_group_id", []string{prefix + strconv.FormatUint(e.Args[0], 10)}
		return r, nil
	case controller.Deliver, controller.ForwardDown:
		no := fabric.PortNo(e.Args[0])
		port, err := to(no)
		if err == nil && e.Action == controller.Deliver && e.Args[1] != macNumber(p.Fabric.MAC(p.peer(no))) {
			err = fmt.Errorf("the MAC address is not that of port %d's host", no)
		}
		r.action, r.args = "set_nexthop_id", []string{hopName(port)}
		return r, err
	case controller.TakeUplink:
		if e.Table == controller.SourceRoute {
			port, err := to(fabric.PortNo(e.Args[0]))
			r.action, r.args = "redirect_to_nexthop", []string{hopName(port)}
			return r, err
		}
		for _, m := range e.Members {
			port, err := to(m.Port)
			if err != nil {
				return r, err
			}
			r.shares = append(r.shares, memberWeight{hopName(port), m.Weight, port})
		}
		return r, nil
	}
	return r, fmt.Errorf("sai_p4 has no such action")
}

func macNumber(mac [6]byte) uint64 {
	return uint64(binary.BigEndian.Uint16(mac[:]))<<32 | uint64(binary.BigEndian.Uint32(mac[2:]))
}

// switchContent is the controller's entries and other content read from a switch.
type switchContent struct {
	Entries     []controller.Entry
	Broken      []controller.Entry // keys of existing entries whose action none of the core's entries has
	missingRows [][]row            // of the foundation, in its order: missing or different entries
	presentKeys map[string]bool    // keys of existing rows
}

// fromRows converts rows read from a switch to the controller's entries. It skips rows that the controller did not
// write.
func (p switchPlace) fromRows(rows []row) switchContent {
	f := switchContent{presentKeys: map[string]bool{}}
	byKey := map[string]*row{}
	for i := range rows {
		byKey[rows[i].key()] = &rows[i]
		f.presentKeys[rows[i].key()] = true
	}
	lacks := map[string]bool{} // by table, or by next hop
	for _, part := range p.foundation() {
		var missing []row
		for i, want := range part {
			have := byKey[want.key()]
			if have != nil && have.same(&want) {
				continue
			}
			missing = append(missing, part[i])
			switch want.table {
			case admitTable, aclTable:
				lacks[want.table] = true
			default: // all three name the interface, or have its name
				lacks[hopOf(&want)] = true
			}
		}
		f.missingRows = append(f.missingRows, missing)
	}
	if lacks[admitTable] { // without it nothing is routed
		lacks[v4Table], lacks[v6Table], lacks[aclTable] = true, true, true
	}
	hops := map[string]fabric.PortNo{} // correct next hops
	for no := fabric.PortNo(1); int(no) <= p.node().Ports(); no++ {
		if port, ok := p.port(no); ok && !lacks[hopName(port)] {
			hops[hopName(port)] = no
		}
	}
	groups := map[uint64]bool{} // correct groups
	for _, group := range []bool{true, false} {
		for i := range rows {
			r := &rows[i]
			e, ours := p.key(r)
			if !ours || group != (r.table == groupTable) {
				continue
			}
			does := !lacks[r.table] && p.fillAction(r, hops, &e) && (e.Action != controller.ForwardUp || groups[e.Args[0]])
			if does {
				f.Entries = append(f.Entries, e)
			} else {
				f.Broken = append(f.Broken, controller.Entry{Key: e.Key})
			}
			if group {
				groups[e.Value.Lo] = does
			}
		}
	}
	return f
}

// hopOf returns the next hop to which a row of the foundation belongs.
func hopOf(r *row) string {
	if r.table == nexthopTable {
		return r.args[0]
	}
	return r.match[0].value
}

// key returns the key of the core's entry that a row represents.
func (p switchPlace) key(r *row) (e controller.Entry, ours bool) {
	switch r.table {
	case v4Table, v6Table:
		field, bits := "ipv4_dst", 32
		e.Table = controller.RouteV4
		if r.table == v6Table {
			field, bits, e.Table = "ipv6_dst", 128, controller.RouteV6
		}
		if vrf, ok := r.get("vrf_id"); !ok || vrf.value != "" {
			return e, false
		}
		if m, ok := r.get(field); ok {
			if len(m.value) > bits/8 || m.prefix < 1 || int(m.prefix) > bits {
				return e, false
			}
			e.PrefixLen = uint8(m.prefix)
			e.Value = parseValue(m.value)
		}
	case groupTable:
		m, _ := r.get("wcmp_group_id")
		digits, ok := strings.CutPrefix(m.value, prefix)
		n, err := strconv.ParseUint(digits, 10, 16)
		if !ok || err != nil || digits != strconv.FormatUint(n, 10) {
			return e, false
		}
		e.Table, e.Value.Lo = controller.ECMP, n
	case aclTable:
		m, ok := r.get("l4_src_port")
		value, mask := parseValue(m.value).Lo, parseValue(m.mask).Lo
		const port = uint64(fabric.FirstLabelPort)
		if !ok || value&port != port || mask&port != port {
			return e, false
		}
		e.Key = controller.Key{Table: controller.SourceRoute, Priority: r.priority,
			Value: controller.Value{Lo: value &^ port}, Mask: mask &^ port}
		same, err := p.toRow(e, true)
		return e, err == nil && same.key() == r.key()
	default:
		return e, false
	}
	return e, true
}

// fillAction fills in a row's action, if the core has an equivalent one.
func (p switchPlace) fillAction(r *row, hops map[string]fabric.PortNo, e *controller.Entry) bool {
	switch {
	case r.table == groupTable:
		for _, s := range r.shares {
			no, ok := hops[s.nexthop]
			if port, _ := p.port(no); !ok || s.weight < 1 || s.watch != "" && s.watch != port {
				return false
			}
			e.Members = append(e.Members, controller.Member{Port: no, Weight: s.weight})
		}
		e.Action = controller.TakeUplink
		slices.SortFunc(e.Members, func(a, b controller.Member) int { return int(a.Port) - int(b.Port) })
		return len(e.Members) > 0
	case r.action == "drop":
		e.Action = controller.Discard
		return true
	case r.action == "set_wcmp_group_id":
		digits, ok := strings.CutPrefix(r.args[0], prefix)
		n, err := strconv.ParseUint(digits, 10, 16)
		e.Action, e.Args[0] = controller.ForwardUp, n
		return ok && err == nil
	case r.action == "set_nexthop_id":
		no, ok := hops[r.args[0]]
		if !ok {
			return false
		}
		e.Args[0] = uint64(no)
		e.Action = controller.ForwardDown
		if peer := p.peer(no); p.Fabric.Node(peer).Tier == fabric.Host {
			e.Action, e.Args[1] = controller.Deliver, macNumber(p.Fabric.MAC(peer))
		} else if no >= p.node().FirstUplink() {
			return false // the core uses groups to send up
		}
		return true
	case r.action == "redirect_to_nexthop":
		no, ok := hops[r.args[0]]
		e.Action, e.Args[0] = controller.TakeUplink, uint64(no)
		return ok
	}
	return false
}

// parseValue reads a number of at most 128 bits.
func parseValue(s string) (v controller.Value) {
	for _, b := range []byte(s) {
		v.Hi, v.Lo = v.Hi<<8|v.Lo>>56, v.Lo<<8|uint64(b)
	}
	return v
}
