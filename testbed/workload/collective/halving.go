package collective

// halving exchanges halves, quarters, ... with ranks at distance 1, 2, 4, ...
// (scatter), then the same in the opposite order (gather).
type halving struct {
	rounds          int // log2 of the ranks
	bytes           int64
	scatter, gather bool
}

func (h halving) steps() int {
	if h.scatter && h.gather {
		return 2 * h.rounds
	}
	return h.rounds
}

func (h halving) sends(rank, step int, emit func(dst int, bytes int64)) {
	if !h.scatter {
		step += h.rounds
	}
	k := step
	if step >= h.rounds {
		k = 2*h.rounds - 1 - step
	}
	emit(rank^1<<k, h.bytes>>(k+1))
}

func (h halving) receivesIn(int, int) int { return 1 }

func (h halving) messageCounts(int) (in, out int) { return h.steps(), h.steps() }
