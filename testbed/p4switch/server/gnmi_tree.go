package server

import (
	"encoding/json"
	"strconv"
	"strings"

	gnmi "github.com/openconfig/gnmi/proto/gnmi"
)

// class is a leaf's part in YANG's division of data.
type class uint8

const (
	keyLeaf         class = iota // the list key
	configLeaf                   // config true
	stateLeaf                    // config false, applied configuration
	operationalLeaf              // config false, of the switch's own doing
)

// kind is a leaf's YANG type, as far as encodings tell types apart.
type kind uint8

const (
	stringKind kind = iota // and enumerations
	identityKind
	boolKind
	uint32Kind
	uint64Kind // a string in JSON_IETF
)

// value is a leaf's value.
type value struct {
	kind kind
	s    string
	u    uint64
}

func text(s string) value   { return value{kind: stringKind, s: s} }
func number(u uint64) value { return value{kind: uint64Kind, u: u} }
func small(u uint32) value  { return value{kind: uint32Kind, u: uint64(u)} }
func boolean(b bool) value {
	v := value{kind: boolKind}
	if b {
		v.u = 1
	}
	return v
}

// leafSpec is one leaf below interfaces/interface[name].
type leafSpec struct {
	path    []string
	module  string // of the last element, where it is not openconfig-interfaces
	class   class
	counter bool // sampled; others are sent on change
	get     func(*PortState, *Counters) value
}

const interfacesModule = "openconfig-interfaces"

func upDown(up bool) value {
	if up {
		return text("UP")
	}
	return text("DOWN")
}

func counterLeaf(name string, get func(*Counters) uint64) leafSpec {
	return leafSpec{
		path: []string{"state", "counters", name}, class: operationalLeaf, counter: true,
		get: func(_ *PortState, c *Counters) value { return number(get(c)) },
	}
}

// leaves is the tree below interfaces/interface[name], in schema order. It is
// never changed.
var leaves = []leafSpec{
	{path: []string{"name"}, class: keyLeaf, get: func(s *PortState, _ *Counters) value { return text(s.Name) }},
	{path: []string{"config", "name"}, class: configLeaf, get: func(s *PortState, _ *Counters) value { return text(s.Name) }},
	{path: []string{"config", "type"}, class: configLeaf, get: ethernet},
	{path: []string{"config", "enabled"}, class: configLeaf, get: func(s *PortState, _ *Counters) value { return boolean(s.Enabled) }},
	{path: []string{"config", "id"}, module: "openconfig-p4rt", class: configLeaf, get: func(s *PortState, _ *Counters) value { return small(s.Number) }},
	{path: []string{"state", "name"}, class: stateLeaf, get: func(s *PortState, _ *Counters) value { return text(s.Name) }},
	{path: []string{"state", "type"}, class: stateLeaf, get: ethernet},
	{path: []string{"state", "enabled"}, class: stateLeaf, get: func(s *PortState, _ *Counters) value { return boolean(s.Enabled) }},
	{path: []string{"state", "id"}, module: "openconfig-p4rt", class: stateLeaf, get: func(s *PortState, _ *Counters) value { return small(s.Number) }},
	{path: []string{"state", "ifindex"}, class: operationalLeaf, get: func(s *PortState, _ *Counters) value { return small(s.IfIndex) }},
	{path: []string{"state", "admin-status"}, class: operationalLeaf, get: func(s *PortState, _ *Counters) value { return upDown(s.Enabled) }},
	{path: []string{"state", "oper-status"}, class: operationalLeaf, get: func(s *PortState, _ *Counters) value { return upDown(s.Oper) }},
	{path: []string{"state", "last-change"}, class: operationalLeaf, get: func(s *PortState, _ *Counters) value { return number(uint64(s.LastChange)) }},
	counterLeaf("in-octets", func(c *Counters) uint64 { return c.InOctets }),
	counterLeaf("in-pkts", func(c *Counters) uint64 { return c.InPkts }),
	counterLeaf("in-discards", func(c *Counters) uint64 { return c.InDiscards }),
	counterLeaf("in-errors", func(c *Counters) uint64 { return c.InErrors }),
	counterLeaf("out-octets", func(c *Counters) uint64 { return c.OutOctets }),
	counterLeaf("out-pkts", func(c *Counters) uint64 { return c.OutPkts }),
	counterLeaf("out-discards", func(c *Counters) uint64 { return c.OutDiscards }),
	counterLeaf("out-errors", func(c *Counters) uint64 { return c.OutErrors }),
}

func ethernet(*PortState, *Counters) value {
	return value{kind: identityKind, s: "iana-if-type:ethernetCsmacd"}
}

// ref names a leaf of a port.
type ref struct {
	port int // index into Ports.ports
	leaf int // index into leaves
}

// snapshot reads all leaves of a port; counters are zero without c.
func snapshot(s *PortState, c *Counters) []value {
	if c == nil {
		c = &Counters{}
	}
	out := make([]value, len(leaves))
	for i := range leaves {
		out[i] = leaves[i].get(s, c)
	}
	return out
}

// reader reads leaves, each port's counters once.
type reader struct {
	g        *GNMI
	port     int
	counters *Counters
}

func (rd *reader) read(r ref) value {
	s := rd.g.cfg.Ports.ports[r.port]
	l := &leaves[r.leaf]
	if l.counter && (rd.counters == nil || rd.port != r.port) {
		c := rd.g.cfg.Ports.counters(s.Number)
		rd.port, rd.counters = r.port, &c
	}
	return l.get(s, rd.counters)
}

// path is the full path of a leaf.
func (g *GNMI) path(r ref) []*gnmi.PathElem {
	out := []*gnmi.PathElem{
		{Name: "interfaces"},
		{Name: "interface", Key: map[string]string{"name": g.cfg.Ports.ports[r.port].Name}},
	}
	for _, name := range leaves[r.leaf].path {
		out = append(out, &gnmi.PathElem{Name: name})
	}
	return out
}

// json is the value as encoding/json writes it.
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

// typed is the value of a leaf in an encoding.
func (v value) typed(e gnmi.Encoding) (*gnmi.TypedValue, error) {
	switch e {
	case gnmi.Encoding_JSON, gnmi.Encoding_JSON_IETF:
		return typedJSON(v.json(e == gnmi.Encoding_JSON_IETF), e)
	}
	switch v.kind {
	case boolKind:
		return &gnmi.TypedValue{Value: &gnmi.TypedValue_BoolVal{BoolVal: v.u == 1}}, nil
	case uint32Kind, uint64Kind:
		return &gnmi.TypedValue{Value: &gnmi.TypedValue_UintVal{UintVal: v.u}}, nil
	}
	return &gnmi.TypedValue{Value: &gnmi.TypedValue_StringVal{StringVal: v.s}}, nil
}

func typedJSON(x any, e gnmi.Encoding) (*gnmi.TypedValue, error) {
	b, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	if e == gnmi.Encoding_JSON_IETF {
		return &gnmi.TypedValue{Value: &gnmi.TypedValue_JsonIetfVal{JsonIetfVal: b}}, nil
	}
	return &gnmi.TypedValue{Value: &gnmi.TypedValue_JsonVal{JsonVal: b}}, nil
}

// updates encodes leaves: PROTO as one update each, JSON as one subtree for
// each node that the pattern names.
func (g *GNMI) updates(pat *pattern, refs []ref, e gnmi.Encoding) ([]*gnmi.Update, error) {
	rd := &reader{g: g}
	var out []*gnmi.Update
	if e == gnmi.Encoding_PROTO {
		for _, r := range refs {
			v, err := rd.read(r).typed(e)
			if err != nil {
				return nil, err
			}
			out = append(out, &gnmi.Update{Path: &gnmi.Path{Elem: g.path(r)}, Val: v})
		}
		return out, nil
	}
	for len(refs) > 0 {
		depth := pat.depth(len(g.path(refs[0])))
		n := 1
		for n < len(refs) && pat.depth(len(g.path(refs[n]))) == depth && g.samePrefix(refs[0], refs[n], depth) {
			n++
		}
		u, err := g.subtree(rd, refs[:n], depth, e)
		if err != nil {
			return nil, err
		}
		out = append(out, u)
		refs = refs[n:]
	}
	return out, nil
}

// samePrefix reports whether two leaves lie below the same node.
func (g *GNMI) samePrefix(a, b ref, depth int) bool {
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

// subtree encodes the leaves below one node as JSON.
func (g *GNMI) subtree(rd *reader, refs []ref, depth int, e gnmi.Encoding) (*gnmi.Update, error) {
	ietf := e == gnmi.Encoding_JSON_IETF
	path := g.path(refs[0])
	u := &gnmi.Update{Path: &gnmi.Path{Elem: path[:depth]}}
	var err error
	if depth == len(path) {
		u.Val, err = rd.read(refs[0]).typed(e)
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
			module := interfacesModule
			if i == len(below)-1 && leaves[r.leaf].module != "" {
				module = leaves[r.leaf].module
			}
			key := qualified(module, name, depth >= 2 && i == 0)
			if i == len(below)-1 {
				node[key] = rd.read(r).json(ietf)
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
