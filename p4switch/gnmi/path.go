package gnmi

import (
	"strings"

	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// pattern is a request's path, including the prefix. It names nodes and everything below them.
type pattern struct {
	elems []patternElem
}

type patternElem struct {
	name string // "*": any one; "...": any number
	key  string // of the list interface: "" or "*": any
}

// compilePath checks a path and joins it to its prefix.
func (g *Core) compilePath(prefix, path *gnmipb.Path) (*pattern, error) {
	for _, o := range []string{prefix.GetOrigin(), path.GetOrigin()} {
		if o != "" && o != "openconfig" {
			return nil, rpc.Errorf(codes.Unimplemented, "origin %q is not served; use openconfig", rpc.Shorten(o))
		}
	}
	if prefix.GetOrigin() != "" && path.GetOrigin() != "" {
		return nil, rpc.Invalidf("origin is set in the prefix and in the path; it belongs to one of them")
	}
	if path.GetTarget() != "" {
		return nil, rpc.Invalidf("target belongs to the prefix, not to a path")
	}
	if len(prefix.GetElement()) > 0 || len(path.GetElement()) > 0 { //nolint:staticcheck // the field is refused
		return nil, rpc.Invalidf("the path uses the deprecated field element; use elem")
	}
	p := &pattern{}
	if n, most := len(prefix.GetElem())+len(path.GetElem()), g.budget.ElemsPerPath; n > most {
		return nil, rpc.LimitError("path-elements", n, most, "interfaces need fewer")
	}
	for _, list := range [][]*gnmipb.PathElem{prefix.GetElem(), path.GetElem()} {
		for _, e := range list {
			name := e.GetName()
			if i := strings.Index(name, ":"); i >= 0 {
				name = name[i+1:]
			}
			if name == "" {
				return nil, rpc.Invalidf("%s: an element has no name", p)
			}
			pe := patternElem{name: name}
			for k, v := range e.GetKey() {
				if name != "interface" && name != "*" {
					return nil, rpc.Invalidf("%s/%s has no keys", p, rpc.Shorten(name))
				}
				if k != "name" {
					return nil, rpc.Invalidf("%s/%s has the key name, not %q", p, name, rpc.Shorten(k))
				}
				pe.key = v
			}
			p.elems = append(p.elems, pe)
		}
	}
	return p, nil
}

// String returns the pattern as a path.
func (p *pattern) String() string {
	var b strings.Builder
	for _, e := range p.elems {
		b.WriteString("/" + e.name)
		if e.key != "" {
			b.WriteString("[name=" + e.key + "]")
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return rpc.Shorten(b.String())
}

// depthIn returns the number of elements of the pattern's node on a path of length full.
func (p *pattern) depthIn(full int) int {
	for _, e := range p.elems {
		if e.name == "..." {
			return full
		}
	}
	return min(len(p.elems), full)
}

// matchLeaf reports whether a leaf is at or below a node of the pattern. A nil key means any interface: then only
// the schema counts. It follows all readings of "..." at once, so its work is the product of the two lengths; a
// pattern has at most 63 elements.
func matchLeaf(elems []patternElem, path []string, key *string) bool {
	skip := func(at uint64) uint64 { // skips "...", which may match nothing
		for i, e := range elems {
			if e.name == "..." && at&(1<<i) != 0 {
				at |= 1 << (i + 1)
			}
		}
		return at
	}
	end := uint64(1) << len(elems)
	at := skip(1) // bit i: the first i elements have been matched
	for _, name := range path {
		if at&end != 0 {
			return true
		}
		next := uint64(0)
		for i, e := range elems {
			switch {
			case at&(1<<i) == 0:
			case e.name == "...":
				next |= 1 << i
			case (e.name == "*" || e.name == name) && e.hasKey(name, key):
				next |= 1 << (i + 1)
			}
		}
		at = skip(next)
	}
	return at&end != 0
}

// hasKey reports whether an element's key matches the node with a name.
func (e patternElem) hasKey(name string, key *string) bool {
	return e.key == "" || e.key == "*" || name == "interface" && (key == nil || *key == e.key)
}

// leavesOf lists the leaves of a pattern. The error is UNIMPLEMENTED if the served schema has no such path.
func (g *Core) leavesOf(p *pattern) ([]leafRef, error) {
	var which []int
	full := make([][]string, len(leaves))
	for l := range leaves {
		full[l] = append([]string{"interfaces", "interface"}, leaves[l].path...)
		if leaves[l].castCounter && !g.cfg.Ports.Casts {
			continue
		}
		if matchLeaf(p.elems, full[l], nil) {
			which = append(which, l)
		}
	}
	if len(which) == 0 {
		return nil, rpc.Errorf(codes.Unimplemented, "%s is not served; see Capabilities for the models", p)
	}
	var out []leafRef
	for i, s := range g.cfg.Ports.States() {
		for _, l := range which {
			if has := leaves[l].isPresent; has != nil && !has(s) {
				continue
			}
			if matchLeaf(p.elems, full[l], &s.Name) {
				out = append(out, leafRef{port: i, leaf: l})
			}
		}
	}
	return out, nil
}
