package sim

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Whatever is pushed comes out in order, however pushes and pops interleave.
func TestQueueOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var want []event
		now := fabric.Time(0)
		delay := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 5000),
			rapid.Int64Range(0, 8_000_000), rapid.Int64Range(0, 2_000_000_000))
		for i := range rapid.IntRange(1, 400).Draw(t, "steps") {
			if len(want) == 0 || rapid.IntRange(0, 2).Draw(t, "op") > 0 {
				e := eventOf(now+fabric.Time(delay.Draw(t, "delay")), eventKind(rapid.IntRange(0, 3).Draw(t, "kind")), uint32(i), 0)
				q.push(e)
				at, _ := slices.BinarySearchFunc(want, e, func(a, b event) int {
					if a.before(b) {
						return -1
					}
					return 1
				})
				want = slices.Insert(want, at, e)
			} else {
				at, ok := q.peek()
				got := q.pop()
				if !ok || at != got.at || got != want[0] {
					t.Fatalf("popped %v (peek %v %v), want %v", got, at, ok, want[0])
				}
				want = want[1:]
				now = got.at
			}
			if q.len() != len(want) {
				t.Fatalf("len %d, want %d", q.len(), len(want))
			}
		}
	})
}

func TestEventPacking(t *testing.T) {
	e := eventOf(7, eventPoll, 1<<entityBits-1, 1<<32-1)
	if e.kind() != eventPoll || e.entity() != 1<<entityBits-1 || e.arg() != 1<<32-1 || e.at != 7 {
		t.Errorf("got %v %d %d at %v", e.kind(), e.entity(), e.arg(), e.at)
	}
}

// radix is a monotone radix heap, here only to be measured against queue:
// bucket i holds events whose time differs from the last popped one in bit i-1
// at most.
type radix struct {
	last    fabric.Time
	now     quadHeap
	buckets [64][]event
	used    uint64
	n       int
}

func (r *radix) push(e event) {
	r.n++
	b := bits.Len64(uint64(e.at ^ r.last))
	if b == 0 {
		r.now.push(e)
		return
	}
	r.buckets[b] = append(r.buckets[b], e)
	r.used |= 1 << b
}

func (r *radix) pop() event {
	r.n--
	if len(r.now) == 0 {
		b := bits.TrailingZeros64(r.used)
		full := r.buckets[b]
		least := full[0].at
		for _, e := range full[1:] {
			least = min(least, e.at)
		}
		r.last = least
		r.buckets[b] = full[:0]
		r.used &^= 1 << b
		r.n -= len(full)
		for _, e := range full {
			r.push(e)
		}
	}
	return r.now.pop()
}

// BenchmarkQueue is the hold model: pop an event, push one of what a fabric's
// events are made of: 60 % arrivals (520-700 ns ahead), 39 % ports (1.2-180
// ns), 1 % timers (1 ms).
func BenchmarkQueue(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	delays := make([]fabric.Time, 1<<16)
	for i := range delays {
		switch k := rng.IntN(100); {
		case k < 60:
			delays[i] = 501200 + 20*fabric.Time(rng.Int64N(9000))
		case k < 99:
			delays[i] = 1200 + 20*fabric.Time(rng.Int64N(9000))
		default:
			delays[i] = fabric.Millisecond
		}
	}
	type pq interface {
		push(event)
		pop() event
	}
	for _, size := range []int{64, 1024, 16384, 262144} {
		for _, c := range []struct {
			name string
			q    pq
		}{{"wheel", &queue{}}, {"heap4", &quadHeap{}}, {"radix", &radix{}}} {
			b.Run(fmt.Sprintf("%s/%d", c.name, size), func(b *testing.B) {
				for i := range size {
					c.q.push(eventOf(delays[i%len(delays)], eventArrive, uint32(i), 0))
				}
				b.ResetTimer()
				for i := range b.N {
					e := c.q.pop()
					e.at += delays[i%len(delays)]
					c.q.push(e)
				}
			})
		}
	}
}
