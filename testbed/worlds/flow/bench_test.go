package flow

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkSolve is one computation of the rates of 16,384 flows over 2,048 link
// directions.
func BenchmarkSolve(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	s := solver{capacity: make([]float64, 2048)}
	for i := range s.capacity {
		s.capacity[i] = 0.05
	}
	flows := make([]flow, 16384)
	active := make([]int32, len(flows))
	for i := range flows {
		active[i] = int32(i)
		flows[i].hops = maxHops
		for k := range maxHops {
			flows[i].links[k] = int32(k*341 + r.IntN(341))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		s.solve(flows, active)
	}
}
