package controller

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// hashOffsets, by tier, make the ECMP hashes of the tiers use different bits. With the same bits of one hash, all
// packets that reach an aggregation switch would already agree on its uplink.
var hashOffsets = [...]uint64{fabric.ToR: 0, fabric.Aggregation: 8, fabric.Core: 0}

// prefix is a destination of the address plan: all, a pod, a ToR.
type prefix struct {
	level int // as Key.prefixLevel: 1 ToR, 2 pod, 3 default
	index int // of the ToR or pod
}

// tableWriter appends entries in key order. The entries of v6 routes follow all v4 ones, so each family has its own
// pass.
type tableWriter struct {
	f   *fabric.Fabric
	out []Entry
}

func (w *tableWriter) addEntry(k Key, a Action, args ...uint64) {
	e := Entry{Key: k, Action: a}
	copy(e.Args[:], args)
	w.out = append(w.out, e)
}

func exactKey(t Table, v uint64) Key { return Key{Table: t, Value: Value{Lo: v}} }

func routeKey(t Table, p netip.Prefix) Key {
	return Key{Table: t, PrefixLen: uint8(p.Bits()), Value: AddrValue(p.Addr())}
}

func (w *tableWriter) hostKey(t Table, h fabric.NodeID) Key {
	if t == RouteV4 {
		return routeKey(t, netip.PrefixFrom(w.f.HostAddr4(h), 32))
	}
	return routeKey(t, netip.PrefixFrom(w.f.HostAddr6(h), 128))
}

func prefixKey(f *fabric.Fabric, t Table, p prefix) Key {
	switch v4 := t == RouteV4; {
	case p.level == 1 && v4:
		return routeKey(t, f.ToRPrefix4(f.ToRID(p.index)))
	case p.level == 1:
		return routeKey(t, f.ToRPrefix6(f.ToRID(p.index)))
	case p.level == 2 && v4:
		return routeKey(t, f.PodPrefix4(p.index))
	case p.level == 2:
		return routeKey(t, f.PodPrefix6(p.index))
	}
	return Key{Table: t}
}

// upRoute is a route that leads up because of failures.
type upRoute struct {
	prefix
	group group
}

// groups returns the groups that the routes name, each once, in order.
func groups(routes []upRoute) []group {
	gs := make([]group, 0, len(routes)+1)
	gs = append(gs, defaultGroup)
	for _, r := range routes {
		gs = append(gs, r.group)
	}
	slices.Sort(gs)
	return slices.Compact(gs)
}

// torRoutes returns the routes of a ToR that failures require, ToRs first.
func (v *torView) torRoutes() []upRoute {
	var rs []upRoute
	for d, live := range v.state.tor {
		if live != v.torAll {
			if g := v.groupOf(d); g != noGroup {
				rs = append(rs, upRoute{prefix{1, d}, g})
			}
		}
	}
	for q, dead := range v.deadAggUplinks {
		if dead > 0 {
			if _, ok := v.toPod(q); ok {
				rs = append(rs, upRoute{prefix{2, q}, podGroup + group(q)})
			}
		}
	}
	return rs
}

// aggRoutes returns the routes of an aggregation switch that failures require.
func (v *aggView) aggRoutes() []upRoute {
	var rs []upRoute
	for q, dead := range v.deadAggUplinks {
		if dead > 0 {
			if g := v.groupOf(q); g != noGroup {
				rs = append(rs, upRoute{prefix{2, q}, g})
			}
		}
	}
	return rs
}

// appendDesired appends the full tables of a switch.
func (c *Core) appendDesired(out []Entry, s *state, id fabric.NodeID) []Entry {
	n := c.f.Node(id)
	w := tableWriter{c.f, out}
	for p := range n.Ports() {
		w.addEntry(exactKey(CloneSession, uint64(CloneSessions+p+1)), CloneTo, uint64(p+1), 0, uint64(c.cfg.CloneClass))
	}
	c.appendGroups(&w, n)
	offset := hashOffsets[n.Tier]
	if c.cfg.EqualHashes {
		offset = hashOffsets[fabric.ToR]
	}
	w.addEntry(Key{Table: Device}, SetDevice, uint64(uint32(id)), uint64(c.cfg.HashSeed), offset,
		uint64(n.Uplinks()), uint64(c.cfg.ControlPriority), uint64(c.cfg.QuenchIntervalUs))
	c.appendBalancer(&w, n)
	for family, carrier := range []Carrier{c.cfg.CarrierV4, c.cfg.CarrierV6} {
		switch carrier {
		case UDPSourcePort:
			w.addEntry(exactKey(LabelCarrier, uint64(family)), CarrierUDPSport)
		case FlowLabel, MicroSegments: // these use the outer header's
			w.addEntry(exactKey(LabelCarrier, uint64(family)), CarrierFlowLabel)
		}
	}
	if c.f.Clos() { // elsewhere a packet for a dead port has no other uplink
		first := uint64(n.FirstUplink())
		for u := range uint64(n.Uplinks()) {
			w.addEntry(exactKey(UplinkOfPort, first+u), SetUplinkIndex, u)
		}
		for u := range uint64(n.Uplinks()) {
			w.addEntry(exactKey(PortOfUplink, u), TakeUplink, first+u)
		}
	}
	c.appendNotices(&w, n)
	if n.Tier == fabric.ToR {
		first, count := c.f.HostsOf(id)
		for i := range count {
			v6 := AddrValue(c.f.HostAddr6(first + fabric.NodeID(i)))
			w.addEntry(exactKey(SourceGuard, uint64(i+1)), OwnAddresses, AddrValue(c.f.HostAddr4(first+fabric.NodeID(i))).Lo, v6.Hi, v6.Lo)
		}
	}
	if e := c.cfg.ECN; e.Kmax > 0 {
		for p := range n.Ports() {
			w.addEntry(exactKey(ECNProfile, uint64(p+1)), MarkBetween, uint64(e.Kmin/e.Unit), uint64(e.Kmax/e.Unit),
				uint64(math.Round(e.Pmax*maxProbability)))
		}
	}

	c.appendRotations(&w, n)
	if c.cfg.CarrierV6 == MicroSegments {
		w.addEntry(exactKey(OwnSegment, AddrValue(fabric.SID(id)).Hi>>16), ShiftSegments)
	}
	var rs []upRoute
	switch {
	case !c.f.Clos():
		rs = c.appendPods(&w, s, n)
	case n.Tier == fabric.ToR:
		v := c.plan.torViewOf(s, n.Index)
		rs = v.torRoutes()
		w.out = c.appendToRGroups(w.out, &v, groups(rs), true)
	case n.Tier == fabric.Aggregation:
		v := s.aggView(n.Index)
		rs = v.aggRoutes()
		w.out = c.appendAggGroups(w.out, &v, groups(rs), true)
	}
	c.appendRoutes(&w, s, n, RouteV4, rs)
	routes := len(w.out)
	c.appendRoutes(&w, s, n, RouteV6, rs)
	if c.cfg.CarrierV6 == MicroSegments {
		c.appendSegments(&w, n)
		slices.SortFunc(w.out[routes:], func(a, b Entry) int { return a.Compare(b.Key) })
	}
	w.out = c.appendLabels(w.out, s, n)
	return w.out
}

// route is a route to a prefix; arg is the group or port.
type route struct {
	prefix
	action Action
	arg    uint64
}

// appendRoutes appends all routes of one family; up are those that failures require. A packet for an address within
// the switch's prefix, but without a host, is discarded: if it were sent on, it would come back.
func (c *Core) appendRoutes(w *tableWriter, s *state, n *fabric.Node, t Table, up []upRoute) {
	var rs []route
	for _, r := range up {
		rs = append(rs, route{r.prefix, ForwardUp, uint64(r.group)})
	}
	down, lowest := downPorts(n), 0
	switch n.Tier {
	case fabric.ToR:
		first, count := c.f.HostsOf(n.ID)
		lowest = count
		for i := range count {
			h := first + fabric.NodeID(i)
			w.addEntry(w.hostKey(t, h), Deliver, uint64(i+1), macValue(c.f.MAC(h)))
		}
		rs = append(rs, route{prefix{1, n.Index}, Discard, 0})
	case fabric.Aggregation:
		rs = append(rs, route{prefix{2, n.Pod}, Discard, 0})
	}
	if !c.f.Clos() {
		rs, lowest = c.appendWithinPod(rs, s, n), down
	}
	for p := lowest; p < down; p++ {
		peer := c.f.Node(c.f.Link(n.Link(fabric.PortNo(p + 1))).Peer(n.ID).Node)
		to := prefix{1, peer.Index}
		if peer.Tier == fabric.Aggregation {
			to = prefix{2, peer.Pod}
		}
		rs = append(rs, route{to, ForwardDown, uint64(p + 1)})
	}
	if n.Uplinks() > 0 && c.f.Clos() {
		rs = append(rs, route{prefix{level: 3}, ForwardUp, uint64(defaultGroup)})
	}
	slices.SortFunc(rs, func(a, b route) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.index, b.index))
	})
	for _, r := range rs {
		if r.action == Discard {
			w.addEntry(prefixKey(c.f, t, r.prefix), Discard)
			continue
		}
		w.addEntry(prefixKey(c.f, t, r.prefix), r.action, r.arg)
	}
}

// appendSegments appends the static routes to the neighbours' micro segments. No failure changes them: the program
// itself reroutes around a dead port. Segments that are no neighbour's are dropped.
func (c *Core) appendSegments(w *tableWriter, n *fabric.Node) {
	for p := fabric.PortNo(1); int(p) <= n.Ports(); p++ {
		peer := c.f.Node(c.f.Link(n.Link(p)).Peer(n.ID).Node)
		k := routeKey(RouteV6, fabric.Locator(peer.ID))
		switch {
		case peer.Tier == fabric.Host:
			w.addEntry(k, Deliver, uint64(p), macValue(c.f.MAC(peer.ID)))
		case p >= n.FirstUplink():
			w.addEntry(k, ForwardUplink, uint64(p))
		default:
			w.addEntry(k, ForwardDown, uint64(p))
		}
	}
	w.addEntry(routeKey(RouteV6, fabric.USIDBlock), Discard)
}

func macValue(mac [6]byte) (v uint64) {
	for _, b := range mac {
		v = v<<8 | uint64(b)
	}
	return v
}

// appendLabels appends the label entries of the live uplinks.
func (c *Core) appendLabels(out []Entry, s *state, n *fabric.Node) []Entry {
	if !c.f.Clos() {
		return c.appendPodLabels(out, s, n)
	}
	var live uint64
	switch n.Tier {
	case fabric.ToR:
		live = s.tor[n.Index]
	case fabric.Aggregation:
		live = s.agg[n.Index]
	default:
		return out
	}
	ms := c.matches[n.Tier]
	for ; live != 0; live &= live - 1 {
		u := bits.TrailingZeros64(live)
		k := Key{Table: SourceRoute, Value: Value{Lo: uint64(ms[u].Value)}, Mask: uint64(ms[u].Mask), Priority: 1}
		out = append(out, Entry{Key: k, Action: TakeUplink, Args: [maxArgs]uint64{uint64(n.FirstUplink()) + uint64(u)}})
	}
	return out
}

// appendToRGroups appends those of the groups gs that the ToR has; full is as for appendSlots.
func (c *Core) appendToRGroups(out []Entry, v *torView, gs []group, full bool) []Entry {
	n := c.f.Node(c.f.ToRID(v.tor))
	buf := c.entryBuf[:0]
	for _, g := range gs {
		if w, ok := v.groupWeights(g); ok {
			buf = append(buf, Entry{Key: exactKey(ECMP, uint64(g)), Action: TakeUplink, Members: c.members(n.FirstUplink(), w, v.torUp)})
		}
	}
	c.entryBuf = buf
	return append(c.appendSlots(out, n, buf, full), buf...)
}

// appendAggGroups appends those of the groups gs that the aggregation switch
// has.
func (c *Core) appendAggGroups(out []Entry, v *aggView, gs []group, full bool) []Entry {
	n := c.f.Node(c.f.AggID(v.agg))
	buf := c.entryBuf[:0]
	for _, g := range gs {
		if set, ok := v.groupUplinks(g); ok {
			buf = append(buf, Entry{Key: exactKey(ECMP, uint64(g)), Action: TakeUplink, Members: c.members(n.FirstUplink(), equalWeights(set), v.aggUp)})
		}
	}
	c.entryBuf = buf
	return append(c.appendSlots(out, n, buf, full), buf...)
}

// memberKey is what determines members.
type memberKey struct {
	first   fabric.PortNo
	weights weights
}

// maxMembers bounds the cache of groups' members, to about 10 MB.
const maxMembers = 1 << 14

// members returns the members of a group whose uplinks begin at port first. Equal groups occur on many switches:
// they are cached and shared.
func (c *Core) members(first fabric.PortNo, w weights, n int) []Member {
	key := memberKey{first, w}
	if l := &c.lastMembers; l.members != nil && l.key == key {
		return l.members
	}
	ms, ok := c.memberSets[key]
	if !ok {
		ms = makeMembers(first, w, n)
		if c.memberSets == nil || len(c.memberSets) >= maxMembers {
			c.memberSets = make(map[memberKey][]Member)
		}
		c.memberSets[key] = ms
	}
	c.lastMembers.key, c.lastMembers.members = key, ms
	return ms
}

func makeMembers(first fabric.PortNo, w weights, n int) []Member {
	ms := make([]Member, 0, n)
	for u, x := range w[:n] {
		if x > 0 {
			ms = append(ms, Member{Port: first + fabric.PortNo(u), Weight: int32(x)})
		}
	}
	return slices.Clip(ms)
}

// appendSlots appends, for balancers other than ECMP, the groups' slots: each uplink as often as it has shares,
// round after round, in an order specific to the switch and the group. full adds the uplinks by number, which no
// link change affects.
func (c *Core) appendSlots(out []Entry, n *fabric.Node, groups []Entry, full bool) []Entry {
	if c.cfg.Balancer.Rule == HashFlows {
		return out
	}
	w := tableWriter{c.f, out}
	slots := make([]int, len(groups))
	sets := make([]uint64, len(groups))
	for i, g := range groups {
		rng := rand.New(rand.NewPCG(uint64(c.cfg.HashSeed), uint64(n.ID)<<16|g.Value.Lo))
		order := rng.Perm(len(g.Members))
		for round := int32(1); ; round++ {
			before := slots[i]
			for _, m := range order {
				if x := g.Members[m]; x.Weight >= round {
					w.addEntry(exactKey(UplinkSlot, g.Value.Lo<<8|uint64(slots[i])), TakeUplink, uint64(x.Port))
					sets[i] |= 1 << (x.Port - n.FirstUplink())
					slots[i]++
				}
			}
			if slots[i] == before {
				break
			}
		}
	}
	if full && rules[c.cfg.Balancer.Rule].Adaptive {
		for u := range uint64(n.Uplinks()) {
			w.addEntry(exactKey(UplinkSlot, allUplinksGroup<<8|u), TakeUplink, uint64(n.FirstUplink())+u)
		}
	}
	for i, g := range groups {
		w.addEntry(exactKey(UplinkGroup, g.Value.Lo), SetSlots, uint64(slots[i]), sets[i])
	}
	return w.out
}
