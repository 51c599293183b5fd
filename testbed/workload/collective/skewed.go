package collective

import (
	"math"
	"math/rand/v2"
)

// MaxSkew is the largest [Spec.Skew]: with 4 the most popular expert gets over nine tenths of all bytes.
const MaxSkew = 4

// MaxSpread is the largest [Spec.Spread]: with 3 one message in a thousand has most of all bytes.
const MaxSpread = 3

// MaxFactor returns the largest factor by which a spread multiplies a message: that of five standard deviations.
func MaxFactor(spread float64) float64 { return math.Exp(spread * (5 - spread/2)) }

// skewed is the dispatch of a mixture of experts with one expert per rank. Every rank sends to every other, and an
// expert's share falls with its popularity by Zipf's law, 1/k^skew for the k-th (k from 1). The seed draws which
// rank is the k-th. A rank's own share stays with it, as in an even all-to-all. With a spread every message is
// multiplied by a lognormal factor of mean 1, which the seed draws.
type skewed struct {
	direct
	to     []int64 // bytes, by receiver; at least 1, so that no message is empty
	spread float64
	seed   uint64
}

func (s Spec) skewed() skewed {
	weights := make([]float64, s.Ranks)
	sum := 0.0
	rank := rand.New(rand.NewPCG(s.Seed, 0x736b6577)).Perm(s.Ranks) // "skew"
	for k, r := range rank {
		weights[r] = math.Pow(float64(k+1), -s.Skew)
		sum += weights[r] // in order of k: the same bits for every seed
	}
	to := make([]int64, s.Ranks)
	for r, w := range weights {
		to[r] = max(1, int64(float64(s.Bytes)*w/sum))
	}
	return skewed{direct: direct{ranks: s.Ranks, phases: 1}, to: to, spread: s.Spread, seed: s.Seed}
}

func (s skewed) sends(rank, step int, emit func(dst int, bytes int64)) {
	rng := rand.New(rand.NewPCG(s.seed^0x737072656164, uint64(rank))) // "spread"
	s.direct.sends(rank, step, func(dst int, _ int64) {
		bytes := s.to[dst]
		if s.spread != 0 {
			factor := math.Exp(s.spread * (min(rng.NormFloat64(), 5) - s.spread/2))
			bytes = max(1, int64(float64(bytes)*factor))
		}
		emit(dst, bytes)
	})
}
