package hostagent

import (
	"testing"

	"pgregory.net/rapid"
)

// check adds up what each path carries, and that the cuts cover every flow
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
		g := gcd(r, s) // s when r is 0
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

// TestUnequalSizes checks our own extension: balance to one byte, few pieces.
func TestUnequalSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 1<<rapid.IntRange(1, 50).Draw(t, "size bits")), 2, 200).Draw(t, "sizes")
		sizes[0] = sizes[1] + 1
		s := rapid.IntRange(1, 128).Draw(t, "s")
		cuts := Split(nil, sizes, s)
		load := checkCuts(t, cuts, sizes, s)
		least, most := load[0], load[0]
		for _, l := range load {
			least, most = min(least, l), max(most, l)
		}
		if most-least > 1 {
			t.Fatalf("the fullest path has %d bytes, the emptiest %d", most, least)
		}
		if len(cuts) > len(sizes)+s-1 {
			t.Fatalf("%d pieces of %d flows over %d paths, want at most %d", len(cuts), len(sizes), s, len(sizes)+s-1)
		}
	})
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
