package fabric

import "slices"

// PauseCycle returns a cycle of directed links that could wait for each other for ever if switches with a full
// buffer pause their senders: each link's packets continue on the next link. nil means that there is no cycle, so
// lossless forwarding on the fabric's paths cannot deadlock. It looks at every path between hosts under any two
// ToRs; rerouted or hashed packets also use one of these paths. Links of hosts are on no cycle: nothing precedes
// the first or follows the last.
func (f *Fabric) PauseCycle() []Hop {
	// A hop is numbered by the port that it leaves: the ports of a node have consecutive numbers.
	first := make([]int32, f.Nodes())
	var hops []Hop
	for node := range f.Nodes() {
		first[node] = int32(len(hops))
		for p := range f.Node(NodeID(node)).Ports() {
			hops = append(hops, Hop{Link: f.Node(NodeID(node)).Link(PortNo(p + 1)), From: NodeID(node), Port: PortNo(p + 1)})
		}
	}
	next := make([][]int32, len(hops))
	seen := make([][]bool, len(hops)) // by the next link's port, minus 1
	depend := func(a, b Hop) {
		from := first[a.From] + int32(a.Port) - 1
		if seen[from] == nil {
			seen[from] = make([]bool, f.Node(b.From).Ports())
		}
		if s := &seen[from][b.Port-1]; !*s {
			*s = true
			next[from] = append(next[from], first[b.From]+int32(b.Port)-1)
		}
	}
	var buf [4]Hop
	for s := range f.tors {
		for d := range f.tors {
			if !f.mustCheckPair(s, d) {
				continue
			}
			src, dst := f.ToRID(s), f.ToRID(d)
			for _, l := range f.PathLabels(src, dst) {
				hops, _ := f.Path(buf[:0], src, dst, l)
				for i := range len(hops) - 1 {
					depend(hops[i], hops[i+1])
				}
			}
		}
	}
	var cycle []Hop
	for _, i := range cycleOf(next) {
		cycle = append(cycle, hops[i])
	}
	return cycle
}

// mustCheckPair reports whether the paths between two ToRs have to be looked at. Between pods, the label alone
// determines a path's way up from its ToR and down to its ToR, so one ToR elsewhere covers these. The turn at the core
// depends on the two pods, and the pods' first ToRs cover it.
func (f *Fabric) mustCheckPair(s, d int) bool {
	per := f.spec.ToRsPerPod
	if per == 0 || !f.Clos() || s/per == d/per {
		return true
	}
	elsewhere := func(tor int) int { return (tor/per*per + per) % f.tors }
	return s%per == 0 && d%per == 0 || d == elsewhere(s) || s == elsewhere(d)
}

// cycleOf returns a cycle of a graph, given by the successors of each node, or nil.
func cycleOf(next [][]int32) (cycle []int32) {
	const (
		open = 1 + iota
		done
	)
	state := make([]uint8, len(next))
	var path []int32
	var visit func(n int32) bool
	visit = func(n int32) bool {
		switch state[n] {
		case done:
			return false
		case open:
			for i := range path {
				if path[i] == n {
					cycle = path[i:]
					return true
				}
			}
		}
		state[n] = open
		path = append(path, n)
		if slices.ContainsFunc(next[n], visit) {
			return true
		}
		path = path[:len(path)-1]
		state[n] = done
		return false
	}
	for n := range next {
		if visit(int32(n)) {
			return cycle
		}
	}
	return nil
}
