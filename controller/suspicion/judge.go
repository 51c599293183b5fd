package suspicion

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// tally counts the reports that a link or host explains.
type tally struct {
	reports int
	agents  []fabric.NodeID // different ones, up to Config.Agents
	uplinks uint64          // ToR uplinks on which the paths begin, by index (fabric.MaxUplinks fit)
}

func (t *tally) add(e evidence, uplink, agents int) {
	t.reports++
	t.uplinks |= 1 << uplink
	if len(t.agents) < agents && !slices.Contains(t.agents, e.host) {
		t.agents = append(t.agents, e.host)
	}
}

// judgeReports suspects links for the reports without an explanation.
func (c *Core) judgeReports() {
	var open []evidence
	for e, at := range c.evidence {
		if c.now-at > c.cfg.Memory {
			delete(c.evidence, e)
			continue
		}
		open = append(open, e)
	}
	slices.SortFunc(open, func(a, b evidence) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.dstToR, b.dstToR), cmp.Compare(a.dst, b.dst), cmp.Compare(a.label, b.label))
	})
	for {
		open = slices.DeleteFunc(open, func(e evidence) bool {
			c.hops, _ = c.f.Path(c.hops[:0], c.f.ToROf(e.host), e.dstToR, e.label)
			_, ok := c.knownCause(c.hops)
			if ok {
				delete(c.evidence, e)
			}
			return ok
		})
		if len(open) == 0 {
			return
		}
		if open = c.blameLikeliest(open); open == nil {
			return
		}
	}
}

// blameLikeliest finds the link or host that explains most of the open reports, and returns the reports to judge again;
// nil if there is nothing more to find.
func (c *Core) blameLikeliest(open []evidence) []evidence {
	links, hosts := map[fabric.LinkID]*tally{}, map[fabric.NodeID]*tally{}
	for _, e := range open {
		c.hops, _ = c.f.Path(c.hops[:0], c.f.ToROf(e.host), e.dstToR, e.label)
		u, _, _ := c.f.SplitLabel(e.label)
		for _, h := range c.hops {
			tallyOf(links, h.Link).add(e, u, c.cfg.Agents)
		}
		tallyOf(hosts, e.host).add(e, u, 1)
		if e.dst != NoHost {
			tallyOf(hosts, e.dst).add(e, u, 1)
		}
	}
	best := c.likeliestLinks(links)
	top := links[best[0]]
	if h, ok := c.likeliestHost(hosts, top.reports); ok {
		return slices.DeleteFunc(open, func(e evidence) bool {
			its := e.host == h || e.dst == h
			if its {
				c.stats.Hosts++
				delete(c.evidence, e)
			}
			return its
		})
	}
	if len(best) == 1 && len(top.agents) >= c.cfg.Agents && c.cfg.Trials == 1 {
		if !c.suspect(best[0], false) {
			return nil // too many links are suspected
		}
		return open
	}
	c.startTrial(best, 1)
	return slices.DeleteFunc(open, func(e evidence) bool {
		return c.f.PathUses(c.f.ToROf(e.host), e.dstToR, e.label, best[0])
	})
}

func tallyOf[K comparable](m map[K]*tally, k K) *tally {
	t := m[k]
	if t == nil {
		t = &tally{}
		m[k] = t
	}
	return t
}

// likeliestHost returns the host that explains most reports, if it explains more than any link, over most uplinks of a
// ToR, and the other hosts of its rack have no such trouble: that would be their ToR's.
func (c *Core) likeliestHost(hosts map[fabric.NodeID]*tally, more int) (host fabric.NodeID, ok bool) {
	all := c.f.Node(c.f.ToRID(0)).Uplinks()
	for h, t := range hosts {
		if 2*bits.OnesCount64(t.uplinks) <= all || t.reports < more || t.reports == more && (!ok || h > host) {
			continue
		}
		if !c.onlyHostOfRack(hosts, h, t.reports) {
			continue
		}
		host, more, ok = h, t.reports, true
	}
	return host, ok
}

// onlyHostOfRack reports whether no other host of a host's rack explains half as many reports.
func (c *Core) onlyHostOfRack(hosts map[fabric.NodeID]*tally, h fabric.NodeID, reports int) bool {
	first, n := c.f.HostsOf(c.f.ToROf(h))
	for i := range n {
		if o := first + fabric.NodeID(i); o != h && hosts[o] != nil && 2*hosts[o].reports >= reports {
			return false
		}
	}
	return true
}

// likeliestLinks returns the links that explain most reports. A path that was recently reported to work speaks for its
// links: they are left out if others explain at least half as many.
func (c *Core) likeliestLinks(links map[fabric.LinkID]*tally) []fabric.LinkID {
	works := func(id fabric.LinkID) bool { return c.now-c.links[id].workedAt <= c.cfg.Memory }
	most, quiet := 0, 0
	for id, t := range links {
		most = max(most, t.reports)
		if !works(id) {
			quiet = max(quiet, t.reports)
		}
	}
	others := 2*quiet >= most
	if others {
		most = quiet
	}
	var ids []fabric.LinkID
	for id, t := range links {
		if t.reports == most && (!others || !works(id)) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
