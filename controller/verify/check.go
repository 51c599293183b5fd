package verify

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// Network is what [Check] examines: a fabric with its switches' tables and link states.
type Network struct {
	Fabric *fabric.Fabric
	Tables map[fabric.NodeID][]controller.Entry // table entries read from every switch
	Up     func(fabric.LinkID) bool             // reports whether a link carries packets now
	// Drained reports links that carry packets but must not be used; nil: none. Labels whose path crosses one do
	// not count as alive, and packets without a label cross one only after a further failure.
	Drained func(fabric.LinkID) bool
	// NoLabels means, per IPv4 and IPv6, that packets carry no label.
	NoLabels [2]bool
	// Segments says that labels are carried as micro segments (uSIDs) in an outer header.
	Segments bool
	// NoQuench reports switches that drop packets at a dead port without notifying their source. Such walks are
	// counted in [Report.Unnotified]. nil: none.
	NoQuench func(fabric.NodeID) bool
}

// Options limit what [Check] reports and tries.
type Options struct {
	Problems   int  // largest number of problems; 0: 10
	NoFailures bool // check the present state only, without further failures
}

// Report is the result of a [Check]: what was examined, and the problems found.
type Report struct {
	Walks      int // number of packets' walks checked
	Failures   int // number of further failures of single links that were tried
	Unnotified int // walks that ended at a dead port of a switch that sends no quench
	// Cut are pairs of ToRs, a source and a destination, without any live path: packets between them cannot arrive,
	// whatever the tables are.
	Cut      [][2]fabric.NodeID
	Problems []Problem
}

// OK reports whether everything was proved, for packets that have a live path.
func (r Report) OK() bool { return len(r.Problems) == 0 }

// Check proves the properties in the package comment, or finds counter-examples. It returns an error if the tables
// of a switch are missing, if the fabric is no Clos of one plane, or when ctx ends.
func Check(ctx context.Context, n Network, o Options) (Report, error) {
	if err := n.Fabric.SinglePlane("verify"); err != nil {
		return Report{}, err
	}
	if o.Problems == 0 {
		o.Problems = 10
	}
	c := checker{ctx: ctx, o: o, f: n.Fabric, noLabels: n.NoLabels, segments: n.Segments}
	c.w = walker{f: n.Fabric, up: make([]bool, n.Fabric.Links()), failed: NoLink, routes: make([]*controller.Entry, n.Fabric.Switches())}
	c.linkRound = make([]uint32, n.Fabric.Links())
	c.usable = make([]bool, n.Fabric.Links())
	for i := range c.w.up {
		id := fabric.LinkID(i)
		c.w.up[i] = n.Up(id)
		c.usable[i] = c.w.up[i] && (n.Drained == nil || !n.Drained(id))
	}
	for i := range n.Fabric.Switches() {
		id := fabric.NodeID(n.Fabric.Hosts() + i)
		es, ok := n.Tables[id]
		if !ok {
			return Report{}, fmt.Errorf("verify: the tables of %s are missing", n.Fabric.Name(id))
		}
		t := newTables(es)
		t.noQuench = n.NoQuench != nil && n.NoQuench(id)
		c.w.tables = append(c.w.tables, t)
	}
	c.run()
	return c.report, ctx.Err()
}

type checker struct {
	ctx      context.Context
	o        Options
	f        *fabric.Fabric
	w        walker
	usable   []bool // by link: up and not drained
	noLabels [2]bool
	segments bool
	report   Report
	hops     []fabric.Hop // of the label's path

	// Of the present walks.
	src          fabric.NodeID
	mustTakePath bool            // the label's path is alive: the packet must take it
	mustArrive   bool            // the packet must arrive
	recordLinks  bool            // record links in used
	used         []fabric.LinkID // links between switches on the walks
	linkRound    []uint32        // by link: the round that recorded it
	round        uint32
}

// stopped reports whether to stop.
func (c *checker) stopped() bool { return c.ctx.Err() != nil || len(c.report.Problems) >= c.o.Problems }

// checkSourceGuards checks that no switch drops packets of a neighbour as forged: a port's entry must have the
// neighbour's addresses, and a switch has those of many.
func (c *checker) checkSourceGuards() {
	for i, t := range c.w.tables {
		id := fabric.NodeID(c.f.Hosts() + i)
		for _, e := range t.guards {
			link, ok := c.f.LinkAt(id, fabric.PortNo(e.Value.Lo))
			if !ok {
				continue
			}
			peer := c.f.Link(link).Peer(id).Node
			var right [2]bool
			if c.f.Node(peer).Tier == fabric.Host {
				v6 := controller.AddrValue(c.f.HostAddr6(peer))
				right[0] = e.Args[0] == controller.AddrValue(c.f.HostAddr4(peer)).Lo
				right[1] = e.Args[1] == v6.Hi && e.Args[2] == v6.Lo
			}
			for family, ok := range right {
				if !ok && !c.stopped() {
					c.report.Problems = append(c.report.Problems, Problem{ShutOut, Walk{
						Src: id, Host: peer, IPv6: family == 1, Label: NoLabel, Failed: NoLink,
						Steps: []Step{{Node: id, Entries: []controller.Entry{*e}}}, End: "dropped: its source is taken for forged",
					}})
				}
			}
		}
	}
}

func (c *checker) run() {
	c.w.ended = c.walkEnded
	c.checkSourceGuards()
	failed := make([]bool, c.f.Links())
	for s := range c.f.ToRs() {
		for d := range c.f.ToRs() {
			if src, dst := c.f.ToRID(s), c.f.ToRID(d); src != dst && !c.anyPathUp(src, dst) {
				c.report.Cut = append(c.report.Cut, [2]fabric.NodeID{src, dst})
			}
			first, count := c.f.HostsOf(c.f.ToRID(d))
			for i := range count {
				host := first + fabric.NodeID(i)
				for _, addr := range []netip.Addr{c.f.HostAddr4(host), c.f.HostAddr6(host)} {
					if c.stopped() {
						return
					}
					// The hosts of a rack differ only in their ToR's last step: failures are checked for one of
					// them.
					c.checkPair(c.f.ToRID(s), c.f.ToRID(d), newDestination(host, addr), i == 0 && !c.o.NoFailures, failed)
				}
			}
		}
	}
	for _, f := range failed {
		if f {
			c.report.Failures++
		}
	}
}

// checkPair checks the properties for packets from one ToR to one destination.
func (c *checker) checkPair(src, dst fabric.NodeID, d destination, failures bool, failed []bool) {
	c.src = src
	// A dead host link ends every walk.
	hostUp := c.w.up[int(d.host)]
	labels := c.f.PathLabels(src, dst)
	labelled := !c.noLabels[d.family]
	any := src == dst
	var alive []bool
	for _, l := range labels {
		ok := c.pathUp(src, dst, l)
		alive = append(alive, ok)
		any = any || ok
	}
	prove := func(label int, sid *controller.Value, exact bool) {
		c.w.failed = NoLink
		c.mustTakePath, c.mustArrive = exact && hostUp, any && hostUp && (exact || label == NoLabel)
		c.used, c.recordLinks = c.used[:0], failures
		c.round++
		c.w.walk(src, &d, label, sid)
		c.recordLinks = false
		// A link of the path is dead and no controller has reacted: the packet may be lost, but neither silently
		// nor in a loop.
		c.mustTakePath, c.mustArrive = false, false
		slices.Sort(c.used)
		for _, id := range c.used {
			if c.stopped() {
				return
			}
			failed[id] = true
			c.w.failed = id
			c.w.walk(src, &d, label, sid)
		}
		c.w.failed = NoLink
	}
	for i, l := range labels {
		if c.hops, _ = c.f.Path(c.hops[:0], src, dst, l); labelled && !c.stopped() {
			prove(int(l), nil, alive[i])
		}
		if c.segments && !c.stopped() {
			from, _ := c.f.HostsOf(src)
			ids, _ := c.f.Segments(nil, from, d.host, l)
			sid := controller.AddrValue(fabric.SID(ids...))
			prove(int(l), &sid, alive[i])
		}
	}
	if !c.stopped() {
		prove(NoLabel, nil, false)
	}
}

// pathUp reports whether a label's path is alive and stores it in hops.
func (c *checker) pathUp(src, dst fabric.NodeID, l fabric.Label) bool {
	hops, ok := c.f.Path(c.hops[:0], src, dst, l)
	c.hops = hops
	for _, h := range hops {
		ok = ok && c.usable[h.Link]
	}
	return ok
}

// anyPathUp reports whether any label's path is alive.
func (c *checker) anyPathUp(src, dst fabric.NodeID) bool {
	return slices.ContainsFunc(c.f.PathLabels(src, dst), func(l fabric.Label) bool { return c.pathUp(src, dst, l) })
}

// onDrained reports whether a walk crosses a link that is up and drained.
func (c *checker) onDrained(w *walker) bool {
	for i := range w.n {
		if s := &w.steps[i]; s.port > 0 {
			if id, ok := c.f.LinkAt(s.node, s.port); ok && c.w.up[id] && !c.usable[id] {
				return true
			}
		}
	}
	return false
}

// walkEnded judges the end of a walk.
func (c *checker) walkEnded(w *walker, f outcome, host fabric.NodeID) bool {
	c.report.Walks++
	if f == unnotified {
		c.report.Unnotified++
	}
	if c.recordLinks {
		for i := range w.n {
			if s := &w.steps[i]; s.port > 0 {
				if id, ok := c.f.LinkAt(s.node, s.port); ok && int(id) >= c.f.Hosts() && c.linkRound[id] != c.round {
					c.linkRound[id] = c.round
					c.used = append(c.used, id)
				}
			}
		}
	}
	switch {
	case f == looped:
		c.addProblem(Loop)
	case f == lost:
		c.addProblem(BlackHole)
	case f == silent:
		c.addProblem(Silent)
	case f == delivered && host != w.dst.host:
		c.addProblem(WrongHost)
	case (f == sourceNotified || f == unnotified) && c.mustArrive:
		c.addProblem(BlackHole)
	case c.mustArrive && w.label == NoLabel && c.onDrained(w): // with a label of a drained path until the host leaves it
		c.addProblem(OnDrained)
	case c.mustTakePath && !c.onPath(w):
		c.addProblem(WrongPath)
	}
	return !c.stopped()
}

// onPath reports whether the walk is the label's path plus the last step to the host.
func (c *checker) onPath(w *walker) bool {
	if w.n != len(c.hops)+1 {
		return false
	}
	for i, h := range c.hops {
		if w.steps[i].node != h.From || w.steps[i].port != h.Port || w.steps[i].rerouted {
			return false
		}
	}
	return true
}

func (c *checker) addProblem(k Kind) {
	w := &c.w
	p := Problem{Kind: k, Walk: Walk{
		Src: c.src, Host: w.dst.host, IPv6: w.dst.family == 1, Outer: w.encapsulated || w.decapsulated, Label: w.label, Failed: w.failed, End: w.end.text(c.f),
	}}
	for i := range w.n {
		s := w.steps[i]
		out := Step{Node: s.node, Port: s.port, Rerouted: s.rerouted}
		for _, e := range s.entries {
			if e != nil {
				out.Entries = append(out.Entries, *e)
			}
		}
		p.Walk.Steps = append(p.Walk.Steps, out)
	}
	c.report.Problems = append(c.report.Problems, p)
}
