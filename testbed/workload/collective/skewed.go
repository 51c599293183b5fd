package collective

import (
	"math"
	"math/rand/v2"
)

// MaxSkew is the largest exponent that [Spec.Skew] takes: with 4 the most popular
// expert gets over nine tenths of all bytes.
const MaxSkew = 4

// skewed is the dispatch of a mixture of experts with one expert a rank: every
// rank sends to every other, and what an expert gets falls with its popularity by
// Zipf's law, 1/k^skew for the k-th (k from 1). The seed draws which rank is the k-th.
// A rank's own share stays with it, as in an even all-to-all.
type skewed struct {
	direct
	to []int64 // bytes, by receiver; at least 1, so that no message is empty
}

func (s Spec) skewed() skewed {
	weights := make([]float64, s.Ranks)
	sum := 0.0
	rank := rand.New(rand.NewPCG(s.Seed, 0x736b6577)).Perm(s.Ranks) // "skew"
	for k, r := range rank {
		weights[r] = math.Pow(float64(k+1), -s.Skew)
		sum += weights[r] // in order of k: the same to the bit for every seed
	}
	to := make([]int64, s.Ranks)
	for r, w := range weights {
		to[r] = max(1, int64(float64(s.Bytes)*w/sum))
	}
	return skewed{direct: direct{ranks: s.Ranks, phases: 1}, to: to}
}

func (s skewed) sends(rank, step int, emit func(dst int, bytes int64)) {
	s.direct.sends(rank, step, func(dst int, _ int64) { emit(dst, s.to[dst]) })
}
