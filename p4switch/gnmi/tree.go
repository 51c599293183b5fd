package gnmi

import (
	"cmp"
	"encoding/json"
	"net"
	"strconv"
	"strings"

	gnmipb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
)

// class is a leaf's class in YANG's division of data.
type class uint8

const (
	keyLeaf         class = iota // the leaf that is the list's key: the interface name
	configLeaf                   // a settable leaf: YANG's "config true"
	stateLeaf                    // config false, applied configuration
	operationalLeaf              // config false, not from configuration
)

// kind is a leaf's YANG type, as far as encodings distinguish types.
type kind uint8

const (
	stringKind kind = iota // strings and enumerations
	identityKind
	boolKind
	uint32Kind
	uint64Kind // 64-bit integers, which JSON_IETF writes as strings
)

// value is a leaf's value.
type value struct {
	kind kind
	s    string
	u    uint64
}

func stringValue(s string) value { return value{kind: stringKind, s: s} }
func uint64Value(u uint64) value { return value{kind: uint64Kind, u: u} }
func uint32Value(u uint32) value { return value{kind: uint32Kind, u: uint64(u)} }
func boolValue(b bool) value {
	v := value{kind: boolKind}
	if b {
		v.u = 1
	}
	return v
}

// setting is a settable property of a port. Several leaves may set the same one.
type setting uint8

const (
	readOnly setting = iota
	adminSetting
	viableSetting
	healthSetting
)

// defaultSettings are the settings' default values.
var defaultSettings = [...]value{adminSetting: boolValue(true), viableSetting: boolValue(true), healthSetting: stringValue("GOOD")}

// settingNames are the settings' leaves, for errors.
var settingNames = [...]string{adminSetting: "enabled", viableSetting: "forwarding-viable", healthSetting: "health-indicator"}

// leafSpec is one leaf below interfaces/interface[name].
type leafSpec struct {
	path        []string
	module      string // of the last element, if it differs from outer
	outerModule string // of the path's other elements, if it is not openconfig-interfaces
	class       class
	counter     bool                        // sampled; others are sent on change
	castCounter bool                        // absent unless Ports.Casts
	setting     setting                     // the setting that a Set of the leaf changes
	isPresent   func(*portstate.State) bool // absent for other ports; nil: present for all
	get         func(*portstate.State, *portstate.Counters) value
}

const (
	interfacesModule = "openconfig-interfaces"
	ethernetModule   = "openconfig-if-ethernet"
	sdnModule        = "openconfig-if-sdn-ext"
	herculesModule   = "openconfig-hercules-interfaces" // YANG module of Hercules' port settings
)

func upDown(up bool) value {
	if up {
		return stringValue("UP")
	}
	return stringValue("DOWN")
}

func counterLeaf(name string, get func(*portstate.Counters) uint64) leafSpec {
	return leafSpec{
		path: []string{"state", "counters", name}, class: operationalLeaf, counter: true,
		get: func(_ *portstate.State, c *portstate.Counters) value { return uint64Value(get(c)) },
	}
}

// castLeaf is a counter that only some data paths have.
func castLeaf(name string, get func(*portstate.Counters) uint64) leafSpec {
	l := counterLeaf(name, get)
	l.castCounter = true
	return l
}

// leaves is the tree below interfaces/interface[name], in schema order. It is never changed.
var leaves = []leafSpec{
	{path: []string{"name"}, class: keyLeaf, get: func(s *portstate.State, _ *portstate.Counters) value { return stringValue(s.Name) }},
	{path: []string{"config", "name"}, class: configLeaf, get: func(s *portstate.State, _ *portstate.Counters) value { return stringValue(s.Name) }},
	{path: []string{"config", "type"}, class: configLeaf, get: interfaceType},
	{path: []string{"config", "mtu"}, class: configLeaf, isPresent: hasMTU, get: mtu},
	{path: []string{"config", "enabled"}, class: configLeaf, setting: adminSetting, get: func(s *portstate.State, _ *portstate.Counters) value { return boolValue(s.Enabled) }},
	{path: []string{"config", "id"}, module: "openconfig-p4rt", class: configLeaf, get: func(s *portstate.State, _ *portstate.Counters) value { return uint32Value(s.Number) }},
	{path: []string{"config", "forwarding-viable"}, module: sdnModule, class: configLeaf, setting: viableSetting, get: linkViable},
	{path: []string{"config", "health-indicator"}, module: herculesModule, class: configLeaf, setting: healthSetting, get: healthConfig},
	{path: []string{"state", "name"}, class: stateLeaf, get: func(s *portstate.State, _ *portstate.Counters) value { return stringValue(s.Name) }},
	{path: []string{"state", "type"}, class: stateLeaf, get: interfaceType},
	{path: []string{"state", "mtu"}, class: stateLeaf, isPresent: hasMTU, get: mtu},
	{path: []string{"state", "enabled"}, class: stateLeaf, get: func(s *portstate.State, _ *portstate.Counters) value { return boolValue(s.Enabled) }},
	{path: []string{"state", "id"}, module: "openconfig-p4rt", class: stateLeaf, get: func(s *portstate.State, _ *portstate.Counters) value { return uint32Value(s.Number) }},
	{path: []string{"state", "ifindex"}, class: operationalLeaf, get: func(s *portstate.State, _ *portstate.Counters) value { return uint32Value(s.IfIndex) }},
	{path: []string{"state", "admin-status"}, class: operationalLeaf, get: func(s *portstate.State, _ *portstate.Counters) value { return upDown(s.Enabled) }},
	{path: []string{"state", "oper-status"}, class: operationalLeaf, get: func(s *portstate.State, _ *portstate.Counters) value { return upDown(s.Oper) }},
	{path: []string{"state", "last-change"}, class: operationalLeaf, get: func(s *portstate.State, _ *portstate.Counters) value { return uint64Value(uint64(s.LastChange)) }},
	{path: []string{"state", "forwarding-viable"}, module: sdnModule, class: operationalLeaf, get: viableNow},
	{path: []string{"state", "health-indicator"}, module: herculesModule, class: operationalLeaf, get: configuredHealth},
	{path: []string{"ethernet", "config", "mac-address"}, outerModule: ethernetModule, class: configLeaf, isPresent: hasMAC, get: macAddress},
	{path: []string{"ethernet", "config", "port-speed"}, outerModule: ethernetModule, class: configLeaf, isPresent: hasSpeed, get: portSpeed},
	{path: []string{"ethernet", "config", "auto-negotiate"}, outerModule: ethernetModule, class: configLeaf, isPresent: hasAutoneg, get: autoneg},
	{
		path: []string{"ethernet", "config", "forwarding-viable"}, module: herculesModule, outerModule: ethernetModule,
		class: configLeaf, setting: viableSetting, get: linkViable,
	},
	{path: []string{"ethernet", "state", "mac-address"}, outerModule: ethernetModule, class: stateLeaf, isPresent: hasMAC, get: macAddress},
	{path: []string{"ethernet", "state", "hw-mac-address"}, outerModule: ethernetModule, class: operationalLeaf, isPresent: hasMAC, get: macAddress},
	{path: []string{"ethernet", "state", "port-speed"}, outerModule: ethernetModule, class: operationalLeaf, get: portSpeed},
	{path: []string{"ethernet", "state", "negotiated-port-speed"}, outerModule: ethernetModule, class: operationalLeaf, isPresent: hasSpeed, get: portSpeed},
	{path: []string{"ethernet", "state", "auto-negotiate"}, outerModule: ethernetModule, class: stateLeaf, isPresent: hasAutoneg, get: autoneg},
	{path: []string{"ethernet", "state", "forwarding-viable"}, module: herculesModule, outerModule: ethernetModule, class: operationalLeaf, get: viableNow},
	counterLeaf("in-octets", func(c *portstate.Counters) uint64 { return c.InOctets }),
	counterLeaf("in-pkts", func(c *portstate.Counters) uint64 { return c.InPkts }),
	castLeaf("in-unicast-pkts", func(c *portstate.Counters) uint64 { return c.InPkts - min(c.InPkts, c.InMulticast+c.InBroadcast) }),
	castLeaf("in-broadcast-pkts", func(c *portstate.Counters) uint64 { return c.InBroadcast }),
	castLeaf("in-multicast-pkts", func(c *portstate.Counters) uint64 { return c.InMulticast }),
	counterLeaf("in-discards", func(c *portstate.Counters) uint64 { return c.InDiscards }),
	counterLeaf("in-errors", func(c *portstate.Counters) uint64 { return c.InErrors }),
	counterLeaf("in-fcs-errors", func(c *portstate.Counters) uint64 { return c.InFCSErrors }),
	// A switch without its own protocols discards no packet for its protocol. in-discards counts the program's
	// drops.
	counterLeaf("in-unknown-protos", func(*portstate.Counters) uint64 { return 0 }),
	counterLeaf("out-octets", func(c *portstate.Counters) uint64 { return c.OutOctets }),
	counterLeaf("out-pkts", func(c *portstate.Counters) uint64 { return c.OutPkts }),
	castLeaf("out-unicast-pkts", func(c *portstate.Counters) uint64 { return c.OutPkts - min(c.OutPkts, c.OutMulticast+c.OutBroadcast) }),
	castLeaf("out-broadcast-pkts", func(c *portstate.Counters) uint64 { return c.OutBroadcast }),
	castLeaf("out-multicast-pkts", func(c *portstate.Counters) uint64 { return c.OutMulticast }),
	counterLeaf("out-discards", func(c *portstate.Counters) uint64 { return c.OutDiscards }),
	counterLeaf("out-errors", func(c *portstate.Counters) uint64 { return c.OutErrors }),
	{
		path: []string{"state", "counters", "carrier-transitions"}, class: operationalLeaf, counter: true,
		get: func(s *portstate.State, _ *portstate.Counters) value { return uint64Value(s.Changes) },
	},
}

func interfaceType(*portstate.State, *portstate.Counters) value {
	return value{kind: identityKind, s: "iana-if-type:ethernetCsmacd"}
}

func portSpeed(s *portstate.State, _ *portstate.Counters) value {
	speed := s.Speed
	if speed == "" {
		speed = "SPEED_UNKNOWN"
	}
	return value{kind: identityKind, s: "openconfig-if-ethernet:" + speed}
}

func hasMAC(s *portstate.State) bool   { return s.MAC != [6]byte{} }
func hasSpeed(s *portstate.State) bool { return s.Speed != "" }

func macAddress(s *portstate.State, _ *portstate.Counters) value {
	return stringValue(net.HardwareAddr(s.MAC[:]).String())
}

func hasMTU(s *portstate.State) bool { return s.MTU != 0 }

func mtu(s *portstate.State, _ *portstate.Counters) value { return uint32Value(uint32(s.MTU)) }

func hasAutoneg(s *portstate.State) bool { return s.Autoneg != nil }

func autoneg(s *portstate.State, _ *portstate.Counters) value {
	return boolValue(s.Autoneg != nil && *s.Autoneg)
}

func linkViable(s *portstate.State, _ *portstate.Counters) value { return boolValue(s.Viable) }

func viableNow(s *portstate.State, _ *portstate.Counters) value {
	return boolValue(s.Viable && s.Enabled)
}

func healthConfig(s *portstate.State, _ *portstate.Counters) value { return stringValue(s.Health) }

// configuredHealth returns the configured health of a port. If that is good, it returns whether an enabled port has a
// link.
func configuredHealth(s *portstate.State, _ *portstate.Counters) value {
	switch {
	case s.Health != "GOOD":
		return stringValue(s.Health)
	case !s.Enabled:
		return stringValue("UNKNOWN")
	case s.Oper:
		return stringValue("GOOD")
	}
	return stringValue("BAD")
}

// leafRef identifies a leaf of a port.
type leafRef struct {
	port int // index into Ports.States
	leaf int // index into leaves
}

// snapshot reads all leaves of a port; counters are zero without c.
func snapshot(s *portstate.State, c *portstate.Counters) []value {
	if c == nil {
		c = &portstate.Counters{}
	}
	out := make([]value, len(leaves))
	for i := range leaves {
		out[i] = leaves[i].get(s, c)
	}
	return out
}

// leafReader reads leaves, and each port's counters once.
type leafReader struct {
	g        *Core
	port     int
	counters *portstate.Counters
}

func (rd *leafReader) readLeaf(r leafRef) value {
	s := rd.g.cfg.Ports.States()[r.port]
	l := &leaves[r.leaf]
	if l.counter && (rd.counters == nil || rd.port != r.port) {
		c := rd.g.cfg.Ports.Count(s.Number)
		rd.port, rd.counters = r.port, &c
	}
	return l.get(s, rd.counters)
}

// leafPath returns the full path of a leaf.
func (g *Core) leafPath(r leafRef) []*gnmipb.PathElem {
	out := []*gnmipb.PathElem{
		{Name: "interfaces"},
		{Name: "interface", Key: map[string]string{"name": g.cfg.Ports.States()[r.port].Name}},
	}
	for _, name := range leaves[r.leaf].path {
		out = append(out, &gnmipb.PathElem{Name: name})
	}
	return out
}

// json returns the value in the form that encoding/json writes.
func (v value) json(ietf bool) any {
	switch v.kind {
	case boolKind:
		return v.u == 1
	case uint32Kind:
		return v.u
	case uint64Kind:
		if ietf {
			return strconv.FormatUint(v.u, 10)
		}
		return v.u
	case identityKind:
		if !ietf {
			return v.s[strings.Index(v.s, ":")+1:]
		}
	}
	return v.s
}

// typed returns the value of a leaf in an encoding.
func (v value) typed(e gnmipb.Encoding) (*gnmipb.TypedValue, error) {
	switch e {
	case gnmipb.Encoding_JSON, gnmipb.Encoding_JSON_IETF:
		return typedJSON(v.json(e == gnmipb.Encoding_JSON_IETF), e)
	}
	switch v.kind {
	case boolKind:
		return &gnmipb.TypedValue{Value: &gnmipb.TypedValue_BoolVal{BoolVal: v.u == 1}}, nil
	case uint32Kind, uint64Kind:
		return &gnmipb.TypedValue{Value: &gnmipb.TypedValue_UintVal{UintVal: v.u}}, nil
	}
	return &gnmipb.TypedValue{Value: &gnmipb.TypedValue_StringVal{StringVal: v.s}}, nil
}

func typedJSON(x any, e gnmipb.Encoding) (*gnmipb.TypedValue, error) {
	b, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	if e == gnmipb.Encoding_JSON_IETF {
		return &gnmipb.TypedValue{Value: &gnmipb.TypedValue_JsonIetfVal{JsonIetfVal: b}}, nil
	}
	return &gnmipb.TypedValue{Value: &gnmipb.TypedValue_JsonVal{JsonVal: b}}, nil
}

// encodeUpdates encodes leaves: PROTO as one update each, JSON as one subtree per node of the pattern.
func (g *Core) encodeUpdates(pat *pattern, refs []leafRef, e gnmipb.Encoding) ([]*gnmipb.Update, error) {
	rd := &leafReader{g: g}
	var out []*gnmipb.Update
	if e == gnmipb.Encoding_PROTO {
		for _, r := range refs {
			v, err := rd.readLeaf(r).typed(e)
			if err != nil {
				return nil, err
			}
			out = append(out, &gnmipb.Update{Path: &gnmipb.Path{Elem: g.leafPath(r)}, Val: v})
		}
		return out, nil
	}
	for len(refs) > 0 {
		depth := pat.depthIn(len(g.leafPath(refs[0])))
		n := 1
		for n < len(refs) && pat.depthIn(len(g.leafPath(refs[n]))) == depth && g.samePrefix(refs[0], refs[n], depth) {
			n++
		}
		u, err := g.encodeSubtree(rd, refs[:n], depth, e)
		if err != nil {
			return nil, err
		}
		out = append(out, u)
		refs = refs[n:]
	}
	return out, nil
}

// samePrefix reports whether two leaves are below the same node.
func (g *Core) samePrefix(a, b leafRef, depth int) bool {
	if depth < 2 {
		return true
	}
	if a.port != b.port {
		return false
	}
	pa, pb := leaves[a.leaf].path, leaves[b.leaf].path
	for i := range depth - 2 {
		if i >= len(pa) || i >= len(pb) || pa[i] != pb[i] {
			return false
		}
	}
	return true
}

// encodeSubtree encodes the leaves below one node as JSON.
func (g *Core) encodeSubtree(rd *leafReader, refs []leafRef, depth int, e gnmipb.Encoding) (*gnmipb.Update, error) {
	ietf := e == gnmipb.Encoding_JSON_IETF
	path := g.leafPath(refs[0])
	u := &gnmipb.Update{Path: &gnmipb.Path{Elem: path[:depth]}}
	var err error
	if depth == len(path) {
		u.Val, err = rd.readLeaf(refs[0]).typed(e)
		return u, err
	}
	qualified := func(module, name string, top bool) string {
		if ietf && (top || module != interfacesModule) {
			return module + ":" + name
		}
		return name
	}
	root := map[string]any{}
	var list []any
	var item map[string]any
	last := -1
	for _, r := range refs {
		node, below := root, leaves[r.leaf].path
		if depth < 2 {
			if r.port != last {
				item, last = map[string]any{}, r.port
				list = append(list, item)
			}
			node = item
		} else {
			below = below[depth-2:]
		}
		for i, name := range below {
			l := &leaves[r.leaf]
			outer := cmp.Or(l.outerModule, interfacesModule)
			module, top := outer, depth >= 2 && i == 0
			if i == len(below)-1 {
				module = cmp.Or(l.module, outer)
			}
			key := qualified(module, name, top)
			if module == outer && !top && i+len(l.path)-len(below) > 0 {
				key = name // as its parent
			}
			if i == len(below)-1 {
				node[key] = rd.readLeaf(r).json(ietf)
				break
			}
			next, ok := node[key].(map[string]any)
			if !ok {
				next = map[string]any{}
				node[key] = next
			}
			node = next
		}
	}
	switch depth {
	case 0:
		root[qualified(interfacesModule, "interfaces", true)] = map[string]any{"interface": list}
	case 1:
		root[qualified(interfacesModule, "interface", true)] = list
	}
	u.Val, err = typedJSON(root, e)
	return u, err
}
