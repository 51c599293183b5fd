package heap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type number int

func (n number) Before(o number) bool { return n < o }

// TestOrder: elements leave in order, however they came: pushed, or made a heap of at once, with pops between.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Heap[number]
		for _, n := range rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "first") {
			h = append(h, number(n))
		}
		want := slices.Clone(h)
		h.Init()
		for _, n := range rapid.SliceOf(rapid.IntRange(-10, 20)).Draw(t, "then") {
			if n >= 0 {
				h.Push(number(n))
				want = append(want, number(n))
				continue
			}
			if len(h) > 0 {
				slices.Sort(want)
				if got := h.Pop(); got != want[0] {
					t.Fatalf("%d leaves before %d", got, want[0])
				}
				want = want[1:]
			}
		}
		slices.Sort(want)
		for _, n := range want {
			if got := h.Pop(); got != n {
				t.Fatalf("%d leaves before %d", got, n)
			}
		}
		if len(h) != 0 {
			t.Fatalf("%v is left", h)
		}
	})
}
