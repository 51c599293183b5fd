package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// barPanel shows the completion times of one collective: a group of bars per failure case and notifier, a bar per
// scheme. Lengths and positions are per cent of the widest.
type barPanel struct {
	Title  string
	Ticks  []tick // empty: each group has its own scale
	Groups []barGroup
}

type barGroup struct {
	Label, Sub string
	Ticks      []tick
	Bars       []bar
	HasBound   bool
	Bound      float64
	BoundTitle string
}

type bar struct {
	Class, Scheme string
	Mark          template.HTML
	Width         float64
	Value, Ratio  string
	DNF           bool
	Open          bool // interrupted: the bar is as long as the run took
	Whisker       bool
	Low, Range    float64
	Title         string
}

// maxScaleRatio is the largest ratio between the bars of two groups on one scale.
const maxScaleRatio = 8

// barPanels returns a panel per collective.
func barPanels(rs []*Result) []barPanel {
	order := distinctValues(rs, func(r *Result) string { return r.Scheme })
	all := sections(rs)
	var out []barPanel
	for _, op := range distinctValues(rs, (*Result).operation) {
		var groups []barGroup
		var rows [][]schemeRow
		least, most := math.Inf(1), 0.0
		for _, s := range all {
			if s.operation != op {
				continue
			}
			for _, notifier := range s.notifiers() {
				g := barGroup{Label: s.failure}
				if notifier != "none" {
					g.Sub = notifier
				}
				of := slices.DeleteFunc(slices.Clone(s.rows), func(w schemeRow) bool { return w.notifier != notifier })
				slices.SortStableFunc(of, func(a, b schemeRow) int { return slices.Index(order, a.scheme) - slices.Index(order, b.scheme) })
				groups, rows = append(groups, g), append(rows, of)
				if top := longestTime(of); top > 0 {
					least, most = min(least, top), max(most, top)
				}
			}
		}
		p := barPanel{Title: op}
		shared := most <= maxScaleRatio*least
		if shared {
			p.Ticks = linear{max: most, to: 100}.ticks(5)
		}
		for i := range groups {
			scale := linear{max: most, to: 100}
			if !shared {
				scale.max = longestTime(rows[i])
				groups[i].Ticks = scale.ticks(5)
			}
			groups[i].fill(rows[i], scale)
		}
		p.Groups = groups
		out = append(out, p)
	}
	return out
}

// longestTime returns the longest time of rows, completion or bound, in microseconds.
func longestTime(rows []schemeRow) (top float64) {
	for _, w := range rows {
		for _, r := range w.results {
			for _, v := range []*float64{r.CCT, r.Bound} {
				if v != nil {
					top = max(top, *v)
				}
			}
		}
	}
	return top
}

func (g *barGroup) fill(rows []schemeRow, scale linear) {
	for _, w := range rows {
		g.Bars = append(g.Bars, newBar(w, scale))
		if b := spreadOf(w.results, lowerBound); b.n > 0 {
			g.HasBound, g.Bound = true, scale.at(b.mean)
			g.BoundTitle = "lower bound " + durationText(b.mean)
		}
	}
}

func newBar(w schemeRow, scale linear) bar {
	c := spreadOf(w.results, completionTime)
	l := lookOf(w.scheme)
	b := bar{Class: l.class(), Mark: l.inline(), Scheme: w.scheme, DNF: w.failed()}
	missing := w.incomplete()
	b.Open = missing != "" && !b.DNF
	what := w.scheme
	if w.notifier != "none" {
		what += ", " + w.notifier
	}
	if c.n == 0 {
		b.Width = 100
		if b.Open {
			b.Width = scale.at(w.results[0].EndTime)
		}
		b.Value = missing
		b.Title = fmt.Sprintf("%s: %s", what, outcomeText(w.results[0]))
		return b
	}
	b.Width = scale.at(c.mean)
	b.Value = durationText(c.mean)
	b.Title = what + ": " + strings.ReplaceAll(rangeText(c, microseconds), "us", "µs")
	if missing != "" {
		b.Value += " (" + missing + ")"
	}
	if x := spreadOf(w.results, (*Result).Slowdown); x.n > 0 {
		b.Ratio = multipleText(x.mean)
		b.Title += ", " + b.Ratio + " the bound"
	}
	if c.n > 1 && c.max > c.min {
		b.Whisker, b.Low, b.Range = true, scale.at(c.min), scale.at(c.max)-scale.at(c.min)
		b.Title += fmt.Sprintf(" (mean %s, %d seeds)", fourDigits(c.mean), c.n)
	}
	return b
}

// notifiers returns the section's notifiers, in order of first appearance.
func (s resultSection) notifiers() []string {
	return distinctValues(s.results(), func(r *Result) string { return r.Notifier })
}

// multipleText prints a multiple: "1.02×".
func multipleText(v float64) string {
	if v >= 10 {
		return fourDigits(v) + "×"
	}
	return fmt.Sprintf("%.2f×", v)
}
