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
	next := map[Hop][]Hop{}
	seen := map[[2]Hop]bool{}
	depend := func(a, b Hop) {
		if e := [2]Hop{a, b}; !seen[e] {
			seen[e] = true
			next[a] = append(next[a], b)
		}
	}
	var hops [4]Hop
	for s := range f.tors {
		for d := range f.tors {
			// Between pods a path up depends on the other pod alone, a path down on the
			// pod it came from: the first ToR stands for all.
			if per := f.spec.ToRsPerPod; s/per != d/per && s%per != 0 && d%per != 0 {
				continue
			}
			src, dst := f.ToRID(s), f.ToRID(d)
			for _, l := range f.PathLabels(src, dst) {
				path, _ := f.Path(hops[:0], src, dst, l)
				for i := range len(path) - 1 {
					depend(path[i], path[i+1])
				}
			}
		}
	}
	return cycleOf(next)
}

// cycleOf returns a cycle of a graph, nil if it has none.
func cycleOf(next map[Hop][]Hop) []Hop {
	const (
		open = 1 + iota
		done
	)
	state := map[Hop]int{}
	var way, cycle []Hop
	var visit func(h Hop) bool
	visit = func(h Hop) bool {
		switch state[h] {
		case done:
			return false
		case open:
			for i := range way {
				if way[i] == h {
					cycle = append(cycle, way[i:]...)
					return true
				}
			}
		}
		state[h] = open
		way = append(way, h)
		if slices.ContainsFunc(next[h], visit) {
			return true
		}
		way = way[:len(way)-1]
		state[h] = done
		return false
	}
	for h := range next {
		if visit(h) {
			return cycle
		}
	}
	return nil
}
