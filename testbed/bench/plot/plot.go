// Package plot draws growth: curves over something that grows, on a logarithmic
// scale, as the SVG pictures of docs.
package plot

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Panel is one diagram of curves.
type Panel struct {
	Title  string
	X      string                 // name of the x axis, with its unit
	Log    bool                   // the x axis is logarithmic; the y axis always is
	Y      func(y float64) string `json:"-"` // formats a value of the y axis
	Series []Series
}

// Series is one curve. Its Ys are above 0.
type Series struct {
	Name string
	X    []int
	Y    []float64
}

// Add appends a point to the curve.
func (s *Series) Add(x int, y float64) {
	s.X = append(s.X, x)
	s.Y = append(s.Y, y)
}

// Sizes of a panel in pixels.
const (
	panelWidth, panelHeight                          = 430, 300
	marginLeft, marginRight, marginTop, marginBottom = 56, 12, 34, 40
)

// SVG returns an SVG picture of the panels side by side.
func SVG(panels []Panel) []byte {
	var b strings.Builder
	w, h := panelWidth*len(panels), panelHeight+20
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", w, h)
	for i := range panels {
		fmt.Fprintf(&b, `<g transform="translate(%d,0)">`+"\n", i*panelWidth)
		panels[i].draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

func (p *Panel) draw(b *strings.Builder) {
	lowX, highX := math.Inf(1), math.Inf(-1)
	lowY, highY := math.Inf(1), math.Inf(-1)
	for _, s := range p.Series {
		for i := range s.X {
			lowX, highX = min(lowX, float64(s.X[i])), max(highX, float64(s.X[i]))
			lowY, highY = min(lowY, s.Y[i]), max(highY, s.Y[i])
		}
	}
	lowY, highY = math.Pow(10, math.Floor(math.Log10(lowY))), math.Pow(10, math.Ceil(math.Log10(highY)))
	scale := func(v, low, high float64, log bool) float64 {
		if log {
			v, low, high = math.Log(v), math.Log(low), math.Log(high)
		}
		return (v - low) / (high - low)
	}
	x := func(v float64) float64 {
		return marginLeft + scale(v, lowX, highX, p.Log)*(panelWidth-marginLeft-marginRight)
	}
	y := func(v float64) float64 {
		return marginTop + (1-scale(v, lowY, highY, true))*(panelHeight-marginTop-marginBottom)
	}
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, s)
	}
	text((marginLeft+panelWidth-marginRight)/2, 16, "middle", p.Title)
	for v := lowY; v <= highY*1.01; v *= 10 {
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#ddd"/>`+"\n", marginLeft, y(v), panelWidth-marginRight)
		text(marginLeft-6, y(v)+4, "end", p.Y(v))
	}
	var ticks []int
	for _, s := range p.Series {
		ticks = append(ticks, s.X...)
	}
	slices.Sort(ticks)
	last := math.Inf(-1)
	for _, v := range slices.Compact(ticks) {
		if at := x(float64(v)); at-last > 30 {
			text(at, panelHeight-marginBottom+16, "middle", fmt.Sprint(v))
			last = at
		}
	}
	text((marginLeft+panelWidth-marginRight)/2, panelHeight-marginBottom+32, "middle", p.X)
	colours := []string{"#1b6ac9", "#e0591c", "#2a9d5b", "#b0307e", "#7a5cc4", "#8c6d1f"}
	for i, s := range p.Series {
		colour := colours[i%len(colours)]
		var path strings.Builder
		for k := range s.X {
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(k, 1)], x(float64(s.X[k])), y(s.Y[k]))
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`+"\n", x(float64(s.X[k])), y(s.Y[k]), colour)
		}
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.6"/>`+"\n", path.String(), colour)
		at := marginLeft + float64(i)*(panelWidth-marginLeft-marginRight)/float64(len(p.Series))
		fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="%s" font-size="8.5">%s</text>`+"\n", at, panelHeight+12, colour, s.Name)
	}
}

// Nanoseconds formats a number of ns.
func Nanoseconds(ns float64) string {
	switch {
	case ns >= 1e9:
		return fmt.Sprintf("%g s", ns/1e9)
	case ns >= 1e6:
		return fmt.Sprintf("%g ms", ns/1e6)
	case ns >= 1e3:
		return fmt.Sprintf("%g us", ns/1e3)
	}
	return fmt.Sprintf("%g ns", ns)
}

// Megabytes formats a number of MB.
func Megabytes(mb float64) string {
	if mb >= 1e3 {
		return fmt.Sprintf("%g GB", mb/1e3)
	}
	return fmt.Sprintf("%g MB", mb)
}
