package controller

import "github.com/ethereal-fabric/ethereal/fabric"

// The tables of a ToR of a dragonfly; see fabric/dragonfly.go. Routes lead to the hosts, and to the other ToRs of the
// pod by port. Each other pod has a group. On a whole fabric it has one member, the port on the minimal path. Packets
// without label take it, and those whose label names this pod, in which they turn to the destination's pod.
//
// Dead links change these tables: see detours.

// appendPods appends the groups of the other pods and of single ToRs, and returns the routes to them.
func (c *Core) appendPods(w *tableWriter, s *state, n *fabric.Node) (rs []upRoute) {
	x := c.detoursOf(s)
	add := func(g group, to prefix, ms []Member) {
		w.out = append(w.out, Entry{Key: exactKey(ECMP, uint64(g)), Action: TakeUplink, Members: ms})
		rs = append(rs, upRoute{to, g})
	}
	for q := range s.pods {
		if q != n.Pod {
			add(podGroup+group(q), prefix{2, q}, c.podMembers(s, n, q, x.pods[q]))
		}
	}
	for d, far := range x.tors {
		if far != nil && s.podOfToR(d) != n.Pod {
			add(perToRGroup+group(d), prefix{1, d}, c.podMembers(s, n, s.podOfToR(d), far))
		}
	}
	return rs
}

// podMembers returns the ports that lead nearer to a pod. If none does, the minimal path's stays: packets are dropped
// there, and their senders get a quench.
func (c *Core) podMembers(s *state, n *fabric.Node, pod int, far []distance) (ms []Member) {
	for _, p := range c.portsToward(s, n, far) {
		if len(ms) < c.cfg.MaxGroupSize {
			ms = append(ms, Member{Port: p, Weight: 1})
		}
	}
	if ms == nil {
		ms = []Member{{Port: c.f.Toward(n.ID, pod), Weight: 1}}
	}
	return ms
}

// appendWithinPod appends the routes to the other ToRs of the pod. They do not read labels.
func (c *Core) appendWithinPod(rs []route, s *state, n *fabric.Node) []route {
	x := c.detoursOf(s)
	for d := n.Pod * s.torsPerPod; d < (n.Pod+1)*s.torsPerPod; d++ {
		if d == n.Index {
			continue
		}
		port := c.f.ToNeighbour(n.ID, c.f.ToRID(d))
		far := x.within[d]
		if x.tors[d] != nil {
			far = x.tors[d]
		}
		if ps := c.portsToward(s, n, far); len(ps) > 0 {
			port = ps[(n.Index+d)%len(ps)]
		}
		rs = append(rs, route{prefix{1, d}, ForwardDown, uint64(port)})
	}
	return rs
}

// appendPodLabels appends the label entries of the other pods. An entry is missing if its port is dead or leads to a
// ToR whose link to the pod is dead, and everywhere if the pod is split: packets then take the group of the
// destination's pod.
func (c *Core) appendPodLabels(out []Entry, s *state, n *fabric.Node) []Entry {
	x := c.detoursOf(s)
	w := tableWriter{c.f, out}
	for q := range s.pods {
		if q == n.Pod || x.split[q] || s.deadLinks[c.f.GlobalLink(n.Pod, q)] {
			continue
		}
		port := c.f.Toward(n.ID, q)
		if s.deadLinks[n.Link(port)] {
			continue
		}
		k := Key{Table: SourceRoute, Value: Value{Lo: uint64(c.f.LabelFor(q, 0))}, Mask: 1<<fabric.LabelBits - 1, Priority: 1}
		w.addEntry(k, TakeUplink, uint64(port))
	}
	return w.out
}

// appendDragonflyDeltas is appendChange. When links die, their ends are last: until then they drop packets, and no
// packet is sent back to a ToR that would return it. When links come back, the ends are first.
func (c *Core) appendDragonflyDeltas(out []SwitchDelta, links []fabric.LinkID, up bool, old, new *state) []SwitchDelta {
	ends := map[fabric.NodeID]bool{}
	for _, id := range links {
		l := c.f.Link(id)
		ends[l.A.Node], ends[l.B.Node] = true, true
	}
	stages := []int{stageUpAggs, stageUpToRs}
	if !up {
		stages = []int{stageDownToRs, stageDownAggs}
	}
	for i, stage := range stages {
		for t := range new.tor {
			id := c.f.ToRID(t)
			if ends[id] != (up == (i == 0)) {
				continue
			}
			if us := Diff(c.appendDesired(nil, old, id), c.appendDesired(nil, new, id)); len(us) > 0 {
				out = append(out, SwitchDelta{Node: id, Stage: stage, Updates: us})
			}
		}
	}
	return out
}
