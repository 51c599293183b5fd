package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// graph is a topology as a list of links between numbered nodes.
type graph struct {
	*inputFile
	switches map[int]bool
	next     map[int]map[int]cable // neighbours of each node
}

// cable is a link of a graph, or parallel links together.
type cable struct {
	link fabric.LinkSpec
	line int
}

func newGraph(f *inputFile) *graph {
	return &graph{inputFile: f, switches: map[int]bool{}, next: map[int]map[int]cable{}}
}

// add adds a link. Parallel links become one link with the sum of their rates.
func (g *graph) add(a, b int, c cable) error {
	if known := g.next[a][b].link.Rate; c.link.Rate > fabric.MaxRate-known {
		return g.fail(c.line, "links %d-%d have %.3g b/s together; the most is %v", a, b, float64(known)+float64(c.link.Rate), fabric.MaxRate)
	}
	for _, end := range [][2]int{{a, b}, {b, a}} {
		if g.next[end[0]] == nil {
			g.next[end[0]] = map[int]cable{}
		}
		known, parallel := g.next[end[0]][end[1]]
		if parallel && end[0] == a {
			g.countNotCarried(c.line, "bundles of parallel links are one link of their joint rate each", fmt.Sprintf("%d-%d", a, b))
		}
		c := c
		c.link.Rate += known.link.Rate
		g.next[end[0]][end[1]] = c
	}
	return nil
}

// peers returns the neighbours of a node that are hosts, or those that are switches, sorted.
func (g *graph) peers(node int, switches bool) []int {
	var out []int
	for n := range g.next[node] {
		if g.switches[n] == switches {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// clos returns the Clos fabric that the graph is, and the host of each rank. The error names what differs from a Clos
// fabric of equal switches.
func (g *graph) clos() (fabric.Spec, []int, error) {
	var hosts []int
	for n := range g.next {
		if !g.switches[n] {
			hosts = append(hosts, n)
		}
	}
	slices.Sort(hosts)
	if len(hosts) < 2 {
		return fabric.Spec{}, nil, g.fail(0, "%d hosts with links; at least 2", len(hosts))
	}
	planes := len(g.next[hosts[0]])
	for _, h := range hosts {
		if n := len(g.next[h]); n != planes {
			return fabric.Spec{}, nil, g.fail(0, "host %d has %d links and host %d %d; give all hosts as many", hosts[0], planes, h, n)
		}
		if p := g.peers(h, false); len(p) > 0 {
			return fabric.Spec{}, nil, g.fail(g.next[h][p[0]].line, "hosts %d and %d are linked; link them to a switch", h, p[0])
		}
	}
	of := g.switchComponents(hosts)
	var spec fabric.Spec
	var ranks []int
	for q := range planes {
		plane, order, err := g.planeFabric(hosts, of, q)
		if err != nil {
			return fabric.Spec{}, nil, err
		}
		switch {
		case q == 0:
			spec, ranks = plane, order
		case plane != spec || !slices.Equal(order, ranks):
			return fabric.Spec{}, nil, g.fail(0, "the networks that hosts have a link into are not equal; make them copies of one another")
		}
	}
	if planes > 1 {
		spec.Planes = planes
	}
	if err := spec.Validate(); err != nil {
		return fabric.Spec{}, nil, g.fail(0, "%v", err)
	}
	return spec, ranks, nil
}

// switchComponents numbers the separate networks of switches, in the order in which the first host's links lead to
// them.
func (g *graph) switchComponents(hosts []int) map[int]int {
	of := map[int]int{}
	for i, first := range g.peers(hosts[0], true) {
		todo := []int{first}
		for len(todo) > 0 {
			s := todo[0]
			todo = todo[1:]
			if _, seen := of[s]; !seen {
				of[s] = i
				todo = append(todo, g.peers(s, true)...)
			}
		}
	}
	return of
}

// planeFabric returns the fabric of one network of switches, which each host has one link into.
func (g *graph) planeFabric(hosts []int, of map[int]int, q int) (fabric.Spec, []int, error) {
	no := func(format string, args ...any) (fabric.Spec, []int, error) {
		return fabric.Spec{}, nil, g.fail(0, "no Clos fabric: "+format, args...)
	}
	below := map[int][]int{} // hosts of each ToR
	for _, h := range hosts {
		tor := -1
		for _, s := range g.peers(h, true) {
			if i, ok := of[s]; ok && i == q {
				if tor >= 0 {
					return no("host %d has two links into one network, to switches %d and %d; give it one, or one per separate network", h, tor, s)
				}
				tor = s
			}
		}
		if tor < 0 {
			return no("host %d has no link into the network of switch %d; link it", h, g.peers(hosts[0], true)[q])
		}
		below[tor] = append(below[tor], h)
	}
	byHost := func(a, b int) int { return cmp.Compare(below[a][0], below[b][0]) }
	tors := slices.SortedFunc(maps.Keys(below), byHost)
	for _, t := range tors {
		if len(below[t]) != len(below[tors[0]]) {
			return no("switch %d has %d hosts and switch %d %d; give all as many", tors[0], len(below[tors[0]]), t, len(below[t]))
		}
	}
	s := fabric.Spec{HostsPerToR: len(below[tors[0]])}
	c := &closMatch{graph: g, below: below, tors: tors}
	var err error
	if s.HostLink, err = c.links(tors, false); err != nil {
		return fabric.Spec{}, nil, err
	}
	if err := c.setUpperTiers(&s); err != nil {
		return fabric.Spec{}, nil, err
	}
	var order []int
	for _, t := range c.tors {
		order = append(order, below[t]...)
	}
	return s, order, nil
}

// closMatch is a network of switches that is compared with a Clos fabric.
type closMatch struct {
	*graph
	below map[int][]int // hosts of each ToR
	tors  []int
}

func (c *closMatch) notClos(format string, args ...any) error {
	return c.fail(0, "no Clos fabric: "+format, args...)
}

// setUpperTiers sets the tiers above the ToRs.
func (c *closMatch) setUpperTiers(s *fabric.Spec) error {
	aggs := map[int]bool{}
	cores := map[int][]int{} // of each aggregation switch
	for _, t := range c.tors {
		for _, a := range c.peers(t, true) {
			if c.below[a] != nil {
				return c.notClos("switches %d and %d have hosts and are linked; link them to switches above", t, a)
			}
			aggs[a] = true
		}
	}
	for a := range aggs {
		for _, n := range c.peers(a, true) {
			if aggs[n] {
				return c.notClos("switches %d and %d are of one tier and linked; link them to switches above or below", a, n)
			}
			if c.below[n] == nil {
				cores[a] = append(cores[a], n)
			}
		}
	}
	if len(c.tors) == 1 && len(cores) == 0 { // a fabric needs switches above; they carry nothing
		if len(aggs) == 0 {
			c.notes.add("the only switch has unused switches above it, as a fabric needs them", "")
		}
		s.Kind, s.Pods, s.ToRsPerPod, s.AggsPerPod, s.Cores = fabric.KindFatTree, 1, 1, max(1, len(aggs)), max(1, len(aggs))
		return nil
	}
	pods := c.pods()
	first := c.peers(pods[0][0], true)
	for _, pod := range pods {
		up := c.peers(pod[0], true)
		for _, t := range pod {
			if got := c.peers(t, true); !slices.Equal(got, up) {
				return c.notClos("switches %d and %d are linked to others: %v and %v; link both to the same", pod[0], t, up, got)
			}
		}
		if len(pod) != len(pods[0]) || len(up) != len(first) {
			return c.notClos("the pods of switches %d and %d have %d and %d ToRs, %d and %d switches above; make pods equal",
				pods[0][0], pod[0], len(pods[0]), len(pod), len(first), len(up))
		}
	}
	if len(first) == 0 {
		return c.notClos("switch %d has no link upwards; link it", pods[0][0])
	}
	var err error
	if s.ToRUplink, err = c.links(c.tors, true); err != nil {
		return err
	}
	if len(cores) == 0 {
		if len(pods) > 1 {
			return c.notClos("switches %d and %d are not connected; connect the pods by core switches", pods[0][0], pods[1][0])
		}
		s.Kind, s.ToRs, s.Spines = fabric.KindLeafSpine, len(c.tors), len(first)
		return nil
	}
	s.Kind, s.Pods, s.ToRsPerPod, s.AggsPerPod = fabric.KindFatTree, len(pods), len(pods[0]), len(first)
	return c.checkCores(s, pods, cores)
}

// pods returns the ToRs of each pod, which share switches above them.
func (c *closMatch) pods() [][]int {
	var out [][]int
	seen := map[int]bool{}
	for _, t := range c.tors {
		if seen[t] {
			continue
		}
		pod := []int{t}
		seen[t] = true
		for i := 0; i < len(pod); i++ {
			for _, a := range c.peers(pod[i], true) {
				if seen[a] {
					continue
				}
				seen[a] = true
				for _, n := range c.peers(a, true) {
					if c.below[n] != nil && !seen[n] {
						seen[n] = true
						pod = append(pod, n)
					}
				}
			}
		}
		slices.SortFunc(pod, func(a, b int) int { return cmp.Compare(c.below[a][0], c.below[b][0]) })
		out = append(out, pod)
	}
	c.tors = slices.Concat(out...)
	return out
}

// checkCores checks that as many aggregation switches as a pod has groups share core switches, one of each pod.
func (c *closMatch) checkCores(s *fabric.Spec, pods [][]int, cores map[int][]int) error {
	groups := map[int][]int{} // aggregation switches by their first core
	var all []int
	uplinks := len(cores[c.peers(pods[0][0], true)[0]])
	for _, pod := range pods {
		for _, a := range c.peers(pod[0], true) {
			up := cores[a]
			if len(up) != uplinks || uplinks == 0 {
				return c.notClos("aggregation switch %d has %d links upwards, and another %d; give all as many", a, len(up), uplinks)
			}
			for _, other := range groups[up[0]] {
				if !slices.Equal(cores[other], up) {
					return c.notClos("aggregation switches %d and %d share some core switches and not all; link both to the same", other, a)
				}
			}
			groups[up[0]] = append(groups[up[0]], a)
			all = append(all, a)
		}
	}
	if len(groups) != s.AggsPerPod {
		return c.notClos("aggregation switches have %d sets of core switches; %d, one for each switch of a pod", len(groups), s.AggsPerPod)
	}
	for _, g := range groups {
		if len(g) != len(pods) {
			return c.notClos("%d aggregation switches share core switches with %d; one of each of %d pods", len(g), g[0], len(pods))
		}
	}
	s.Cores = s.AggsPerPod * uplinks
	var err error
	s.AggUplink, err = c.upLinks(all, func(a int) []int { return cores[a] })
	return err
}

// links returns the common rate and delay of the links from ToRs to hosts, or to switches.
func (c *closMatch) links(tors []int, switches bool) (fabric.LinkSpec, error) {
	return c.upLinks(tors, func(t int) []int {
		if !switches {
			return c.below[t]
		}
		return c.peers(t, true)
	})
}

func (c *closMatch) upLinks(nodes []int, peers func(int) []int) (fabric.LinkSpec, error) {
	var first cable
	for _, a := range nodes {
		for _, b := range peers(a) {
			l := c.next[a][b]
			if first.line == 0 {
				first = l
			}
			if l.link != first.link {
				return fabric.LinkSpec{}, c.fail(l.line, "no Clos fabric: the link has %v and %v, and that of line %d %v and %v; make links of a tier alike",
					l.link.Rate, l.link.Delay, first.line, first.link.Rate, first.link.Delay)
			}
		}
	}
	return first.link, nil
}
