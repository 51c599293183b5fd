package collective

import "math/bits"

// doubling is recursive doubling of whole vectors: in step k every rank exchanges its whole sum with the rank at
// distance 2^k. If the number of ranks n is no power of two, the n-2^k surplus ranks are folded, as in MPICH
// (Thakur, Rabenseifner and Gropp, IJHPCA 2005): among the first 2(n-2^k) ranks, an even rank first sends its
// vector to the next odd rank, and gets the sum back last.
type doubling struct {
	rounds int // log2 of the largest power of two up to the number of ranks
	folded int // ranks that take no part between the first step and the last
	bytes  int64
}

func newDoubling(ranks int, bytes int64) doubling {
	log := bits.Len(uint(ranks)) - 1
	return doubling{rounds: log, folded: ranks - 1<<log, bytes: bytes}
}

func (d doubling) steps() int {
	if d.folded > 0 {
		return d.rounds + 2
	}
	return d.rounds
}

// exchange returns the distance of a step's partners among the ranks that take part, as a power of two; ok is false
// in the first and the last step of folded ranks.
func (d doubling) exchange(step int) (k int, ok bool) {
	if d.folded > 0 {
		step--
	}
	return step, step >= 0 && step < d.rounds
}

// isFolded reports whether a rank's part is taken by the next rank.
func (d doubling) isFolded(rank int) bool { return rank < 2*d.folded && rank%2 == 0 }

// isProxy reports whether a rank takes the part of the previous rank.
func (d doubling) isProxy(rank int) bool { return rank < 2*d.folded && rank%2 == 1 }

// partner returns the rank with which a rank exchanges vectors.
func (d doubling) partner(rank, k int) int {
	place := rank - d.folded
	if rank < 2*d.folded {
		place = rank / 2
	}
	if place ^= 1 << k; place < d.folded {
		return 2*place + 1
	}
	return place + d.folded
}

func (d doubling) sends(rank, step int, emit func(dst int, bytes int64)) {
	k, ok := d.exchange(step)
	switch {
	case ok && !d.isFolded(rank):
		emit(d.partner(rank, k), d.bytes)
	case ok:
	case step == 0 && d.isFolded(rank):
		emit(rank+1, d.bytes)
	case step > 0 && d.isProxy(rank):
		emit(rank-1, d.bytes)
	}
}

func (d doubling) receivesIn(rank, step int) int {
	_, ok := d.exchange(step)
	if ok && !d.isFolded(rank) || !ok && step == 0 && d.isProxy(rank) || !ok && step > 0 && d.isFolded(rank) {
		return 1
	}
	return 0
}

func (d doubling) messageCounts(rank int) (in, out int) {
	switch {
	case d.isFolded(rank):
		return 1, 1
	case d.isProxy(rank):
		return d.rounds + 1, d.rounds + 1
	}
	return d.rounds, d.rounds
}
