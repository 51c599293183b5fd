package gnmi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// changes are the settings in a Set, by index of the port.
type changes map[int]map[setting]value

func (c changes) setValue(port int, s setting, v value) {
	if c[port] == nil {
		c[port] = map[setting]value{}
	}
	c[port][s] = v
}

// merge merges the settings of another part of a union, which must not contradict.
func (c changes) merge(other changes, ports []*portstate.State) error {
	for port, settings := range other {
		for s, v := range settings {
			if had, ok := c[port][s]; ok && had != v {
				return rpc.Invalidf("another union_replace sets %s of interface %s to another value", settingNames[s], ports[port].Name)
			}
			c.setValue(port, s, v)
		}
	}
	return nil
}

// Set answers the Set RPC. Writable leaves can be set, singly or within a subtree. Either the whole request takes
// effect, or nothing.
func (g *Core) Set(req *gnmipb.SetRequest) (*gnmipb.SetResponse, error) {
	resp, err := g.serveSet(req)
	return resp, rpc.Status(err)
}

func (g *Core) serveSet(req *gnmipb.SetRequest) (*gnmipb.SetResponse, error) {
	n := len(req.GetDelete()) + len(req.GetUnionReplace()) + len(req.GetReplace()) + len(req.GetUpdate())
	if most := g.budget.PathsPerRequest; n > most {
		return nil, rpc.LimitError("paths", n, most, "split the request")
	}
	if err := checkExtensions(req.GetExtension()); err != nil {
		return nil, err
	}
	if u := len(req.GetUnionReplace()); u > 0 && u < n {
		return nil, rpc.Invalidf("union_replace is given with delete, replace or update; send them in another request")
	}
	resp := &gnmipb.SetResponse{Prefix: req.GetPrefix(), Timestamp: g.cfg.Now()}
	want := changes{}
	done := func(path *gnmipb.Path, op gnmipb.UpdateResult_Operation) {
		resp.Response = append(resp.Response, &gnmipb.UpdateResult{Path: path, Op: op})
	}
	for _, path := range req.GetDelete() {
		if err := g.resetSettings(want, req.GetPrefix(), path); err != nil {
			return nil, rpc.PrefixError("delete", err)
		}
		done(path, gnmipb.UpdateResult_DELETE)
	}
	union := changes{} // gNMI 3.4.4: the values are joined, then they replace all that their paths cover
	for _, u := range req.GetUnionReplace() {
		part := changes{}
		if err := g.applyUpdate(want, part, req.GetPrefix(), u); err != nil {
			return nil, rpc.PrefixError("union_replace", err)
		}
		if err := union.merge(part, g.cfg.Ports.States()); err != nil {
			return nil, rpc.PrefixError("union_replace", err)
		}
		done(u.GetPath(), gnmipb.UpdateResult_UNION_REPLACE)
	}
	for port, settings := range union {
		for s, v := range settings {
			want.setValue(port, s, v)
		}
	}
	for _, u := range req.GetReplace() {
		if err := g.applyUpdate(want, want, req.GetPrefix(), u); err != nil {
			return nil, rpc.PrefixError("replace", err)
		}
		done(u.GetPath(), gnmipb.UpdateResult_REPLACE)
	}
	for _, u := range req.GetUpdate() {
		if err := g.applyUpdate(nil, want, req.GetPrefix(), u); err != nil {
			return nil, rpc.PrefixError("update", err)
		}
		done(u.GetPath(), gnmipb.UpdateResult_UPDATE)
	}
	return resp, g.carryOut(want, resp.GetTimestamp())
}

// carryOut applies the changes, or reverts those made if one is refused.
func (g *Core) carryOut(want changes, now int64) error {
	type step struct {
		number uint32
		was    bool
	}
	var made []step
	for _, i := range slices.Sorted(maps.Keys(want)) {
		enabled, ok := want[i][adminSetting]
		if !ok {
			continue
		}
		s := g.cfg.Ports.States()[i]
		was := s.Enabled
		if err := g.cfg.Ports.SetAdmin(s.Number, enabled.u == 1, now); err != nil {
			for _, m := range slices.Backward(made) {
				g.cfg.Ports.SetAdmin(m.number, m.was, now) //nolint:errcheck // back to what it was; the first error is reported
			}
			return rpc.Errorf(codes.Aborted, "%v", err)
		}
		made = append(made, step{s.Number, was})
	}
	for _, i := range slices.Sorted(maps.Keys(want)) {
		s := g.cfg.Ports.States()[i]
		viable, health := s.Viable, s.Health
		if v, ok := want[i][viableSetting]; ok {
			viable = v.u == 1
		}
		if v, ok := want[i][healthSetting]; ok {
			health = v.s
		}
		g.cfg.Ports.Configure(s.Number, viable, health, now) //nolint:errcheck // the port is there
	}
	return nil
}

// isSettable reports whether a Set may change a leaf.
func (g *Core) isSettable(l int) bool {
	return leaves[l].setting != readOnly && (leaves[l].setting != viableSetting || g.cfg.Ports.Watched)
}

// resetSettings resets the settings that path covers to their defaults.
func (g *Core) resetSettings(want changes, prefix, path *gnmipb.Path) error {
	pat, err := g.compilePath(prefix, path)
	if err != nil {
		return err
	}
	refs, err := g.leavesOf(pat)
	if err != nil {
		return err
	}
	touched := len(refs) == 0 // missing leaves count as deleted
	for _, r := range refs {
		switch leaves[r.leaf].class {
		case configLeaf:
			touched = true
		case keyLeaf:
			touched = touched || len(pat.elems) <= 2
		}
		if g.isSettable(r.leaf) {
			want.setValue(r.port, leaves[r.leaf].setting, defaultSettings[leaves[r.leaf].setting])
		}
	}
	if !touched {
		return rpc.Invalidf("%s is read-only", pat)
	}
	return nil
}

// applyUpdate applies one update to the changes want. For a replace, reset collects the settings that its path covers;
// nil: an update.
func (g *Core) applyUpdate(reset, want changes, prefix *gnmipb.Path, u *gnmipb.Update) error {
	pat, err := g.compilePath(prefix, u.GetPath())
	if err != nil {
		return err
	}
	var path []string
	port := -1
	for _, e := range pat.elems {
		if e.name == "*" || e.name == "..." || e.key == "*" {
			return rpc.Invalidf("%s: wildcards are for delete only", pat)
		}
		if e.name == "interface" && e.key == "" && len(path) == 1 && len(pat.elems) > 2 {
			return rpc.Invalidf("%s: the key name is missing", pat)
		}
		path = append(path, e.name)
		if e.key != "" {
			if port = g.portIndex(e.key); port < 0 {
				return rpc.NotFoundf("%s: there is no such interface", pat)
			}
		}
	}
	if _, err := g.leavesOf(pat); err != nil {
		return rpc.NotFoundf("%s is not in the schema served", pat)
	}
	if n, most := proto.Size(u.GetVal()), g.budget.GNMIValueBytes; n > most {
		return rpc.PrefixError(pat.String(), rpc.LimitError("value", n, most, "set fewer leaves at a time"))
	}
	data, err := decodeTyped(u.GetVal())
	if err != nil {
		return rpc.PrefixError(pat.String(), err)
	}
	if reset != nil {
		refs, err := g.leavesOf(pat)
		if err != nil {
			return err
		}
		for _, r := range refs {
			if g.isSettable(r.leaf) { // unless the value says otherwise
				reset.setValue(r.port, leaves[r.leaf].setting, defaultSettings[leaves[r.leaf].setting])
			}
		}
	}
	return rpc.PrefixError(pat.String(), g.splitIntoLeaves(want, path, port, data, 0))
}

func (g *Core) portIndex(name string) int {
	return slices.IndexFunc(g.cfg.Ports.States(), func(s *portstate.State) bool { return s.Name == name })
}

// decodeTyped decodes a typed value to the types that encoding/json uses for JSON.
func decodeTyped(v *gnmipb.TypedValue) (any, error) {
	var raw []byte
	switch x := v.GetValue().(type) {
	case *gnmipb.TypedValue_BoolVal:
		return x.BoolVal, nil
	case *gnmipb.TypedValue_StringVal:
		return x.StringVal, nil
	case *gnmipb.TypedValue_UintVal:
		return float64(x.UintVal), nil
	case *gnmipb.TypedValue_IntVal:
		return float64(x.IntVal), nil
	case *gnmipb.TypedValue_JsonVal:
		raw = x.JsonVal
	case *gnmipb.TypedValue_JsonIetfVal:
		raw = x.JsonIetfVal
	case nil:
		return nil, rpc.Invalidf("no value is given")
	default:
		return nil, rpc.Errorf(codes.Unimplemented, "values of type %T are not supported", x)
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, rpc.Invalidf("the value is no JSON: %s", rpc.Shorten(err.Error()))
	}
	return out, nil
}

// maxJSONDepth is the largest nesting of a value; the schema is shallower.
const maxJSONDepth = 8

// splitIntoLeaves splits a value into leaves. path is the schema path of the node, port its interface, or -1 above one.
func (g *Core) splitIntoLeaves(want changes, path []string, port int, data any, depth int) error {
	if depth > maxJSONDepth {
		return rpc.Invalidf("the value is nested too deeply")
	}
	switch x := data.(type) {
	case nil:
		return rpc.Invalidf("/%s is null; delete resets a node", rpc.Shorten(strings.Join(path, "/")))
	case map[string]any:
		if len(path) == 2 && port < 0 {
			return g.walkItem(want, path, x, depth)
		}
		if len(path) == 2 && len(x) == 0 {
			return rpc.Invalidf("an empty object has no key")
		}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			name := k[strings.Index(k, ":")+1:]
			if err := g.splitIntoLeaves(want, append(slices.Clone(path), name), port, x[k], depth+1); err != nil {
				return err
			}
		}
		return nil
	case []any:
		if len(path) != 2 {
			return rpc.Invalidf("%s is no list", rpc.Shorten(strings.Join(path, "/")))
		}
		for _, item := range x {
			m, ok := item.(map[string]any)
			if !ok {
				return rpc.Invalidf("the list interface holds objects, not %T", item)
			}
			if err := g.walkItem(want, path, m, depth); err != nil {
				return err
			}
		}
		return nil
	}
	return g.assignLeaf(want, path, port, data)
}

// walkItem divides one member of the list interface into leaves.
func (g *Core) walkItem(want changes, path []string, item map[string]any, depth int) error {
	name, ok := item["name"].(string)
	if !ok {
		name, ok = item[interfacesModule+":name"].(string)
	}
	if !ok {
		return rpc.Invalidf("a member of the list interface has no name")
	}
	port := g.portIndex(name)
	if port < 0 {
		return rpc.NotFoundf("there is no interface %q", rpc.Shorten(name))
	}
	return g.splitIntoLeaves(want, path, port, item, depth+1)
}

func (g *Core) assignLeaf(want changes, path []string, port int, data any) error {
	if len(path) < 3 || path[0] != "interfaces" || path[1] != "interface" || port < 0 {
		return rpc.Invalidf("/%s is no leaf", rpc.Shorten(strings.Join(path, "/")))
	}
	l := slices.IndexFunc(leaves, func(l leafSpec) bool { return slices.Equal(l.path, path[2:]) })
	switch {
	case l < 0:
		return rpc.NotFoundf("%s is not in the schema served, or no leaf", rpc.Shorten(strings.Join(path[2:], "/")))
	case g.isSettable(l):
		v, ok := stringValue(""), false
		switch x := data.(type) {
		case bool:
			v, ok = boolValue(x), leaves[l].setting != healthSetting
		case string:
			v, ok = stringValue(x), leaves[l].setting == healthSetting && slices.Contains([]string{"GOOD", "BAD", "UNKNOWN"}, x)
		}
		if !ok {
			kind := "a boolean"
			if leaves[l].setting == healthSetting {
				kind = "GOOD, BAD or UNKNOWN"
			}
			return rpc.Invalidf("%s is %s, the value is %s", strings.Join(path[2:], "/"), kind, rpc.Shorten(fmt.Sprint(data)))
		}
		want.setValue(port, leaves[l].setting, v)
		return nil
	}
	s := g.cfg.Ports.States()[port]
	same := leaves[l].get(s, &portstate.Counters{})
	if data == same.json(true) || data == same.json(false) {
		return nil
	}
	if n, ok := data.(float64); ok && same.kind == uint32Kind && n == float64(same.u) {
		return nil
	}
	if leaves[l].class == configLeaf || leaves[l].class == keyLeaf {
		return rpc.Invalidf("%s of interface %s is fixed", strings.Join(path[2:], "/"), s.Name)
	}
	return rpc.Invalidf("%s is read-only", strings.Join(path[2:], "/"))
}
