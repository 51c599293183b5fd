package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Chart is a picture of numbers: lines over an axis, or bars in groups. Its SVG works as a separate file, and
// inside a page.
type Chart struct {
	Name   string // for file names: letters, digits and dashes
	Title  string
	XLabel string
	YLabel string
	LogX   bool
	LogY   bool
	Groups []string // names of the groups of bars; nil: the chart has lines
	Series []Series
}

// Series is the points of one name.
type Series struct {
	Name   string // a scheme's: it determines how the series is drawn
	Points []Point
}

// Point is a value and its range over seeds. In a chart of bars X is the number of the group.
type Point struct {
	X, Y      float64
	Low, High float64
	Missing   bool // for a bar: no run finished
}

// Geometry of charts, in SVG units.
const (
	chartWidth  = 760.0
	chartHeight = 320.0
	plotX       = 66.0
	plotRight   = chartWidth - 12
	plotTop     = 34.0
	plotBottom  = chartHeight - 46
	legendRow   = 17.0
)

// axis maps values to positions in the picture.
type axis struct {
	min, max float64
	log      bool
	from, to float64
}

func (a axis) at(v float64) float64 {
	if a.log {
		return logarithmic{a.min, a.max, a.from, a.to}.at(v)
	}
	return a.from + (a.to-a.from)*(v-a.min)/(a.max-a.min)
}

// ticks returns marks at round values; over few decades also at 2 and 5.
func (a axis) ticks() []tick {
	if !a.log {
		var out []tick
		for _, t := range (linear{max: a.max, from: 0, to: 1}).ticks(6) {
			t.X = a.from + (a.to-a.from)*t.X
			out = append(out, t)
		}
		return out
	}
	var out []tick
	few := a.max/a.min < 200
	for e := math.Floor(math.Log10(a.min)); e <= math.Log10(a.max); e++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, e)
			if v >= a.min*(1-1e-9) && v <= a.max*(1+1e-9) && (m == 1 || few) {
				out = append(out, tick{X: a.at(v), Label: shortNumber(v)})
			}
		}
	}
	return out
}

// scales returns axes that contain all points.
func (c Chart) scales() (x, y axis) {
	x = axis{min: math.Inf(1), max: math.Inf(-1), log: c.LogX, from: plotX, to: plotRight}
	y = axis{min: math.Inf(1), max: math.Inf(-1), log: c.LogY, from: plotBottom, to: plotTop}
	for _, s := range c.Series {
		for _, p := range s.Points {
			x.min, x.max = min(x.min, p.X), max(x.max, p.X)
			if !p.Missing {
				y.min, y.max = min(y.min, p.Y, p.Low), max(y.max, p.Y, p.High)
			}
		}
	}
	for _, a := range []*axis{&x, &y} {
		switch {
		case math.IsInf(a.min, 0):
			a.min, a.max = 0, 1
		case a.log && !(a.min > 0):
			a.min = max(a.max/1e6, 1e-12)
		case a == &y && !a.log:
			a.min = min(0, a.min)
		}
		if a.log && a.max <= a.min {
			a.max = a.min * 10
		}
		if a.max <= a.min {
			a.max = a.min + 1
		}
	}
	if y.log {
		y.min, y.max = y.min/1.15, y.max*1.15
	} else {
		y.max *= 1.04
	}
	return x, y
}

// SVG returns the picture.
func (c Chart) SVG() string {
	var b strings.Builder
	rows := c.legendRows()
	height := chartHeight + float64(rows)*legendRow
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" role="img" aria-label="%s">`, coordinate(chartWidth), coordinate(height), html.EscapeString(c.Title))
	b.WriteString("<style>.c-t{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#6b7785}" +
		".c-h{font:600 13.5px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#4a5664}" +
		".c-g{stroke:#8a95a3;stroke-opacity:.25}.c-w{stroke:#6b7785;stroke-width:1.2}" +
		"@media (prefers-color-scheme:dark){.c-t{fill:#a3afbd}.c-h{fill:#d5dce4}.c-w{stroke:#a3afbd}}</style>\n")
	text := func(x, y float64, class, anchor, s string) {
		fmt.Fprintf(&b, `<text class="%s" x="%s" y="%s" text-anchor="%s">%s</text>`+"\n", class, coordinate(x), coordinate(y), anchor, html.EscapeString(s))
	}
	text(0, 15, "c-h", "start", c.Title)
	x, y := c.scales()
	for _, t := range y.ticks() {
		fmt.Fprintf(&b, `<line class="c-g" x1="%s" x2="%s" y1="%s" y2="%[3]s"/>`, coordinate(plotX), coordinate(plotRight), coordinate(t.X))
		text(plotX-6, t.X+4, "c-t", "end", t.Label)
	}
	fmt.Fprintf(&b, `<text class="c-t" transform="translate(13 %s) rotate(-90)" text-anchor="middle">%s</text>`+"\n",
		coordinate((plotTop+plotBottom)/2), html.EscapeString(c.YLabel))
	text((plotX+plotRight)/2, plotBottom+36, "c-t", "middle", c.XLabel)
	if c.Groups != nil {
		c.bars(&b, y, text)
	} else {
		for _, t := range x.ticks() {
			fmt.Fprintf(&b, `<line class="c-g" x1="%s" x2="%[1]s" y1="%s" y2="%s"/>`, coordinate(t.X), coordinate(plotTop), coordinate(plotBottom))
			text(t.X, plotBottom+16, "c-t", "middle", t.Label)
		}
		c.lines(&b, x, y)
	}
	c.legend(&b, text)
	b.WriteString("</svg>\n")
	return b.String()
}

func (c Chart) lines(b *strings.Builder, x, y axis) {
	for _, s := range c.Series {
		l := lookOf(s.Name)
		var path strings.Builder
		for i, p := range s.Points {
			op := "L"
			if i == 0 {
				op = "M"
			}
			fmt.Fprintf(&path, "%s%s %s", op, coordinate(x.at(p.X)), coordinate(y.at(p.Y)))
		}
		fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="2" stroke-linejoin="round" stroke-dasharray="%s" d="%s"/>`+"\n",
			l.color(), dashes(s.Name, c.names()), path.String())
		every := max(len(s.Points)/8, 1) // enough marks on a line to distinguish it
		for i := 0; i < len(s.Points); i += every {
			p := s.Points[i]
			if every == 1 {
				c.whisker(b, x.at(p.X), p, y)
			}
			b.WriteString(l.mark(x.at(p.X), y.at(p.Y), 0.75, l.color(), s.Name+": "+fourDigits(p.Y)))
		}
		b.WriteString("\n")
	}
}

func (c Chart) whisker(b *strings.Builder, x float64, p Point, y axis) {
	if p.High > p.Low {
		fmt.Fprintf(b, `<path class="c-w" fill="none" d="M%s %sh6m-3 0V%sm-3 0h6"/>`, coordinate(x-3), coordinate(y.at(p.Low)), coordinate(y.at(p.High)))
	}
}

func (c Chart) bars(b *strings.Builder, y axis, text func(x, y float64, class, anchor, s string)) {
	group := (plotRight - plotX) / float64(len(c.Groups))
	width := min(group*0.86/float64(max(len(c.Series), 1)), 34)
	for g, name := range c.Groups {
		x := plotX + group*(float64(g)+0.5)
		if at := strings.LastIndexByte(name, ' '); at > 0 { // the size below the collective
			text(x, plotBottom+30, "c-t", "middle", name[at+1:])
			name = name[:at]
		}
		text(x, plotBottom+16, "c-t", "middle", name)
	}
	for i, s := range c.Series {
		l := lookOf(s.Name)
		color := l.color()
		for _, p := range s.Points {
			left := plotX + group*(p.X+0.5) + width*(float64(i)-float64(len(c.Series))/2)
			top, style, value := y.at(p.Y), `fill-opacity="1"`, fourDigits(p.Y)
			if p.Missing {
				top, style, value = plotTop, `fill-opacity=".15" stroke-dasharray="4 3" stroke="`+color+`"`, unfinishedBar
			}
			fmt.Fprintf(b, `<rect x="%s" y="%s" width="%s" height="%s" fill="%s" %s><title>%s, %s: %s</title></rect>`,
				coordinate(left), coordinate(top), coordinate(width*0.9), coordinate(max(plotBottom-top, 0)), color, style,
				html.EscapeString(s.Name), html.EscapeString(c.Groups[int(p.X)]), value)
			if !p.Missing {
				c.whisker(b, left+width*0.45, p, y)
			}
			b.WriteString(l.mark(left+width*0.45, plotBottom-7, min(width/16, 0.8), "#fff", ""))
		}
		b.WriteString("\n")
	}
}

// unfinishedBar is the legend's text for bars of runs that did not finish.
const unfinishedBar = "did not finish"

// legendNames returns the legend's names: the series, and the dashed bar if there is one.
func (c Chart) legendNames() []string {
	names := c.names()
	if c.Groups != nil && slices.ContainsFunc(c.Series, func(s Series) bool {
		return slices.ContainsFunc(s.Points, func(p Point) bool { return p.Missing })
	}) {
		names = append(names, unfinishedBar)
	}
	return names
}

// legendRows returns the number of the legend's rows.
func (c Chart) legendRows() int {
	x, rows := plotX, 1
	for _, name := range c.legendNames() {
		w := legendWidth(name)
		if x+w > plotRight && x > plotX {
			x, rows = plotX, rows+1
		}
		x += w
	}
	return rows
}

func legendWidth(name string) float64 { return 30 + 6.8*float64(len([]rune(name))) }

func (c Chart) legend(b *strings.Builder, text func(x, y float64, class, anchor, s string)) {
	x, y := plotX, chartHeight+8
	for i, name := range c.legendNames() {
		w := legendWidth(name)
		if x+w > plotRight && x > plotX {
			x, y = plotX, y+legendRow
		}
		if i == len(c.Series) {
			fmt.Fprintf(b, `<rect x="%s" y="%s" width="12" height="9" fill="none" stroke="currentColor" stroke-dasharray="4 3"/>`, coordinate(x), coordinate(y-8))
		} else {
			l := lookOf(name)
			b.WriteString(l.mark(x+6, y-4, 0.95, l.color(), ""))
			if d := dashes(name, c.names()); d != "" && c.Groups == nil {
				fmt.Fprintf(b, `<path d="M%s %sh12" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`, coordinate(x), coordinate(y-4), l.color(), d)
			}
		}
		text(x+16, y, "c-t", "start", name)
		x += w
	}
}

// names returns the names of the series.
func (c Chart) names() []string {
	var out []string
	for _, s := range c.Series {
		out = append(out, s.Name)
	}
	return out
}

// coordinate prints a coordinate.
func coordinate(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "0"
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
}
