package controller

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// distance is a path's number of links between switches of a dragonfly. A global link counts as much as globalLink
// links within pods, so a path with fewer global links is always nearer.
type distance int32

const (
	globalLink  distance = 1 << 12
	unreachable distance = 1<<31 - 1
)

// detours are the distances of all ToRs over the live links of a dragonfly. A packet without label is always sent to
// a ToR that is nearer to its destination, so it does not return. On a whole fabric it takes the minimal path. After a
// cut of the only link between two pods it goes through a third pod; after a cut within a pod, by another ToR of it.
//
// A split pod has ToRs that do not reach each other within it. Its ToRs are destinations of their own.
//
// A packet whose label names a third pod that has lost its link to the destination's pod is sent back there by the next
// pod, until its TTL ends: the label does not say that it has turned. Hosts that know of the dead link do not use the
// label. The label of the minimal path names no pod, so these packets, and their ACKs, go as those without label.
type detours struct {
	pods   [][]distance // by pod, by ToR: to the pod
	within [][]distance // by ToR: from the ToRs of its pod, without leaving it
	tors   [][]distance // by ToR of a split pod: from all others; nil otherwise
	split  []bool       // by pod
}

// detoursOf returns the detours of a state.
func (c *Core) detoursOf(s *state) *detours {
	if s.detour != nil {
		return s.detour
	}
	x := &detours{tors: make([][]distance, len(s.tor)), split: make([]bool, s.pods)}
	anywhere := func(*fabric.Node) bool { return true }
	for d := range s.tor {
		pod := s.podOfToR(d)
		far := c.distances(s, []int{d}, func(n *fabric.Node) bool { return n.Pod == pod })
		x.within = append(x.within, far)
		if slices.Contains(far[pod*s.torsPerPod:(pod+1)*s.torsPerPod], unreachable) {
			x.split[pod] = true
		}
	}
	for q := range s.pods {
		members := make([]int, s.torsPerPod)
		for i := range members {
			members[i] = q*s.torsPerPod + i
			if x.split[q] {
				x.tors[members[i]] = c.distances(s, members[i:i+1], anywhere)
			}
		}
		x.pods = append(x.pods, c.distances(s, members, anywhere))
	}
	s.detour = x
	return x
}

// distances returns the distances of all ToRs to the nearest of some, over live links and ToRs that may be used.
func (c *Core) distances(s *state, to []int, usable func(*fabric.Node) bool) []distance {
	far := make([]distance, len(s.tor))
	for i := range far {
		far[i] = unreachable
	}
	for _, t := range to {
		far[t] = 0
	}
	for queue := slices.Clone(to); len(queue) > 0; queue = queue[1:] {
		n := c.f.Node(c.f.ToRID(queue[0]))
		c.eachNeighbour(s, n, func(_ fabric.PortNo, peer *fabric.Node, length distance) {
			if d := far[n.Index] + length; d < far[peer.Index] && usable(peer) {
				far[peer.Index] = d
				queue = append(queue, peer.Index)
			}
		})
	}
	return far
}

// eachNeighbour calls f for the live links of a ToR to other ToRs, in order of ports.
func (c *Core) eachNeighbour(s *state, n *fabric.Node, f func(p fabric.PortNo, peer *fabric.Node, length distance)) {
	_, hosts := c.f.HostsOf(n.ID)
	for p := fabric.PortNo(hosts + 1); int(p) <= n.Ports(); p++ {
		id := n.Link(p)
		if s.deadLinks[id] {
			continue
		}
		peer := c.f.Node(c.f.Link(id).Peer(n.ID).Node)
		length := distance(1)
		if peer.Pod != n.Pod {
			length = globalLink
		}
		f(p, peer, length)
	}
}

// portsToward returns the ports of a ToR that begin a shortest path.
func (c *Core) portsToward(s *state, n *fabric.Node, far []distance) (ps []fabric.PortNo) {
	own := far[n.Index]
	if own == unreachable {
		return nil
	}
	c.eachNeighbour(s, n, func(p fabric.PortNo, peer *fabric.Node, length distance) {
		if far[peer.Index] == own-length {
			ps = append(ps, p)
		}
	})
	return ps
}

// reaches reports whether there is a path from one ToR to another.
func (c *Core) reaches(s *state, from, to int) bool {
	x := c.detoursOf(s)
	if x.tors[to] != nil {
		return x.tors[to][from] != unreachable
	}
	return x.pods[s.podOfToR(to)][from] != unreachable
}
