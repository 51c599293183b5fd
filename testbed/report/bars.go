package report

import (
	"fmt"
	"slices"
)

// barPanel is the picture of completion times of one collective: a group of
// bars for each failure case and notifier, a bar for each scheme.
type barPanel struct {
	Title  string
	W, H   float64
	Top    float64 // of the plot area
	Bottom float64
	Ticks  []tick
	Groups []barGroup
}

type barGroup struct {
	Label, Sub string
	Y          float64 // of the label's base line
	Line       float64 // of the rule above
	Bars       []bar
	HasBound   bool
	BoundX     float64
	BoundY1    float64
	BoundY2    float64
	BoundTitle string
}

type bar struct {
	Class      string
	Scheme     string
	X, Y, W, H float64
	Mid        float64 // base line of its texts
	Value      string
	ValueX     float64
	Ratio      string
	DNF        bool
	Open       bool // interrupted: it is as long as the run was let
	Whisker    bool
	Low, High  float64
	Title      string
}

// Geometry of the bars, in SVG units.
const (
	barWidth    = 1000
	barLeft     = 250
	barRight    = 150 // room for the value
	barHeight   = 17
	barGap      = 4
	barGroupGap = 16
)

// barPanels returns a panel per collective.
func barPanels(rs []*Result) []barPanel {
	schemes := distinct(rs, func(r *Result) string { return r.Scheme })
	all := sections(rs)
	var out []barPanel
	for _, op := range distinct(rs, (*Result).operation) {
		var secs []section
		top := 0.0
		for _, s := range all {
			if s.operation != op {
				continue
			}
			secs = append(secs, s)
			for _, r := range s.results() {
				for _, v := range []*float64{r.CCT, r.Bound} {
					if v != nil {
						top = max(top, *v)
					}
				}
			}
		}
		scale := linear{max: top, from: barLeft, to: barWidth - barRight}
		p := barPanel{Title: op, W: barWidth, Top: 26, Ticks: scale.ticks(6)}
		y := p.Top + 8
		for _, s := range secs {
			for _, notifier := range s.notifiers() {
				g := barGroup{Label: s.failure, Line: y - barGroupGap/2, BoundY1: y - 4}
				if notifier != "none" {
					g.Sub = notifier
				}
				for _, w := range s.rows {
					if w.notifier != notifier {
						continue
					}
					g.Bars = append(g.Bars, newBar(w, scale, y, slices.Index(schemes, w.scheme)))
					y += barHeight + barGap
					if b := spreadOf(w.results, bound); b.n > 0 {
						g.HasBound, g.BoundX = true, scale.at(b.mean)
						g.BoundTitle = fmt.Sprintf("lower bound %s µs", number(b.mean))
					}
				}
				g.BoundY2 = y
				g.Y = (g.BoundY1+y)/2 + 3
				y += barGroupGap
				p.Groups = append(p.Groups, g)
			}
		}
		p.Bottom = y - barGroupGap/2
		p.H = p.Bottom + 4
		out = append(out, p)
	}
	return out
}

func newBar(w row, scale linear, y float64, scheme int) bar {
	c := spreadOf(w.results, cct)
	b := bar{
		Class: schemeClass(scheme), Scheme: w.scheme,
		X: barLeft, Y: y, H: barHeight, Mid: y + barHeight - 5,
		DNF: w.failed(),
	}
	missing := w.incomplete()
	b.Open = missing != "" && !b.DNF
	what := w.scheme
	if w.notifier != "none" {
		what += ", " + w.notifier
	}
	if c.n == 0 {
		b.W = scale.to - barLeft
		if b.Open {
			b.W = scale.at(w.results[0].EndTime) - barLeft
		}
		b.Value = missing
		b.Title = fmt.Sprintf("%s: %s", what, outcome(w.results[0]))
	} else {
		b.W = scale.at(c.mean) - barLeft
		b.Value = number(c.mean) + " µs"
		b.Title = fmt.Sprintf("%s: %s µs", what, rangeText(c))
		if missing != "" {
			b.Value += " (" + missing + ")"
		}
		if x := spreadOf(w.results, (*Result).Slowdown); x.n > 0 {
			b.Ratio = ratio(x.mean)
			b.Title += ", " + b.Ratio + " the bound"
		}
		if c.n > 1 && c.max > c.min {
			b.Whisker, b.Low, b.High = true, scale.at(c.min), scale.at(c.max)
			b.Title += fmt.Sprintf(" (mean %s, %d seeds)", number(c.mean), c.n)
		}
	}
	b.ValueX = max(b.X+b.W, b.High) + 7
	return b
}

// notifiers returns the section's notifiers, in order of first appearance.
func (s section) notifiers() []string {
	return distinct(s.results(), func(r *Result) string { return r.Notifier })
}

// ratio prints a multiple: "1.02×".
func ratio(v float64) string {
	if v >= 10 {
		return number(v) + "×"
	}
	return fmt.Sprintf("%.2f×", v)
}

// schemeClass is the CSS class that gives a scheme its colour.
func schemeClass(i int) string { return fmt.Sprintf("s%d", max(i, 0)%8) }
