package report

import (
	"math"
	"strconv"
)

// tick is a mark on an axis.
type tick struct {
	X     float64
	Label string
	Minor bool
}

// linear maps 0..max to from..to.
type linear struct{ max, from, to float64 }

func (s linear) at(v float64) float64 {
	if s.max <= 0 {
		return s.from
	}
	return s.from + (s.to-s.from)*min(v/s.max, 1)
}

// ticks returns about n marks at round values.
func (s linear) ticks(n int) []tick {
	if s.max <= 0 {
		return []tick{{X: s.from, Label: "0"}}
	}
	step := math.Pow(10, math.Floor(math.Log10(s.max/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if s.max/(step*m) <= float64(n) {
			step *= m
			break
		}
	}
	var out []tick
	for i := 0; float64(i)*step <= s.max*(1+1e-9); i++ {
		v := float64(i) * step
		out = append(out, tick{X: s.at(v), Label: shortNumber(v)})
	}
	return out
}

// logarithmic maps min..max, both above 0, to from..to.
type logarithmic struct{ min, max, from, to float64 }

func (s logarithmic) at(v float64) float64 {
	if v <= s.min {
		return s.from
	}
	return s.from + (s.to-s.from)*math.Log(min(v, s.max)/s.min)/math.Log(s.max/s.min)
}

// ticks returns a labelled mark per decade and minor ones between.
func (s logarithmic) ticks() []tick {
	var out []tick
	first := int(math.Floor(math.Log10(s.min)))
	for e := first; e < first+20; e++ {
		for m := 1; m <= 9; m++ {
			v := float64(m) * math.Pow(10, float64(e))
			if v < s.min*(1-1e-9) {
				continue
			}
			if v > s.max*(1+1e-9) {
				return out
			}
			t := tick{X: s.at(v), Minor: m != 1}
			if m == 1 {
				t.Label = shortNumber(v)
			}
			out = append(out, t)
		}
	}
	return out
}

// shortNumber prints a round number without trailing zeros.
func shortNumber(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
}
