package nonminimal

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// draw makes a problem of paths with unequal lengths and channels with unequal rates.
func draw(t *rapid.T) *Problem {
	channels := rapid.IntRange(2, 8).Draw(t, "channels")
	p := &Problem{Base: make([]float64, channels)}
	for c := range channels {
		p.PerByte = append(p.PerByte, float64(rapid.IntRange(1, 4).Draw(t, "per byte")))
		if rapid.Bool().Draw(t, "has base") {
			p.Base[c] = float64(rapid.IntRange(0, 3000).Draw(t, "base"))
		}
	}
	for range rapid.IntRange(1, 4).Draw(t, "demands") {
		d := Demand{Sizes: rapid.SliceOfN(rapid.Int64Range(1, 5000), 1, 4).Draw(t, "sizes")}
		for range rapid.IntRange(1, 4).Draw(t, "paths") {
			channel := rapid.Int32Range(0, int32(channels-1))
			path := rapid.SliceOfNDistinct(channel, 1, min(4, channels), rapid.ID[int32])
			d.Paths = append(d.Paths, path.Draw(t, "path"))
		}
		p.Demands = append(p.Demands, d)
	}
	return p
}

// simplex returns the optimum by the simplex method, in tableau form with Bland's rule: an oracle that
// shares nothing with [Problem.Balance]. Variables are t, each demand's paths, and a slack for each channel.
func simplex(p *Problem) float64 {
	channels := len(p.PerByte)
	first := make([]int, len(p.Demands)) // columns of a demand's paths
	cols := 1
	for i := range p.Demands {
		first[i] = cols
		cols += len(p.Demands[i].Paths)
	}
	slack := cols
	cols += channels
	rows := channels + len(p.Demands)
	a := make([][]float64, rows+1) // the last row is the objective's
	for r := range a {
		a[r] = make([]float64, cols+1)
	}
	for c := range channels { // base + load - t + slack = 0
		a[c][0], a[c][slack+c], a[c][cols] = -1, 1, -p.Base[c]
	}
	basis := make([]int, rows)
	for i := range p.Demands {
		r := channels + i
		for k, path := range p.Demands[i].Paths {
			a[r][first[i]+k] = 1
			for _, c := range path {
				a[c][first[i]+k] += p.PerByte[c]
			}
		}
		a[r][cols] = float64(p.Demands[i].Bytes())
	}
	a[rows][0] = 1
	pivot := func(r, c int) {
		x := a[r][c]
		for j := range a[r] {
			a[r][j] /= x
		}
		for i := range a {
			if f := a[i][c]; i != r && f != 0 {
				for j := range a[i] {
					a[i][j] -= f * a[r][j]
				}
			}
		}
		if r < rows {
			basis[r] = c
		}
	}
	// A feasible basis: all by first paths, t the greatest load that makes, slacks of the other channels.
	for i := range p.Demands {
		pivot(channels+i, first[i])
	}
	full := 0
	for c := range channels {
		if a[c][cols] < a[full][cols] {
			full = c
		}
	}
	for c := range channels {
		basis[c] = slack + c
	}
	pivot(full, 0)
	for range 10000 {
		enter := slices.IndexFunc(a[rows][:cols], func(x float64) bool { return x < -1e-9 })
		if enter < 0 {
			return -a[rows][cols]
		}
		leave, least := -1, math.Inf(1)
		for r := range rows {
			if a[r][enter] > 1e-9 {
				q := a[r][cols] / a[r][enter]
				if q < least-1e-9 || q < least+1e-9 && (leave < 0 || basis[r] < basis[leave]) {
					leave, least = r, q
				}
			}
		}
		if leave < 0 {
			return math.Inf(-1)
		}
		pivot(leave, enter)
	}
	return math.NaN()
}

// TestAgainstSimplex: the bound is never above the optimum, the division never below it, and near to it.
func TestAgainstSimplex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		b, want := p.Balance(0.001), simplex(p)
		if math.IsNaN(want) || b.Bound > want*(1+1e-6) || b.Max < want*(1-1e-6) {
			t.Fatalf("bound %v, optimum %v, division %v", b.Bound, want, b.Max)
		}
		if b.Max > want*1.03 {
			t.Errorf("division %v is 3 %% above the optimum, %v", b.Max, want)
		}
	})
}

// TestDeal: all bytes are dealt, no channel has more than asked but for whole bytes, and each demand has
// fewer cuts than it has paths.
func TestDeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		slack := rapid.SampledFrom([]float64{0, 0.02, 0.2}).Draw(t, "slack")
		b := p.Balance(0.01)
		pieces := b.Deal(slack)
		for i, d := range p.Demands {
			n := 0
			for f, size := range d.Sizes {
				for _, x := range pieces {
					if int(x.Demand) == i && int(x.Flow) == f {
						if x.Bytes <= 0 {
							t.Errorf("a piece of %d bytes", x.Bytes)
						}
						n++
						size -= x.Bytes
					}
				}
				if size != 0 {
					t.Errorf("demand %d, flow %d: %d bytes are left", i, f, size)
				}
			}
			if cuts := n - len(d.Sizes); cuts >= len(d.Paths) {
				t.Errorf("demand %d: %d cuts over %d paths", i, cuts, len(d.Paths))
			}
		}
		for c, load := range p.Loads(pieces) {
			whole := 0.0 // what rounding may add
			for _, d := range p.Demands {
				whole += p.PerByte[c] * float64(2*len(d.Paths)+len(d.Sizes))
			}
			if load > b.Max*(1+slack)*(1+1e-6)+whole {
				t.Errorf("channel %d has %v, and the division %v", c, load, b.Max)
			}
		}
	})
}

// TestTheorem1: paths that are alike get the same, as Theorem 1 has it, by McNaughton's fewest cuts at most.
func TestTheorem1(t *testing.T) {
	p := &Problem{PerByte: []float64{1, 1, 1, 1}, Demands: []Demand{{
		Sizes: []int64{1000, 1000, 1000, 1000, 1000, 1000}, Paths: [][]int32{{0}, {1}, {2}, {3}},
	}}}
	b := p.Balance(1e-6)
	if math.Abs(b.Max-1500) > 1 || b.Bound > 1500+1e-6 || b.Bound < 1499 {
		t.Errorf("bound %v, load %v; each of four paths gets 1500", b.Bound, b.Max)
	}
	if pieces := b.Deal(0.001); len(pieces) > 6+3 {
		t.Errorf("%d pieces: %v", len(pieces), pieces)
	}
}
