package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// resultSection is the results of one failure case and one collective.
type resultSection struct {
	scenario, failure, operation string
	rows                         []schemeRow
}

// schemeRow is the results of one notifier and scheme: one per seed.
type schemeRow struct {
	notifier, scheme string
	results          []*Result // in order of seed
}

// sections groups results, in order of first appearance.
func sections(rs []*Result) []resultSection {
	var out []resultSection
	for _, r := range rs {
		i := slices.IndexFunc(out, func(s resultSection) bool {
			return s.scenario == r.Scenario && s.failure == r.Failure && s.operation == r.operation()
		})
		if i < 0 {
			i = len(out)
			out = append(out, resultSection{scenario: r.Scenario, failure: r.Failure, operation: r.operation()})
		}
		s := &out[i]
		j := slices.IndexFunc(s.rows, func(w schemeRow) bool { return w.notifier == r.Notifier && w.scheme == r.Scheme })
		if j < 0 {
			j = len(s.rows)
			s.rows = append(s.rows, schemeRow{notifier: r.Notifier, scheme: r.Scheme})
		}
		s.rows[j].results = append(s.rows[j].results, r)
	}
	for _, s := range out {
		for _, w := range s.rows {
			slices.SortStableFunc(w.results, func(a, b *Result) int { return cmp.Compare(a.Seed, b.Seed) })
		}
	}
	return out
}

// distinctValues returns the values that key takes, in order of first appearance.
func distinctValues(rs []*Result, key func(*Result) string) []string {
	var out []string
	for _, r := range rs {
		if k := key(r); !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

// incomplete returns how many of a row's runs have no completion time, and why: "2 of 5 did not finish"; for a
// single run "did not finish". It is empty if all completed.
func (w schemeRow) incomplete() string {
	var dnf, cut int
	for _, r := range w.results {
		switch {
		case r.interrupted():
			cut++
		case r.CCT == nil:
			dnf++
		}
	}
	var parts []string
	for _, c := range []struct {
		n    int
		what string
	}{{dnf, "did not finish"}, {cut, "interrupted"}} {
		switch {
		case c.n == 0:
		case len(w.results) == 1:
			parts = append(parts, c.what)
		default:
			parts = append(parts, fmt.Sprintf("%d of %d %s", c.n, len(w.results), c.what))
		}
	}
	return strings.Join(parts, ", ")
}

// failed reports whether a run of the row did not finish, unless it was interrupted.
func (w schemeRow) failed() bool {
	return slices.ContainsFunc(w.results, func(r *Result) bool { return r.CCT == nil && !r.interrupted() })
}

// seedSpread is the mean and range of a measure over seeds. n counts the seeds with a value, of the total all.
type seedSpread struct {
	mean, min, max float64
	median         float64
	n, all         int
}

func spreadOf(rs []*Result, measure func(*Result) (float64, bool)) seedSpread {
	s := seedSpread{min: math.Inf(1), max: math.Inf(-1), all: len(rs)}
	var all []float64
	for _, r := range rs {
		if v, ok := measure(r); ok {
			s.n++
			all = append(all, v)
			s.mean += v
			s.min, s.max = min(s.min, v), max(s.max, v)
		}
	}
	if s.n > 0 {
		s.mean /= float64(s.n)
		slices.Sort(all)
		s.median = (all[(s.n-1)/2] + all[s.n/2]) / 2
	}
	return s
}

// knownValue converts a measure that may be missing to spreadOf's form.
func knownValue(get func(*Result) *float64) func(*Result) (float64, bool) {
	return func(r *Result) (float64, bool) {
		if v := get(r); v != nil {
			return *v, true
		}
		return 0, false
	}
}

// boundsText names the lower bounds of results: "lower bound 309.4 us, step bound 310.2 us"; "" if unknown.
func boundsText(rs []*Result, unit timeUnit) string {
	b, s := spreadOf(rs, lowerBound), spreadOf(rs, stepBound)
	if b.n == 0 {
		return ""
	}
	text := "lower bound " + rangeText(b, unit)
	if s.n > 0 {
		text += ", step bound " + rangeText(s, unit)
	}
	return text
}

var (
	completionTime = knownValue(func(r *Result) *float64 { return r.CCT })
	lowerBound     = knownValue(func(r *Result) *float64 { return r.Bound })
	stepBound      = knownValue(func(r *Result) *float64 { return r.StepBound })
)
