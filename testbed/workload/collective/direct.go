package collective

// direct sends a share to every other rank, once per phase.
type direct struct {
	ranks, phases int
	bytes         int64 // a share
}

func (d direct) steps() int { return d.phases }

func (d direct) sends(rank, _ int, emit func(dst int, bytes int64)) {
	for dst := rank + 1; dst < d.ranks; dst++ {
		emit(dst, d.bytes)
	}
	for dst := range rank {
		emit(dst, d.bytes)
	}
}

func (d direct) receivesIn(int, int) int { return d.ranks - 1 }

func (d direct) messageCounts(int) (in, out int) {
	n := d.phases * (d.ranks - 1)
	return n, n
}
