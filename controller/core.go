package controller

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// Core is the controller's state machine: it computes the switches' tables and the agents' notices from the states of
// links. See the package comment. It is not safe for concurrent use.
type Core struct {
	cfg     Config
	f       *fabric.Fabric
	matches [fabric.Core + 1][]fabric.Match // of a tier's label entries, by uplink

	links   []link
	changed []fabric.LinkID // since the last Ready, in order of first change
	epoch   uint64
	notices []*statepb.Update

	now, written *state // with every change; at the last Ready
	plan         planner
	groupBuf     []group // scratch space of groupsOf
	entryBuf     []Entry
	updateBuf    []Update // scratch space of appendSwitchDelta
	memberSets   map[memberKey][]Member
	lastMembers  struct {
		key     memberKey
		members []Member
	}
}

// link is the state of one link.
type link struct {
	downA, downB bool // the ends' last reports
	drained      bool // taken out of use by an operator
	pending      bool // in Core.changed
	epoch        uint64
	at           fabric.Time

	suspected, confirmed bool // of losing packets unnoticed; see Core.Suspect
	suspectEpoch         uint64
	suspectAt            fabric.Time

	rates     [2]fabric.Rate // the ends' last reports, A and B; 0: the full rate
	rateEpoch uint64
}

func (l *link) up() bool { return !l.downA && !l.downB && !l.drained }

// New returns a core that assumes every link up, or the error of [Config.Validate].
func New(cfg Config) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	f := cfg.Fabric
	c := &Core{
		cfg: cfg, f: f, links: make([]link, f.Links()),
		now: newState(f), written: newState(f),
		plan: planner{groupLimit: cfg.MaxGroupSize},
	}
	if f.Clos() {
		c.matches[fabric.ToR] = f.UplinkMatches(f.ToRID(0))
	}
	if f.ThreeTier() {
		c.matches[fabric.Aggregation] = f.UplinkMatches(f.AggID(0))
	}
	return c, nil
}

// Fabric returns the core's fabric.
func (c *Core) Fabric() *fabric.Fabric { return c.f }

// PortState processes a switch's report that its port, one end of a link, is up or down. The link is up while neither
// end reports it down. For a port that the fabric does not have, it returns an error and changes nothing.
func (c *Core) PortState(now fabric.Time, node fabric.NodeID, port fabric.PortNo, up bool) error {
	id, ok := c.f.LinkAt(node, port)
	if !ok {
		return c.unknownPort(node, port)
	}
	l := &c.links[id]
	was := l.up()
	if ends := c.f.Link(id); ends.A == (fabric.End{Node: node, Port: port}) {
		l.downA = !up
	} else {
		l.downB = !up
	}
	c.linkChanged(now, id, was)
	return nil
}

// linkChanged processes a report about a link; was is its state before.
func (c *Core) linkChanged(now fabric.Time, id fabric.LinkID, was bool) {
	l := &c.links[id]
	if l.up() == was {
		return
	}
	l.epoch++
	l.at = now
	c.epoch++
	c.setUplink(c.now, id, l.up())
	if !l.pending {
		l.pending = true
		c.changed = append(c.changed, id)
	}
	c.notices = append(c.notices, &statepb.Update{
		Epoch: c.epoch, Instance: c.cfg.Instance, Links: []*statepb.LinkState{c.linkState(id)},
	})
}

func (c *Core) unknownPort(node fabric.NodeID, port fabric.PortNo) error {
	if node < 0 || int(node) >= c.f.Nodes() {
		return fmt.Errorf("%w: no node %d; nodes are 0 to %d", ErrUnknownPort, node, c.f.Nodes()-1)
	}
	return fmt.Errorf("%w: %s has no port %d; its ports are 1 to %d",
		ErrUnknownPort, c.f.Name(node), port, c.f.Node(node).Ports())
}

// setUplink records a link's state if tables depend on it, which is not so for host links.
func (c *Core) setUplink(s *state, id fabric.LinkID, up bool) {
	end := c.f.Link(id).A
	n := c.f.Node(end.Node)
	if n.Tier == fabric.Host || c.cfg.LinksOnly {
		return
	}
	if !c.f.Clos() {
		s.deadLinks[id], s.detour = !up, nil
		return
	}
	bit := uint64(1) << (end.Port - n.FirstUplink())
	set := func(live uint64) uint64 {
		if up {
			return live | bit
		}
		return live &^ bit
	}
	if n.Tier == fabric.ToR {
		s.setToR(n.Index, set(s.tor[n.Index]))
	} else {
		s.setAgg(n.Index, set(s.agg[n.Index]))
	}
}

// LinkUp reports whether a link of the fabric is up.
func (c *Core) LinkUp(id fabric.LinkID) bool { return c.links[id].up() }

// Epoch returns the number of changes of all links' states and suspicions so far.
func (c *Core) Epoch() uint64 { return c.epoch }

func (c *Core) linkState(id fabric.LinkID) *statepb.LinkState {
	l := &c.links[id]
	return &statepb.LinkState{
		Link: uint32(id), Up: l.up(), Epoch: l.epoch, TimeNs: int64(l.at / fabric.Nanosecond),
	}
}

// Suspect processes a suspicion of a link that no end reports down; see package suspicion. Agents are notified.
// Tables do not change, since probes have to cross the link, and only ECMP's share of traffic without labels uses
// it. For a link that the fabric does not have, or a host's link, it returns an error and changes nothing.
func (c *Core) Suspect(now fabric.Time, id fabric.LinkID, suspected, confirmed bool) error {
	if int(id) < c.f.Hosts() || int(id) >= len(c.links) {
		return fmt.Errorf("controller: link %d cannot be suspected; links between switches are %d to %d", id, c.f.Hosts(), len(c.links)-1)
	}
	l := &c.links[id]
	if l.suspected == suspected && l.confirmed == confirmed {
		return nil
	}
	l.suspected, l.confirmed, l.suspectAt = suspected, confirmed, now
	l.suspectEpoch++
	c.epoch++
	c.notices = append(c.notices, &statepb.Update{
		Epoch: c.epoch, Instance: c.cfg.Instance, Suspects: []*statepb.Suspect{c.suspect(id)},
	})
	return nil
}

func (c *Core) suspect(id fabric.LinkID) *statepb.Suspect {
	l := &c.links[id]
	return &statepb.Suspect{
		Link: uint32(id), Suspected: l.suspected, Confirmed: l.confirmed, Epoch: l.suspectEpoch,
		TimeNs: int64(l.suspectAt / fabric.Nanosecond),
	}
}

// Snapshot returns the state of every link that ever changed or was suspected: the first update that an agent gets.
func (c *Core) Snapshot() *statepb.Update {
	u := &statepb.Update{Epoch: c.epoch, Instance: c.cfg.Instance, Snapshot: true}
	for id := range c.links {
		if c.links[id].epoch > 0 {
			u.Links = append(u.Links, c.linkState(fabric.LinkID(id)))
		}
		if c.links[id].suspectEpoch > 0 {
			u.Suspects = append(u.Suspects, c.suspect(fabric.LinkID(id)))
		}
		if c.links[id].rateEpoch > 0 {
			u.Rates = append(u.Rates, c.linkRate(fabric.LinkID(id)))
		}
	}
	return u
}

// Desired returns the full tables of a switch for the present link states, sorted by [Key.Compare]. It returns nil
// for a host.
func (c *Core) Desired(node fabric.NodeID) []Entry {
	if node < 0 || int(node) >= c.f.Nodes() || c.f.Node(node).Tier == fabric.Host || c.cfg.LinksOnly {
		return nil
	}
	return c.appendDesired(nil, c.now, node)
}

// SwitchDelta is the changes of one switch's tables.
type SwitchDelta struct {
	Node    fabric.NodeID
	Stage   int // see the package comment; stages within a Ready never decrease
	Updates []Update
}

// Ready is what the caller of a [Core] has to do: write tables, notify agents.
type Ready struct {
	Writes  []SwitchDelta     // a switch may appear in several stages
	Notices []*statepb.Update // for the agents; one per change of a link or its suspicion, in order
}

// Written returns the full tables of a switch that has carried out everything [Core.Ready] ever returned, sorted by
// [Key.Compare]: the base of the next deltas, which lead to [Core.Desired]. It returns nil for a host.
func (c *Core) Written(node fabric.NodeID) []Entry {
	if node < 0 || int(node) >= c.f.Nodes() || c.f.Node(node).Tier == fabric.Host || c.cfg.LinksOnly {
		return nil
	}
	return c.appendDesired(nil, c.written, node)
}

// Notices returns the notices of the next [Ready] and removes them from it, for a caller that can notify agents now but
// cannot write to switches yet.
func (c *Core) Notices() []*statepb.Update {
	ns := c.notices
	c.notices = nil
	return ns
}

// Ready returns the work since the last call. The caller must carry it out or, for a switch to which it cannot
// write, compare that switch's tables with [Core.Desired] later.
func (c *Core) Ready() Ready {
	r := Ready{Notices: c.notices}
	c.notices = nil
	if len(c.changed) == 0 {
		return r
	}
	slices.Sort(c.changed)
	// First the links that came back, then those that died. So each pass knows the order of the tiers, and every
	// destination that has a path before and after also has one between.
	for _, up := range []bool{true, false} {
		var links []fabric.LinkID
		for _, id := range c.changed {
			if c.links[id].up() == up && c.isUplinkChange(id) {
				links = append(links, id)
			}
		}
		r.Writes = c.appendDeltas(r.Writes, links, up)
	}
	for _, id := range c.changed {
		c.links[id].pending = false
	}
	c.changed = c.changed[:0]
	return r
}

// isUplinkChange reports whether a link's state differs between what was written and now in a way that affects
// tables.
func (c *Core) isUplinkChange(id fabric.LinkID) bool {
	end := c.f.Link(id).A
	n := c.f.Node(end.Node)
	if n.Tier == fabric.Host || c.cfg.LinksOnly {
		return false
	}
	if !c.f.Clos() {
		return c.now.deadLinks[id] != c.written.deadLinks[id]
	}
	bit := uint64(1) << (end.Port - n.FirstUplink())
	if n.Tier == fabric.ToR {
		return (c.now.tor[n.Index]^c.written.tor[n.Index])&bit != 0
	}
	return (c.now.agg[n.Index]^c.written.agg[n.Index])&bit != 0
}
