package hostagent

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/internal/ratio"
)

// checkCuts adds up what each path carries, and that the cuts cover every flow
// exactly once, in order.
func checkCuts(t interface{ Fatalf(string, ...any) }, cuts []Cut, sizes []int64, paths int) (load []int64) {
	load = make([]int64, paths)
	done := make([]int64, len(sizes))
	for _, c := range cuts {
		if c.Bytes < 1 || c.Offset != done[c.Flow] {
			t.Fatalf("cut %+v: want at least 1 byte at offset %d", c, done[c.Flow])
		}
		done[c.Flow] += c.Bytes
		load[c.Path] += c.Bytes
	}
	for i := range sizes {
		if done[i] != sizes[i] {
			t.Fatalf("flow %d: %d bytes cut, it has %d", i, done[i], sizes[i])
		}
	}
	return load
}

func equal(n int, f int64) []int64 {
	sizes := make([]int64, n)
	for i := range sizes {
		sizes[i] = f
	}
	return sizes
}

// TestTheorem1 checks loads and piece counts for any n, s and f against the
// closed form of Split's documentation, which is derived, not computed by the
// code under test.
func TestTheorem1(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 600).Draw(t, "n")
		s := rapid.IntRange(1, 128).Draw(t, "s")
		f := rapid.Int64Range(1, 1<<rapid.IntRange(1, 40).Draw(t, "size bits")).Draw(t, "f")
		cuts := Split(nil, equal(n, f), s)
		load := checkCuts(t, cuts, equal(n, f), s)

		r := n % s
		g := ratio.GCD(r, s) // s when r is 0
		m := int64(s / g)
		e := f % m
		base := int64((n-r)/s)*f + int64(r/g)*(f/m)
		full := 0
		for p, got := range load {
			switch got {
			case base:
			case base + int64(r/g)*e:
				full++
			default:
				t.Fatalf("path %d carries %d bytes, want %d or %d", p, got, base, base+int64(r/g)*e)
			}
		}
		if r != 0 && e != 0 && full != g {
			t.Fatalf("%d paths carry the last pieces, want %d", full, g)
		}
		// The distance from the ideal n*f/s, multiplied by s to stay whole.
		ideal := int64(n) * f
		for p, got := range load {
			d := got*int64(s) - ideal
			if d < -int64(r)*e || d > int64(r)*e*(m-1) {
				t.Fatalf("path %d is %d/%d bytes from n*f/s, outside [%d, %d]/%d", p, d, s, -int64(r)*e, int64(r)*e*(m-1), s)
			}
		}
		want := n - r
		if f >= m {
			want += r * int(m)
		} else {
			want += r
		}
		if len(cuts) != want {
			t.Fatalf("n=%d s=%d f=%d: %d pieces, want %d", n, s, f, len(cuts), want)
		}
		if f >= m && Pieces(n, s) != want {
			t.Fatalf("Pieces(%d, %d) = %d, want %d", n, s, Pieces(n, s), want)
		}
	})
}

// TestPiecesTable is the paper's table for 16 paths.
func TestPiecesTable(t *testing.T) {
	for n, want := range map[int]int{1: 16, 8: 16, 12: 48, 15: 240, 16: 16, 24: 32} {
		if got := len(Split(nil, equal(n, 1e6), 16)); got != want {
			t.Errorf("%d flows over 16 paths: %d pieces, want %d", n, got, want)
		}
		if got := Pieces(n, 16); got != want {
			t.Errorf("Pieces(%d, 16) = %d, want %d", n, got, want)
		}
	}
}

// TestFewestPieces searches all ways to cut r flows into equal pieces: no
// smaller number of pieces a flow balances the paths.
func TestFewestPieces(t *testing.T) {
	for s := 1; s <= 32; s++ {
		for r := 1; r < s; r++ {
			k := 1
			for r*k%s != 0 {
				k++
			}
			if got := Pieces(r, s); got != r*k {
				t.Errorf("Pieces(%d, %d) = %d, want %d: %d pieces a flow suffice", r, s, got, r*k, k)
			}
		}
	}
}

// TestUnequalSizes checks our own extension: balance to one byte, or to the slack, and few pieces.
func TestUnequalSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := int64(1) << rapid.IntRange(1, 50).Draw(t, "size bits")
		sizes := rapid.SliceOfN(rapid.Int64Range(1, most), 1, 200).Draw(t, "sizes")
		s := rapid.IntRange(1, 128).Draw(t, "s")
		slack := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 2*most)).Draw(t, "slack")
		cuts := SplitFewest(nil, sizes, s, slack)
		total := int64(0)
		for _, size := range sizes {
			total += size
		}
		spared := int64(0)
		for p, load := range checkCuts(t, cuts, sizes, s) {
			if load > (total+int64(s)-1)/int64(s)+slack {
				t.Fatalf("path %d of %d has %d of %d bytes, with a slack of %d", p, s, load, total, slack)
			}
			spared += max(0, total/int64(s)-load)
		}
		if spared > 0 && (slack == 0 || spared > int64(s)*(slack+1)) {
			t.Fatalf("paths have %d bytes less than their shares, with a slack of %d", spared, slack)
		}
		if len(cuts) > len(sizes)+s-1 {
			t.Fatalf("%d pieces of %d flows over %d paths, want at most %d", len(cuts), len(sizes), s, len(sizes)+s-1)
		}
	})
}

// TestFewestOfEqual: of equal sizes the fewest pieces are n+s-gcd(n, s), and a slack of
// as many bytes as there are paths makes up for whole bytes.
func TestFewestOfEqual(t *testing.T) {
	for s := 1; s <= 24; s++ {
		for n := 1; n <= 50; n++ {
			want := n + s - ratio.GCD(n, s)
			if got := len(SplitFewest(nil, equal(n, 1000*int64(s)), s, 0)); got != want {
				t.Errorf("%d flows over %d paths: %d pieces, want %d", n, s, got, want)
			}
			if got := len(SplitFewest(nil, equal(n, 1000*int64(s)+1), s, int64(s))); got > want {
				t.Errorf("%d flows over %d paths, a byte more: %d pieces, want %d at most", n, s, got, want)
			}
		}
	}
}

// TestFewestAgainstOptimum compares with the least number of pieces, by a search of all
// ways to deal flows into parts of whole shares.
func TestFewestAgainstOptimum(t *testing.T) {
	type kind struct {
		largest int64 // sizes are 1 to largest
		paths   int
	}
	const runs = 200
	for _, k := range []kind{{2, 4}, {4, 2}, {4, 4}, {4, 8}, {8, 4}, {8, 8}, {32, 4}, {32, 8}, {1000, 4}, {1000, 8}} {
		rng := rand.New(rand.NewPCG(uint64(k.largest), uint64(k.paths)))
		splits, more, off := 0, 0, 0
		for range runs {
			sizes := make([]int64, 2+rng.IntN(9))
			for i := range sizes {
				sizes[i] = (1 + rng.Int64N(k.largest)) * int64(k.paths)
			}
			got, least := len(SplitFewest(nil, sizes, k.paths, 0)), fewestPieces(sizes, k.paths)
			if got < least {
				t.Fatalf("%d over %d paths: %d pieces, and the search finds %d", sizes, k.paths, got, least)
			}
			splits += least - len(sizes)
			if more += got - least; got > least {
				off++
			}
		}
		t.Logf("sizes 1 to %d, %d paths: optimum %.2f splits, %.2f more, in %d of %d",
			k.largest, k.paths, float64(splits)/runs, float64(more)/runs, off, runs)
		if more > runs/4 {
			t.Errorf("sizes 1 to %d, %d paths: %d pieces more than the least, in %d runs", k.largest, k.paths, more, runs)
		}
	}
}

// fewestPieces returns n+s-K, where K is of how many parts with whole shares the flows
// can be: as many as there are whole shares on the best of all ways to add up the sizes.
func fewestPieces(sizes []int64, paths int) int {
	n, total := len(sizes), int64(0)
	for _, size := range sizes {
		total += size
	}
	share := total / int64(paths)
	sum, whole := make([]int64, 1<<n), make([]int, 1<<n) // by the flows added up
	for set := 1; set < 1<<n; set++ {
		for i, size := range sizes {
			if before := set &^ (1 << i); before != set {
				sum[set] = sum[before] + size
				whole[set] = max(whole[set], whole[before])
			}
		}
		if sum[set]%share == 0 {
			whole[set]++
		}
	}
	return n + paths - whole[1<<n-1]
}

func TestSplitTinyFlow(t *testing.T) {
	if got := Split(nil, []int64{3}, 16); len(got) != 1 || got[0].Bytes != 3 {
		t.Errorf("3 bytes over 16 paths: %+v, want one piece of 3", got)
	}
	if got := Split(nil, nil, 16); len(got) != 0 {
		t.Errorf("no flows: %+v", got)
	}
}

// TestParts checks that the parts of a cut follow each other on its path, and are equal
// but for a byte.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Cut{
			Flow: 3, Path: 5,
			Offset: rapid.Int64Range(0, 1<<40).Draw(t, "offset"), Bytes: rapid.Int64Range(1, 1<<50).Draw(t, "bytes"),
		}
		n := rapid.IntRange(1, 300).Draw(t, "parts")
		next, count := c.Offset, 0
		c.each(n, func(p Cut) {
			if p.Flow != c.Flow || p.Path != c.Path || p.Offset != next || p.Bytes < max(1, c.Bytes/int64(n)) || p.Bytes > c.Bytes/int64(n)+1 {
				t.Fatalf("part %+v of %+v in %d; want it at %d", p, c, n, next)
			}
			next += p.Bytes
			count++
		})
		if next != c.Offset+c.Bytes || count > n {
			t.Fatalf("%d parts to %d of %+v in %d", count, next, c, n)
		}
	})
}

// TestWeighted: every path carries its weight's share, within a byte, in at most n+s-1 pieces.
func TestWeighted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 1<<40), 1, 100).Draw(t, "sizes")
		weights := rapid.SliceOfN(rapid.Uint32Range(1, fullRate), 1, 64).Draw(t, "weights")
		cuts := SplitWeighted(nil, sizes, weights)
		slices.SortStableFunc(cuts, func(a, b Cut) int { return cmp.Compare(a.Offset, b.Offset) })
		var total, sum float64
		for _, size := range sizes {
			total += float64(size)
		}
		for _, w := range weights {
			sum += float64(w)
		}
		for p, got := range checkCuts(t, cuts, sizes, len(weights)) {
			if want := total * float64(weights[p]) / sum; math.Abs(float64(got)-want) > 1 {
				t.Fatalf("path %d of weight %d carries %d bytes; want %.1f", p, weights[p], got, want)
			}
		}
		if most := len(sizes) + len(weights) - 1; len(cuts) > most {
			t.Fatalf("%d pieces; want %d at most", len(cuts), most)
		}
	})
}
