package collective

// ring passes shares to the next rank, N-1 times per round.
type ring struct {
	ranks, rounds int
	bytes         int64 // a share
}

func (r ring) steps() int { return r.rounds * (r.ranks - 1) }

func (r ring) sends(rank, _ int, emit func(dst int, bytes int64)) {
	emit((rank+1)%r.ranks, r.bytes)
}

func (r ring) receivesIn(int, int) int { return 1 }

func (r ring) messageCounts(int) (in, out int) { return r.steps(), r.steps() }
