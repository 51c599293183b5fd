package collective

// permutation makes every rank send to one and receive from one.
type permutation struct {
	to    []int
	bytes int64
}

func (p permutation) steps() int { return 1 }

func (p permutation) sends(rank, _ int, emit func(dst int, bytes int64)) {
	emit(p.to[rank], p.bytes)
}

func (p permutation) receivesIn(int, int) int { return 1 }

func (p permutation) messageCounts(int) (in, out int) { return 1, 1 }

// incast makes the senders after the target send to it.
type incast struct {
	ranks, target, senders int
	bytes                  int64
}

func (i incast) steps() int { return 1 }

func (i incast) isSender(rank int) bool {
	ahead := (rank - i.target + i.ranks) % i.ranks
	return ahead >= 1 && ahead <= i.senders
}

func (i incast) sends(rank, _ int, emit func(dst int, bytes int64)) {
	if i.isSender(rank) {
		emit(i.target, i.bytes)
	}
}

func (i incast) receivesIn(rank, _ int) int {
	in, _ := i.messageCounts(rank)
	return in
}

func (i incast) messageCounts(rank int) (in, out int) {
	if rank == i.target {
		in = i.senders
	}
	if i.isSender(rank) {
		out = 1
	}
	return in, out
}
