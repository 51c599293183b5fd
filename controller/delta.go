package controller

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Stages of a [Ready]. A switch stops using a dead link before the switches beyond it do, and starts using a
// repaired link after them.
const (
	stageUpAggs = iota
	stageUpToRs
	stageDownToRs
	stageDownAggs
)

// routeScope is the set of routes that a set of link changes can affect.
type routeScope struct {
	tors      []bool // by ToR: everything that depends on failures
	aggs      []bool // by aggregation switch, likewise
	dests     []int  // ToRs whose routes may change at any ToR, sorted
	pods      []int  // pods whose routes may change at any switch, sorted
	positions []bool // positions in the pod of the aggregation switches where they may change
}

// scopeOf returns the scope of changes of links; old and new are the states before and after.
func (c *Core) scopeOf(links []fabric.LinkID, old, new *state) routeScope {
	sc := routeScope{
		tors: make([]bool, len(new.tor)), aggs: make([]bool, len(new.agg)),
		positions: make([]bool, new.aggsPerPod),
	}
	for _, id := range links {
		n := c.f.Node(c.f.Link(id).A.Node)
		if n.Tier == fabric.ToR {
			sc.tors[n.Index] = true
			sc.dests = append(sc.dests, n.Index)
			continue
		}
		sc.aggs[n.Index] = true
		sc.positions[n.Index%new.aggsPerPod] = true
		sc.pods = append(sc.pods, n.Pod)
	}
	slices.Sort(sc.pods)
	sc.pods = slices.Compact(sc.pods)
	for _, p := range sc.pods {
		for t := p * new.torsPerPod; t < (p+1)*new.torsPerPod; t++ {
			sc.tors[t] = true // the weights of all its upward traffic
			if old.tor[t] != old.torAll || new.tor[t] != new.torAll {
				sc.dests = append(sc.dests, t)
			}
		}
	}
	slices.Sort(sc.dests)
	sc.dests = slices.Compact(sc.dests)
	return sc
}

// appendDeltas copies the states of the links, all of which went up or all down, from the present state to the
// written one, and appends the resulting changes of the switches.
func (c *Core) appendDeltas(out []SwitchDelta, links []fabric.LinkID, up bool) []SwitchDelta {
	if len(links) == 0 {
		return out
	}
	old := c.written.clone()
	for _, id := range links {
		c.setUplink(c.written, id, up)
	}
	return c.appendChange(out, links, up, old, c.written)
}

// appendChange appends the changes of the switches between two states, which differ in links that all went up or all
// down.
func (c *Core) appendChange(out []SwitchDelta, links []fabric.LinkID, up bool, old, new *state) []SwitchDelta {
	if !c.f.Clos() {
		return c.appendDragonflyDeltas(out, links, up, old, new)
	}
	sc := c.scopeOf(links, old, new)
	if up {
		out = c.appendAggDeltas(out, stageUpAggs, &sc, old, new)
		return c.appendToRDeltas(out, stageUpToRs, &sc, old, new)
	}
	out = c.appendToRDeltas(out, stageDownToRs, &sc, old, new)
	return c.appendAggDeltas(out, stageDownAggs, &sc, old, new)
}

func (s *state) clone() *state {
	t := *s
	t.tor, t.agg = slices.Clone(s.tor), slices.Clone(s.agg)
	t.deadAggUplinks, t.missingOnly, t.deadLinks = slices.Clone(s.deadAggUplinks), slices.Clone(s.missingOnly), slices.Clone(s.deadLinks)
	return &t
}

// scopeSide is the entries of one switch, in one state, that a set of routes covers; two sides are compared.
type scopeSide struct {
	routes  []upRoute
	entries []Entry
}

func (c *Core) appendToRDeltas(out []SwitchDelta, stage int, sc *routeScope, old, new *state) []SwitchDelta {
	var was, is scopeSide
	alike := map[deltaClass][]Update{}
	for t := range new.tor {
		n := c.f.Node(c.f.ToRID(t))
		like, any := sc.deltaClassOf(t, old, new)
		any = any && c.cfg.Balancer.Rule == HashFlows // other balancers' slots are specific to the switch
		if any {
			if us, known := alike[like]; known {
				if len(us) > 0 {
					out = append(out, SwitchDelta{Node: n.ID, Stage: stage, Updates: us})
				}
				continue
			}
			alike[like] = nil
		}
		ov, nv := c.plan.torViewOf(old, t), c.plan.torViewOf(new, t)
		if sc.tors[t] {
			was.routes, is.routes = ov.torRoutes(), nv.torRoutes()
		} else {
			was.routes = ov.appendScoped(was.routes[:0], sc)
			is.routes = nv.appendScoped(is.routes[:0], sc)
		}
		gs := c.groupsOf(sc.tors[t], was.routes, is.routes)
		if len(gs) == 0 {
			continue
		}
		was.entries = c.appendToRGroups(was.entries[:0], &ov, gs, false)
		is.entries = c.appendToRGroups(is.entries[:0], &nv, gs, false)
		before := len(out)
		out = c.appendSwitchDelta(out, stage, n, sc.tors[t], &was, &is, old, new)
		if any && len(out) > before {
			alike[like] = out[before].Updates
		}
	}
	return out
}

// deltaClass is what determines a ToR's delta, unless the delta is about that ToR as a destination: ToRs of a pod
// with the same uplinks have the same delta.
type deltaClass struct {
	pod      int
	old, new uint64 // live uplinks
	local    bool
}

// deltaClassOf returns a ToR's likeness, or false if no other ToR shares its delta.
func (sc *routeScope) deltaClassOf(t int, old, new *state) (deltaClass, bool) {
	if _, own := slices.BinarySearch(sc.dests, t); own {
		return deltaClass{}, false
	}
	// A change of a whole ToR affects all destinations, and so its own routes if it lacks an uplink.
	if sc.tors[t] && (old.tor[t] != old.torAll || new.tor[t] != new.torAll) {
		return deltaClass{}, false
	}
	return deltaClass{new.podOfToR(t), old.tor[t], new.tor[t], sc.tors[t]}, true
}

func (c *Core) appendAggDeltas(out []SwitchDelta, stage int, sc *routeScope, old, new *state) []SwitchDelta {
	if len(sc.pods) == 0 {
		return out
	}
	var was, is scopeSide
	for a := range new.agg {
		if !sc.positions[a%new.aggsPerPod] {
			continue
		}
		ov, nv := old.aggView(a), new.aggView(a)
		n := c.f.Node(c.f.AggID(a))
		if sc.aggs[a] {
			was.routes, is.routes = ov.aggRoutes(), nv.aggRoutes()
		} else {
			was.routes = ov.appendScoped(was.routes[:0], sc)
			is.routes = nv.appendScoped(is.routes[:0], sc)
		}
		gs := c.groupsOf(sc.aggs[a], was.routes, is.routes)
		if len(gs) == 0 {
			continue
		}
		was.entries = c.appendAggGroups(was.entries[:0], &ov, gs, false)
		is.entries = c.appendAggGroups(is.entries[:0], &nv, gs, false)
		out = c.appendSwitchDelta(out, stage, n, sc.aggs[a], &was, &is, old, new)
	}
	return out
}

// appendScoped appends the routes of the scope's destinations.
func (v *torView) appendScoped(rs []upRoute, sc *routeScope) []upRoute {
	for _, d := range sc.dests {
		if g := v.groupOf(d); g != noGroup {
			rs = append(rs, upRoute{prefix{1, d}, g})
		}
	}
	for _, q := range sc.pods {
		if _, ok := v.toPod(q); ok {
			rs = append(rs, upRoute{prefix{2, q}, podGroup + group(q)})
		}
	}
	return rs
}

func (v *aggView) appendScoped(rs []upRoute, sc *routeScope) []upRoute {
	for _, q := range sc.pods {
		if g := v.groupOf(q); g != noGroup {
			rs = append(rs, upRoute{prefix{2, q}, g})
		}
	}
	return rs
}

// groupsOf returns the groups whose content or existence may differ: those that the routes of either side name and,
// at an end of a changed link, the default.
func (c *Core) groupsOf(local bool, was, is []upRoute) []group {
	gs := c.groupBuf[:0]
	if local {
		gs = append(gs, defaultGroup)
	}
	for _, r := range was {
		gs = append(gs, r.group)
	}
	for _, r := range is {
		gs = append(gs, r.group)
	}
	slices.Sort(gs)
	c.groupBuf = slices.Compact(gs)
	return c.groupBuf
}

// appendSwitchDelta compares the two sides and appends the differences.
func (c *Core) appendSwitchDelta(out []SwitchDelta, stage int, n *fabric.Node, local bool, was, is *scopeSide, old, new *state) []SwitchDelta {
	for _, sd := range []struct {
		*scopeSide
		s *state
	}{{was, old}, {is, new}} {
		for _, t := range []Table{RouteV4, RouteV6} {
			for _, r := range sd.routes {
				sd.entries = append(sd.entries, Entry{
					Key: prefixKey(c.f, t, r.prefix), Action: ForwardUp, Args: [maxArgs]uint64{uint64(r.group)},
				})
			}
		}
		if local {
			sd.entries = c.appendLabels(sd.entries, sd.s, n)
		}
	}
	us := appendDiff(c.updateBuf[:0], was.entries, is.entries)
	c.updateBuf = us
	if len(us) == 0 {
		return out
	}
	return append(out, SwitchDelta{Node: n.ID, Stage: stage, Updates: inPhases(us)})
}
