package flow

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Rates are max-min fair if no link carries more than it can, and every flow has
// a link that is full and on which no flow is faster.
func TestMaxMin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		links := rapid.IntRange(1, 12).Draw(t, "links")
		s := solver{}
		for range links {
			s.capacity = append(s.capacity, float64(rapid.IntRange(1, 50).Draw(t, "capacity")))
		}
		n := rapid.IntRange(1, 30).Draw(t, "flows")
		flows := make([]flow, n)
		for round := range 2 { // memory is reused
			var active []int32
			for i := range flows {
				f := &flows[i]
				f.hops, f.rate = 0, -1
				for _, l := range rapid.SliceOfNDistinct(rapid.Int32Range(0, int32(links-1)), 1, min(links, maxHops), rapid.ID).Draw(t, "path") {
					f.links[f.hops] = l
					f.hops++
				}
				if round == 0 || rapid.Bool().Draw(t, "active") {
					active = append(active, int32(i))
				}
			}
			s.solve(flows, active)
			checkFair(t, &s, flows, active)
		}
	})
}

func checkFair(t *rapid.T, s *solver, flows []flow, active []int32) {
	const slack = 1e-9
	load, fastest := make([]float64, len(s.capacity)), make([]float64, len(s.capacity))
	for _, id := range active {
		f := &flows[id]
		for _, l := range f.links[:f.hops] {
			load[l] += f.rate
			fastest[l] = math.Max(fastest[l], f.rate)
		}
	}
	for l, x := range load {
		if x > s.capacity[l]*(1+slack) {
			t.Fatalf("link %d carries %v of %v", l, x, s.capacity[l])
		}
	}
	for _, id := range active {
		f := &flows[id]
		held := false
		for _, l := range f.links[:f.hops] {
			held = held || load[l] > s.capacity[l]*(1-slack) && f.rate >= fastest[l]*(1-slack)
		}
		if !held {
			t.Fatalf("flow %d has %v and could have more", id, f.rate)
		}
	}
}
