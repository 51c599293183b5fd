package fabric

import "slices"

// PauseCycle returns directed links that could wait for each other for ever if a
// full buffer made switches pause those who send to them: a cycle in which each
// link's packets go on by the next. nil: there is none, so lossless forwarding by
// the fabric's paths cannot end in deadlock. It looks at every path between hosts
// under any two ToRs; what a switch sends round a dead uplink, or hashes, is on
// one of them too. Links of hosts are on no cycle: nothing is before the first or
// behind the last.
func (f *Fabric) PauseCycle() []Hop {
	// A hop is numbered by the port it leaves: those of a node lie together.
	first := make([]int32, f.Nodes())
	var hops []Hop
	for node := range f.Nodes() {
		first[node] = int32(len(hops))
		for p := range f.Node(NodeID(node)).Ports() {
			hops = append(hops, Hop{Link: f.Node(NodeID(node)).Link(PortNo(p + 1)), From: NodeID(node), Port: PortNo(p + 1)})
		}
	}
	next := make([][]int32, len(hops))
	seen := make([][]bool, len(hops)) // by the port that the next one leaves, less 1
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
	var path [4]Hop
	for s := range f.tors {
		for d := range f.tors {
			if !f.stands(s, d) {
				continue
			}
			src, dst := f.ToRID(s), f.ToRID(d)
			for _, l := range f.PathLabels(src, dst) {
				way, _ := f.Path(path[:0], src, dst, l)
				for i := range len(way) - 1 {
					depend(way[i], way[i+1])
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

// stands reports whether the paths between two ToRs have to be looked at. Between
// pods, the label alone says how a path goes up from its ToR and down to it, so one
// ToR elsewhere shows that; how it turns at the core depends on the two pods, whose
// first ToRs show that.
func (f *Fabric) stands(s, d int) bool {
	per := f.spec.ToRsPerPod
	if per == 0 || s/per == d/per {
		return true
	}
	elsewhere := func(tor int) int { return (tor/per*per + per) % f.tors }
	return s%per == 0 && d%per == 0 || d == elsewhere(s) || s == elsewhere(d)
}

// cycleOf returns a cycle of a graph, given by the followers of each node; nil if
// it has none.
func cycleOf(next [][]int32) (cycle []int32) {
	const (
		open = 1 + iota
		done
	)
	state := make([]uint8, len(next))
	var way []int32
	var visit func(n int32) bool
	visit = func(n int32) bool {
		switch state[n] {
		case done:
			return false
		case open:
			for i := range way {
				if way[i] == n {
					cycle = way[i:]
					return true
				}
			}
		}
		state[n] = open
		way = append(way, n)
		if slices.ContainsFunc(next[n], visit) {
			return true
		}
		way = way[:len(way)-1]
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
