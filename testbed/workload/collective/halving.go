package collective

// halving exchanges halves, quarters, ... with ranks at distance 1, 2, 4, ...
// (scatter), then the same in the opposite order (gather).
type halving struct {
	log             int // log2 of the ranks
	bytes           int64
	scatter, gather bool
}

func (h halving) steps() int {
	if h.scatter && h.gather {
		return 2 * h.log
	}
	return h.log
}

func (h halving) sends(rank, step int, emit func(dst int, bytes int64)) {
	if !h.scatter {
		step += h.log
	}
	k := step
	if step >= h.log {
		k = 2*h.log - 1 - step
	}
	emit(rank^1<<k, h.bytes>>(k+1))
}

func (h halving) needs(int, int) int { return 1 }

func (h halving) total(int) (in, out int) { return h.steps(), h.steps() }
