package cases

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
)

// dice is the generator of one part of a case. It uses only the bits of PCG, whose algorithm is fixed.
type dice struct{ pcg *rand.PCG }

func newDice(seed uint64, index int, part string) *dice {
	sum := sha256.Sum256(fmt.Appendf(nil, "ethereal cases %d %d %d %s", Version, seed, index, part))
	return &dice{rand.NewPCG(binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16]))}
}

// below returns a number from 0 to n-1. Its bias is below n/2^64.
func (d *dice) below(n int) int {
	hi, _ := bits.Mul64(d.pcg.Uint64(), uint64(n))
	return int(hi)
}

// between returns a number from lo to hi.
func (d *dice) between(lo, hi int) int { return lo + d.below(hi-lo+1) }

// percent returns true in p of 100 draws.
func (d *dice) percent(p int) bool { return d.below(100) < p }

// logUniform returns a number from lo to lo*2^n: an octave first, then a place in it, so that small numbers are as
// likely as large ones.
func (d *dice) logUniform(lo int64, n int) int64 {
	octave := d.below(n)
	return (lo << octave) * int64(1000+d.below(1000)) / 1000
}

func pick[T any](d *dice, from ...T) T { return from[d.below(len(from))] }

// weightedValue is a value and its weight.
type weightedValue[T any] struct {
	weight int
	value  T
}

// weighted picks a value by its weight.
func weighted[T any](d *dice, from ...weightedValue[T]) T {
	sum := 0
	for _, s := range from {
		sum += s.weight
	}
	at := d.below(sum)
	for _, s := range from {
		if at -= s.weight; at < 0 {
			return s.value
		}
	}
	panic("cases: no weights") // a programming error: all lists are literals
}

// choose returns k different numbers from 0 to n-1, in increasing order of their draws.
func (d *dice) choose(k, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	for i := range k {
		j := d.between(i, n-1)
		all[i], all[j] = all[j], all[i]
	}
	return all[:k]
}
