package collective

import "math/bits"

// trees is the double binary tree. Steps 0 and 1 sum up tree 0 and 1 towards
// their roots, steps 2 and 3 send the sums back.
type trees struct {
	ranks int
	bytes [2]int64 // per tree
}

const (
	sumStep   = 0 // + tree
	shareStep = 2 // + tree
	noRank    = -1
)

func (t trees) steps() int { return 4 }

func (t trees) sends(rank, step int, emit func(dst int, bytes int64)) {
	tree := step % 2
	parent, children := t.neighbours(tree, rank)
	if step < shareStep {
		if parent != noRank {
			emit(parent, t.bytes[tree])
		}
		return
	}
	for _, c := range children {
		if c != noRank {
			emit(c, t.bytes[tree])
		}
	}
}

func (t trees) messageCounts(rank int) (in, out int) {
	for tree := range 2 {
		parent, children := t.neighbours(tree, rank)
		for _, c := range children {
			if c != noRank {
				in, out = in+1, out+1
			}
		}
		if parent != noRank {
			in, out = in+1, out+1
		}
	}
	return in, out
}

// neighbours returns a rank's parent and children, noRank where there is none.
//
// Tree 0 hangs below position 0. Every other position p, whose lowest set bit is b, is the parent of p-b/2 and of
// the first existing one of p+b/2, p+b/4, ..., so that the odd positions are the leaves. Tree 1 is tree 0 in
// mirrored ranks, or, if with an odd number of ranks that would give the same leaves, shifted by one.
func (t trees) neighbours(tree, rank int) (parent int, children [2]int) {
	n := t.ranks
	at, rankOf := rank, func(p int) int { return p }
	if tree == 1 && n%2 == 0 {
		at, rankOf = n-1-rank, func(p int) int { return n - 1 - p }
	} else if tree == 1 {
		at, rankOf = (rank+n-1)%n, func(p int) int { return (p + 1) % n }
	}
	children = [2]int{noRank, noRank}
	if at == 0 {
		children[0] = rankOf(1 << (bits.Len(uint(n-1)) - 1))
		return noRank, children
	}
	low := at & -at
	if parent = at ^ low | low<<1; parent >= n {
		parent = at ^ low
	}
	if low > 1 {
		children[0] = rankOf(at - low/2)
		for b := low / 2; b > 0; b /= 2 {
			if at+b < n {
				children[1] = rankOf(at + b)
				break
			}
		}
	}
	return rankOf(parent), children
}

func (t trees) levels() int         { return t.steps() }
func (t trees) awaits(step int) int { return step }

func (t trees) previous(rank, level int) int {
	if parent, _ := t.neighbours(level%2, rank); level < shareStep || parent != noRank {
		return noLevel
	}
	return level - shareStep // the root shares what it has summed
}

func (t trees) begin(ranks int) progress {
	return &treeProgress{plan: t, ranks: make([][2]treePosition, ranks)}
}

type treeProgress struct {
	plan  trees
	ranks [][2]treePosition
}

type treePosition struct {
	started bool
	sums    int8 // received from children
}

func (p *treeProgress) start(rank int, post func(rank, step int)) {
	for tree := range 2 {
		if pos := &p.ranks[rank][tree]; !pos.started {
			pos.started = true
			p.sum(rank, tree, post)
		}
	}
}

func (p *treeProgress) received(rank, _, step int, post func(rank, step int)) {
	tree := step % 2
	if step >= shareStep {
		post(rank, shareStep+tree)
		return
	}
	p.ranks[rank][tree].sums++
	p.sum(rank, tree, post)
}

// sum sends a rank's complete sum on: up, or from the root down.
func (p *treeProgress) sum(rank, tree int, post func(rank, step int)) {
	pos := p.ranks[rank][tree]
	parent, children := p.plan.neighbours(tree, rank)
	for _, c := range children {
		if c != noRank {
			pos.sums--
		}
	}
	if !pos.started || pos.sums != 0 {
		return
	}
	if parent == noRank {
		post(rank, shareStep+tree)
		return
	}
	post(rank, sumStep+tree)
}
