package collective

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTraffic(t *testing.T) {
	type message struct {
		Src, Dst int
		Bytes    int64
	}
	for _, c := range []struct {
		name string
		spec Spec
		want [][]message
	}{
		{"all-to-all", Spec{Kind: AllToAll, Ranks: 3, Bytes: 32}, [][]message{
			{{0, 1, 10}, {0, 2, 10}, {1, 2, 10}, {1, 0, 10}, {2, 0, 10}, {2, 1, 10}},
		}},
		// Popularity by seed 0: rank 2, then 0, then 1, which get 6, 3 and 2 elevenths.
		{"experts", Spec{Kind: AllToAll, Ranks: 3, Bytes: 110, Skew: 1}, [][]message{
			{{0, 1, 20}, {0, 2, 60}, {1, 2, 60}, {1, 0, 30}, {2, 0, 30}, {2, 1, 20}},
		}},
		{"halving-doubling", Spec{Kind: AllReduce, Algorithm: HalvingDoubling, Ranks: 4, Bytes: 101}, [][]message{
			{{0, 1, 50}, {1, 0, 50}, {2, 3, 50}, {3, 2, 50}},
			{{0, 2, 25}, {1, 3, 25}, {2, 0, 25}, {3, 1, 25}},
			{{0, 2, 25}, {1, 3, 25}, {2, 0, 25}, {3, 1, 25}},
			{{0, 1, 50}, {1, 0, 50}, {2, 3, 50}, {3, 2, 50}},
		}},
		{"whole vectors", Spec{Kind: AllReduce, Algorithm: WholeVectorDoubling, Ranks: 4, Bytes: 7}, [][]message{
			{{0, 1, 7}, {1, 0, 7}, {2, 3, 7}, {3, 2, 7}},
			{{0, 2, 7}, {1, 3, 7}, {2, 0, 7}, {3, 1, 7}},
		}},
		{"whole vectors of 6", Spec{Kind: AllReduce, Algorithm: WholeVectorDoubling, Ranks: 6, Bytes: 7}, [][]message{
			{{0, 1, 7}, {2, 3, 7}},
			{{1, 3, 7}, {3, 1, 7}, {4, 5, 7}, {5, 4, 7}},
			{{1, 4, 7}, {3, 5, 7}, {4, 1, 7}, {5, 3, 7}},
			{{1, 0, 7}, {3, 2, 7}},
		}},
		{"gather by doubling", Spec{Kind: AllGather, Algorithm: HalvingDoubling, Ranks: 4, Bytes: 100}, [][]message{
			{{0, 2, 25}, {1, 3, 25}, {2, 0, 25}, {3, 1, 25}},
			{{0, 1, 50}, {1, 0, 50}, {2, 3, 50}, {3, 2, 50}},
		}},
		{"ring", Spec{Kind: ReduceScatter, Algorithm: Ring, Ranks: 3, Bytes: 9}, [][]message{
			{{0, 1, 3}, {1, 2, 3}, {2, 0, 3}},
			{{0, 1, 3}, {1, 2, 3}, {2, 0, 3}},
		}},
		{"double binary tree", Spec{Kind: AllReduce, Algorithm: DoubleBinaryTree, Ranks: 4, Bytes: 9}, [][]message{
			{{1, 2, 5}, {2, 0, 5}, {3, 2, 5}},
			{{0, 1, 4}, {1, 3, 4}, {2, 1, 4}},
			{{0, 2, 5}, {2, 1, 5}, {2, 3, 5}},
			{{1, 2, 4}, {1, 0, 4}, {3, 1, 4}},
		}},
		{"shift", Spec{Kind: Permutation, Ranks: 3, Bytes: 7, Shift: 2}, [][]message{{{0, 2, 7}, {1, 0, 7}, {2, 1, 7}}}},
		{"incast", Spec{Kind: Incast, Ranks: 4, Bytes: 7, Target: 2}, [][]message{{{0, 2, 7}, {1, 2, 7}, {3, 2, 7}}}},
		{"some senders", Spec{Kind: Incast, Ranks: 4, Bytes: 7, Target: 2, Senders: 2}, [][]message{{{0, 2, 7}, {3, 2, 7}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, err := New(c.spec)
			if err != nil {
				t.Fatal(err)
			}
			var got [][]message
			for p := range j.Phases() {
				var phase []message
				for s := range j.Traffic(p) {
					phase = append(phase, message{s.Src, s.Dst, s.Bytes})
				}
				got = append(got, phase)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("traffic (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBusBytes: of 8 ranks and 8 MB, the factors are those of nccl-tests (PERFORMANCE.md).
func TestBusBytes(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want float64
	}{
		{Spec{Kind: AllReduce}, 14e6}, {Spec{Kind: AllReduce, Algorithm: Ring}, 14e6}, {Spec{Kind: AllGather}, 7e6},
		{Spec{Kind: ReduceScatter}, 7e6}, {Spec{Kind: AllToAll}, 7e6}, {Spec{Kind: AllToAll, Skew: 1}, 0}, {Spec{Kind: Permutation}, 8e6},
		{Spec{Kind: Incast}, 56e6}, {Spec{Kind: Incast, Senders: 3}, 0}, {Spec{Kind: AllReduce, Group: 4}, 12e6}, {Spec{}, 0},
	} {
		c.spec.Ranks, c.spec.Bytes = 8, 8e6
		if got := c.spec.BusBytes(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.spec, got, c.want)
		}
	}
}

// TestLargePermutation: also with thousands of ranks it is no cyclic shift.
func TestLargePermutation(t *testing.T) {
	shifts := map[int]int{}
	const n = 4096
	for i, to := range (Spec{Kind: Permutation, Ranks: n, Bytes: 1, Seed: 1}).permutation() {
		shifts[(to-i+n)%n]++
	}
	if len(shifts) < n/2 || shifts[0] > 0 { // 63 % of the shifts are expected
		t.Errorf("%d shifts, %d ranks send to themselves", len(shifts), shifts[0])
	}
}

// Reference sizes: what each rank puts on the wire for one operation.
func TestTotalBytes(t *testing.T) {
	const n, s = 16, 1 << 20
	for _, c := range []struct {
		kind, algorithm string
		want            int64
	}{
		{AllToAll, Direct, n * (n - 1) * s / n},
		{AllReduce, Direct, n * 2 * (n - 1) * s / n},
		{AllReduce, HalvingDoubling, n * 2 * (n - 1) * s / n},
		{AllReduce, WholeVectorDoubling, n * 4 * s},
		{AllReduce, Ring, n * 2 * (n - 1) * s / n},
		{AllReduce, DoubleBinaryTree, 2 * (n - 1) * s},
		{AllGather, Direct, n * (n - 1) * s / n},
		{AllGather, HalvingDoubling, n * (n - 1) * s / n},
		{ReduceScatter, Ring, n * (n - 1) * s / n},
		{Permutation, "", n * s},
		{Incast, "", (n - 1) * s},
	} {
		j, err := New(Spec{Kind: c.kind, Algorithm: c.algorithm, Ranks: n, Bytes: s})
		if err != nil {
			t.Fatal(err)
		}
		if got := j.TotalBytes(); got != c.want {
			t.Errorf("%s %s: %d bytes, want %d", c.kind, c.algorithm, got, c.want)
		}
	}
}

// Every rank is a leaf in at least one of the two trees: so each tree's inner
// ranks relay while they are leaves of the other.
func TestTreesAreComplementary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 300).Draw(t, "ranks")
		plan := trees{ranks: n}
		for tree := range 2 {
			roots := 0
			for r := range n {
				parent, children := plan.neighbours(tree, r)
				if parent == noRank {
					roots++
				}
				for _, c := range children {
					if c == noRank {
						continue
					}
					if p, _ := plan.neighbours(tree, c); p != r {
						t.Fatalf("tree %d: %d has child %d, whose parent is %d", tree, r, c, p)
					}
				}
				depth := 0
				for at := r; depth <= n; depth++ {
					p, _ := plan.neighbours(tree, at)
					if p == noRank {
						break
					}
					at = p
				}
				if limit := 2; depth > limit && 1<<(depth-limit) > n {
					t.Fatalf("tree %d: rank %d of %d is at depth %d", tree, r, n, depth)
				}
			}
			if roots != 1 {
				t.Fatalf("tree %d has %d roots", tree, roots)
			}
		}
		inner := 0
		for r := range n {
			_, a := plan.neighbours(0, r)
			_, b := plan.neighbours(1, r)
			if a != [2]int{noRank, noRank} && b != [2]int{noRank, noRank} {
				inner++
			}
		}
		if inner > 1 {
			t.Fatalf("%d of %d ranks are inner in both trees", inner, n)
		}
	})
}

func TestRandomPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Spec{Kind: Permutation, Ranks: rapid.IntRange(2, 64).Draw(t, "ranks"), Bytes: 1, Seed: rapid.Uint64().Draw(t, "seed")}
		hit := make(map[int]bool)
		for i, to := range s.permutation() {
			if to == i || hit[to] {
				t.Fatalf("%d sends to %d", i, to)
			}
			hit[to] = true
		}
	})
}

func TestBadSpecs(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Kind: "broadcast", Ranks: 2, Bytes: 8}, `kind "broadcast" is unknown; use one of all-to-all, `},
		{Spec{Kind: AllGather, Algorithm: DoubleBinaryTree, Ranks: 2, Bytes: 8}, "all-gather has no algorithm"},
		{Spec{Kind: AllReduce, Ranks: 1, Bytes: 8}, "ranks is 1"},
		{Spec{Kind: AllReduce, Algorithm: HalvingDoubling, Ranks: 6, Bytes: 8}, "takes a power of two"},
		{Spec{Kind: AllReduce, Algorithm: "recursive-doubling", Ranks: 4, Bytes: 8}, "write halving-doubling, which it was, or whole-vector-doubling"},
		{Spec{Kind: AllGather, Algorithm: WholeVectorDoubling, Ranks: 4, Bytes: 8}, "all-gather has no algorithm"},
		{Spec{Kind: AllReduce, Algorithm: WholeVectorDoubling, Ranks: 6, Bytes: 1}, ""},
		{Spec{Kind: AllToAll, Ranks: 9, Bytes: 8}, "bytes is 8; at least 9"},
		{Spec{Kind: Permutation, Ranks: 9, Bytes: 8, Shift: 9}, "shift is 9"},
		{Spec{Kind: Incast, Ranks: 9, Bytes: 8, Target: 9}, "target is 9"},
		{Spec{Kind: Incast, Ranks: 9, Bytes: 8, Senders: 9}, "senders is 9"},
		{Spec{Kind: AllToAll, Ranks: 9, Bytes: 9, Skew: 4.5}, "skew is 4.5; use 0 (even) to 4"},
		{Spec{Kind: AllToAll, Ranks: 9, Bytes: 9, Skew: -1}, "skew is -1"},
		{Spec{Kind: AllToAll, Ranks: 9, Bytes: 9, Spread: 3.5}, "spread is 3.5; use 0 (alike) to 3"},
		{Spec{Kind: AllToAll, Ranks: 9, Bytes: 9, Group: 1}, "group is 1 with stride 0"},
		{Spec{Kind: AllToAll, Ranks: 9, Bytes: 9, Stride: 3}, "group is 0 with stride 3"},
		{Spec{Kind: AllToAll, Ranks: 12, Bytes: 9, Group: 4, Stride: 2}, "of 12 ranks a whole number of such groups"},
		{Spec{Kind: AllReduce, Algorithm: HalvingDoubling, Ranks: 12, Bytes: 9, Group: 3}, "takes a power of two"},
		{Spec{Kind: AllReduce, Algorithm: Ring, Ranks: MaxRanks, Bytes: 1 << 40}, ""},
	} {
		err := c.spec.Validate()
		if c.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.spec, err)
			}
			continue
		}
		if !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.spec, err, c.want)
		}
	}
}

func TestRefusesWhatIsNotExpected(t *testing.T) {
	j, err := New(Spec{Kind: Permutation, Ranks: 2, Bytes: 1, Shift: 1, Job: 3})
	if err != nil {
		t.Fatal(err)
	}
	var ids []ID
	emit := func(s Send) { ids = append(ids, s.ID) }
	j.Start(emit)
	j.Start(emit) // idempotent
	if len(ids) != 2 {
		t.Fatalf("posted %v", ids)
	}
	if err := j.Received(newID(2, 0, 0, 1), emit); err == nil {
		t.Error("took another job's message")
	}
	if err := j.Received(newID(3, 1, 0, 1), emit); err == nil {
		t.Error("took a message of a step that does not exist")
	}
	for i := range 2 {
		if err := j.Received(ids[0], emit); (err == nil) != (i == 0) {
			t.Errorf("time %d: %v", i, err)
		}
		if err := j.Sent(ids[0]); (err == nil) != (i == 0) {
			t.Errorf("time %d: %v", i, err)
		}
	}
	if j.Done(0) || j.Done(1) {
		t.Error("done too early")
	}
}

func BenchmarkAllReduceDirect(b *testing.B) {
	const n = 64
	var queue []ID
	emit := func(s Send) { queue = append(queue, s.ID) }
	messages := 0
	b.ReportAllocs()
	for b.Loop() {
		j, err := New(Spec{Kind: AllReduce, Ranks: n, Bytes: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		queue = queue[:0]
		j.Start(emit)
		for i := 0; i < len(queue); i++ {
			if err := j.Received(queue[i], emit); err != nil {
				b.Fatal(err)
			}
			if err := j.Sent(queue[i]); err != nil {
				b.Fatal(err)
			}
		}
		messages += len(queue)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(messages), "ns/message")
}

// TestSpread: messages keep their mean, differ as much as they are asked to, and are those of the seed.
func TestSpread(t *testing.T) {
	const ranks, spread = 128, 1.0
	sizes := func(seed uint64) (logs []float64, mean float64) {
		j, err := New(Spec{Kind: AllToAll, Ranks: ranks, Bytes: ranks * 1e6, Spread: spread, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		for s := range j.Traffic(0) {
			logs = append(logs, math.Log(float64(s.Bytes)))
			mean += float64(s.Bytes) / (ranks * (ranks - 1))
		}
		return logs, mean
	}
	logs, mean := sizes(1)
	var sum, squares float64
	for _, l := range logs {
		sum += l
		squares += l * l
	}
	n := float64(len(logs))
	if deviation := math.Sqrt(squares/n - sum*sum/n/n); math.Abs(deviation-spread) > 0.05 || math.Abs(mean-1e6) > 0.05e6 {
		t.Errorf("a deviation of %.3f and a mean of %.0f B, want 1 and 1 MB", deviation, mean)
	}
	if again, _ := sizes(1); !slices.Equal(logs, again) {
		t.Error("the same seed draws other sizes")
	}
	if other, _ := sizes(2); slices.Equal(logs, other) {
		t.Error("another seed draws the same sizes")
	}
}
