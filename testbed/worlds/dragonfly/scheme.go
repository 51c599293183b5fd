package dragonfly

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric/dragonfly"
	"github.com/ethereal-fabric/ethereal/fabric/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Names of schemes.
const (
	minimal  = "minimal"  // ECMP over the minimal paths, of which a canonical fabric has one
	valiant  = "valiant"  // packets spread over all intermediate groups, or routers (Valiant 1982; Kim et al. 2008)
	ugal     = "ugal"     // each packet minimal or by Valiant, as queues are (Singh 2005; Kim et al. 2008)
	spritz   = "spritz"   // senders draw paths by latency and keep the good ones (Bonato et al., arXiv 2602.19567)
	ethereal = "ethereal" // flows whole or in few pieces, by the linear program
)

// params says what parameters a scheme has, and what each may be; the first is the default. nil: a number.
var params = map[string]map[string][]string{
	minimal:  {},
	valiant:  {"by": {"group", "router"}},
	ugal:     {"by": {"group", "router"}, "sees": {"local", "path"}},
	spritz:   {"by": {"group", "router"}, "mode": {"spray", "scout"}, "scale": nil},
	ethereal: {"by": {"router", "group"}, "knows": {"all", "sender"}, "slack": nil},
}

// SchemeNames returns the names of all schemes.
func SchemeNames() []string { return []string{minimal, valiant, ugal, spritz, ethereal} }

// scheme is a scheme with its parameters read.
type scheme struct {
	name   string
	choice map[string]string
	number map[string]float64
}

func newScheme(s scenario.Scheme) (*scheme, error) {
	known, ok := params[s.Name]
	if !ok {
		return nil, fmt.Errorf("unknown scheme %q; %s", s.Name, strictyaml.Choose(s.Name, SchemeNames()))
	}
	out := &scheme{name: s.Name, choice: map[string]string{}, number: map[string]float64{"slack": 0.02, "scale": 1}}
	for key, values := range known {
		if values != nil {
			out.choice[key] = values[0]
		}
	}
	for key, value := range s.Params {
		values, ok := known[key]
		switch {
		case !ok:
			return nil, fmt.Errorf("%s has no parameter %q; remove it", s.Name, key)
		case values == nil:
			x, err := strconv.ParseFloat(value, 64)
			if err != nil || !(x >= 0 && x <= 1000) {
				return nil, fmt.Errorf("%s: %s is %q; write a number from 0 to 1000", s.Name, key, value)
			}
			out.number[key] = x
		case !slices.Contains(values, value):
			return nil, fmt.Errorf("%s: %s is %q; write %s", s.Name, key, value, strings.Join(values, " or "))
		default:
			out.choice[key] = value
		}
	}
	return out, nil
}

// set returns the paths a scheme knows.
func (s *scheme) set() dragonfly.Set {
	if s.choice["by"] == "router" {
		return dragonfly.AllPaths
	}
	return dragonfly.GroupPaths
}

// sprays says that what becomes of a flow are packets and not pieces, each of which is a queue pair.
func (s *scheme) sprays() bool { return s.name != minimal && s.name != ethereal }

var errScheme = errors.New("dragonfly: no such scheme")

// assign divides the flows of a step over paths. Flows within a router have no part.
func (r *run) assign(s *scheme, st *step) ([]part, error) {
	switch s.name {
	case minimal:
		return r.hashed(st.flows), nil
	case valiant:
		return r.spread(st.flows, s.set()), nil
	case ugal, spritz:
		return r.slots(s, st.flows), nil
	case ethereal:
		if s.choice["knows"] == "sender" {
			return r.alone(s, st.flows), nil
		}
		p, index := r.net.problem(st.flows, s.set())
		b := st.balance
		if s.set() != dragonfly.AllPaths {
			b = p.Balance(tolerance)
		}
		return partsOf(p, index, b.Deal(s.number["slack"])), nil
	}
	return nil, errScheme
}

// hashed puts each flow on one of its minimal paths.
func (r *run) hashed(flows []flow) (out []part) {
	rng := rand.New(rand.NewPCG(r.seed, 0xEC))
	for i, x := range flows {
		src, dst := r.net.f.RouterOf(x.src), r.net.f.RouterOf(x.dst)
		if src == dst {
			continue
		}
		paths := r.net.way(src, dst, dragonfly.MinimalPaths)
		out = append(out, part{i, paths[rng.IntN(len(paths))].Channels, float64(x.bytes)})
	}
	return out
}

// spread sends each flow by all intermediate groups or routers alike. Within a group it goes minimally.
func (r *run) spread(flows []flow, set dragonfly.Set) (out []part) {
	f := r.net.f
	for i, x := range flows {
		src, dst := f.RouterOf(x.src), f.RouterOf(x.dst)
		if src == dst {
			continue
		}
		paths, weights := r.net.detours(src, dst, set)
		total := 0.0
		for _, w := range weights {
			total += w
		}
		for k, p := range paths {
			out = append(out, part{i, p.Channels, float64(x.bytes) * weights[k] / total})
		}
	}
	return out
}

// detours returns Valiant's paths and how often each is drawn, where the intermediate group, or router, is drawn
// evenly. A router on the way to or from its group is as good as no router, and adds to the weight of the group's path.
func (n *net) detours(src, dst int, set dragonfly.Set) (paths []dragonfly.Path, weights []float64) {
	f := n.f
	if f.GroupOf(src) == f.GroupOf(dst) {
		p := n.way(src, dst, dragonfly.MinimalPaths)
		return p[:1], []float64{1}
	}
	m := f.Layers()
	byRouter := map[int]int{} // how many routers of a group and pair of links have a path of their own
	groups := m + f.Groups()*m*m
	a := f.Spec().RoutersPerGroup
	all := n.way(src, dst, set)
	for _, p := range all {
		if v := int(p.Name) - groups; v >= 0 && f.GroupOf(v/(m*m)) != f.GroupOf(src) && f.GroupOf(v/(m*m)) != f.GroupOf(dst) {
			byRouter[f.GroupOf(v/(m*m))*m*m+v%(m*m)]++
		}
	}
	for _, p := range all {
		v := int(p.Name) - m
		switch {
		case v < 0:
			continue
		case int(p.Name) < groups:
			w := 1.0
			if set == dragonfly.AllPaths {
				w = float64(a - byRouter[v])
			}
			paths, weights = append(paths, p), append(weights, w)
		default:
			g := f.GroupOf((int(p.Name) - groups) / (m * m))
			if g == f.GroupOf(src) || g == f.GroupOf(dst) {
				continue
			}
			paths, weights = append(paths, p), append(weights, 1)
		}
	}
	if len(paths) == 0 { // two groups alone
		return all[:1], []float64{1}
	}
	return paths, weights
}

// alone has each host divide its own flows, as if there were no others.
func (r *run) alone(s *scheme, flows []flow) (out []part) {
	own := map[int][]int{}
	for i, x := range flows {
		own[x.src] = append(own[x.src], i)
	}
	for host := range r.net.f.Hosts() {
		if len(own[host]) == 0 {
			continue
		}
		mine := make([]flow, 0, len(own[host]))
		for _, i := range own[host] {
			mine = append(mine, flows[i])
		}
		p, index := r.net.problem(mine, s.set())
		p.Base, p.Distances = nil, nil
		for _, x := range partsOf(p, index, p.Balance(0.05).Deal(s.number["slack"])) {
			x.flow = own[host][x.flow]
			out = append(out, x)
		}
	}
	return out
}
