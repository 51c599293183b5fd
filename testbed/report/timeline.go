package report

import (
	"fmt"
	"math"
	"slices"
)

// timelinePanel is the failure timeline of one failure case and collective: one lane per notifier and scheme on one
// axis of time since the cut.
type timelinePanel struct {
	Title, Sub  string
	W, H        float64
	Top, Bottom float64
	Left, Right float64
	Ticks       []tick
	Lanes       []timelineLane
}

type timelineLane struct {
	Label, Class string
	Scheme       string
	Note         string
	Y            float64 // top
	Line         float64 // of the rule above
	TextY, NoteY float64
	BarY, BarH   float64
	Spans        []timelineSpan
	Marks        []timelineMark
	Flips        []tickMark
	Sends        []tickMark
	End          string
	EndX, EndY   float64
	DNF          bool
}

type timelineSpan struct {
	Class string
	X, W  float64
	Title string
}

type timelineMark struct {
	Class, Letter string
	X, Y          float64 // of the glyph
	At, Y1        float64 // foot of its leader, on the bar
	Title         string
}

type tickMark struct {
	X, Y1, Y2 float64
	Title     string
}

// glyph is the symbol of a kind of event: a letter in a circle.
type glyph struct {
	kind   Kind
	letter string
	text   string
}

// glyphs returns the kinds that are drawn as letters above a lane's bar.
func glyphs() []glyph {
	return []glyph{
		{KindFirstHit, "1", "first packet lost to the cut"},
		{KindDetect, "D", "the switches at the link's ends know"},
		{KindQuench, "Q", "a host gets its first source quench"},
		{KindGNMI, "G", "the controller gets a gNMI notification"},
		{KindWrite, "W", "all table writes are acknowledged"},
		{KindSuspect, "S", "the controller suspects a link, or does no longer"},
		{KindPush, "P", "the agents get the controller's update"},
		{KindTimeout, "T", "a host's first retransmission timer expires"},
		{KindRestore, "↑", "a link comes back"},
	}
}

// Geometry of a timeline, in SVG units.
const (
	laneWidth  = 1000
	laneX      = 190
	laneRight  = 118
	laneHeight = 58
	glyphStep  = 15.0 // minimum distance of two glyphs
)

// timelinePanels returns one panel per failure case and collective with a cut; with several seeds it shows the
// first.
func timelinePanels(rs []*Result) []timelinePanel {
	schemes := distinctValues(rs, func(r *Result) string { return r.Scheme })
	var out []timelinePanel
	for _, s := range sections(rs) {
		var shown []*Result
		for _, w := range s.rows {
			if _, ok := firstCut(w.results[0]); ok {
				shown = append(shown, w.results[0])
			}
		}
		if len(shown) == 0 {
			continue
		}
		// Rows of one scheme together: they differ in the notifier.
		slices.SortStableFunc(shown, func(a, b *Result) int {
			return slices.Index(schemes, a.Scheme) - slices.Index(schemes, b.Scheme)
		})
		out = append(out, newTimeline(s, shown))
	}
	return out
}

// firstCut returns the time of the first link's death.
func firstCut(r *Result) (float64, bool) {
	for _, e := range r.Timeline {
		if e.Kind == KindCut {
			return e.Time, true
		}
	}
	return 0, false
}

func newTimeline(s resultSection, shown []*Result) timelinePanel {
	scale := logarithmic{min: math.Inf(1), max: 1, from: laneX, to: laneWidth - laneRight}
	for _, r := range shown {
		cut, _ := firstCut(r)
		see := func(t float64) {
			if t -= cut; t > 0 {
				scale.min, scale.max = min(scale.min, t), max(scale.max, t)
			}
		}
		for _, e := range r.Timeline {
			see(e.Time)
		}
		for _, e := range r.FlipRecords {
			see(e.Time)
		}
		if r.CCT != nil {
			see(*r.CCT)
		} else if r.interrupted() {
			see(r.EndTime)
		}
	}
	// Whole decades below, never finer than 100 ns: earlier events are drawn at the cut. Some room above.
	scale.min = max(0.1, math.Pow(10, math.Floor(math.Log10(min(scale.min/2, scale.max/10)))))
	scale.max *= 1.05
	p := timelinePanel{
		Title: s.failure, Sub: s.operation, W: laneWidth, Top: 34, Left: laneX, Right: laneWidth - laneRight,
		Ticks: scale.ticks(),
	}
	if len(p.Ticks) > 0 {
		p.Ticks[0].Label = "" // "cut" is written there
	}
	y := p.Top
	for _, r := range shown {
		p.Lanes = append(p.Lanes, newLane(r, scale, y))
		y += laneHeight
	}
	p.Bottom, p.H = y, y+6
	return p
}

// reasonReturn is the reason of a flip back to a restored path.
const reasonReturn = "return"

func newLane(r *Result, scale logarithmic, y float64) timelineLane {
	cut, _ := firstCut(r)
	l := timelineLane{
		Label: r.Notifier, Scheme: r.Scheme, Class: lookOf(r.Scheme).class(),
		Y: y, Line: y, TextY: y + 24, NoteY: y + 40, BarY: y + 27, BarH: 10,
	}
	l.Note = fmt.Sprintf("%d lost, %d retransmitted", r.LostToFailure, r.Retransmissions)

	end, label := scale.max, "did not finish"
	class := "clean"
	switch {
	case r.CCT != nil:
		end, label = *r.CCT-cut, "CCT "+fourDigits(*r.CCT)+" µs"
	case r.interrupted():
		end, label = r.EndTime-cut, "interrupted"
	}
	l.DNF, l.End, l.EndX, l.EndY = r.CCT == nil && !r.interrupted(), label, scale.at(end)+9, l.BarY+9
	if end <= 0 {
		l.Spans = append(l.Spans, timelineSpan{"clean", scale.from, 3, "it was done before the cut"})
		return l
	}
	// Until the last flip some queue pair was on a dead path.
	exposed := 0.0
	for _, f := range r.FlipRecords {
		if t := f.Time - cut; t > 0 && t <= end && f.Reason != reasonReturn {
			exposed = max(exposed, t)
		}
	}
	stop := scale.at(end)
	turn := scale.at(exposed)
	if exposed > 0 {
		l.Spans = append(l.Spans,
			timelineSpan{"exposed", scale.from, turn - scale.from, fmt.Sprintf("cut to last flip: %s µs", fourDigits(exposed))})
	} else {
		turn, class = scale.from, "plain"
	}
	switch {
	case r.interrupted():
		class = "plain"
	case l.DNF:
		class = "lost"
	}
	l.Spans = append(l.Spans, timelineSpan{class, turn, max(stop-turn, 2), fmt.Sprintf("%s to the end: %s µs",
		map[bool]string{true: "last flip", false: "cut"}[exposed > 0], fourDigits(end-exposed))})

	l.Marks = laneMarks(r, scale, cut, &l)
	l.Flips = eventTicks(scale, cut, l.BarY+l.BarH+2, l.BarY+l.BarH+13, flipTimes(r), "flips")
	l.Sends = eventTicks(scale, cut, l.BarY+l.BarH+15, l.BarY+l.BarH+19, r.times(KindRetransmit), "retransmissions")
	return l
}

// laneMarks places one glyph for the first event of each kind, in order of time, shifted right where two would
// overlap.
func laneMarks(r *Result, scale logarithmic, cut float64, l *timelineLane) []timelineMark {
	var out []timelineMark
	for _, g := range glyphs() {
		times := r.times(g.kind)
		if len(times) == 0 {
			continue
		}
		title := fmt.Sprintf("%s: %s µs after the cut", g.text, fourDigits(times[0]-cut))
		if n := len(times); n > 1 {
			title = fmt.Sprintf("%s: %d times, %s to %s µs after the cut", g.text, n, fourDigits(times[0]-cut), fourDigits(times[n-1]-cut))
		}
		out = append(out, timelineMark{
			Class: "k-" + string(g.kind), Letter: g.letter, At: scale.at(times[0] - cut), Y: l.Y + 12, Y1: l.BarY, Title: title,
		})
	}
	slices.SortStableFunc(out, func(a, b timelineMark) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	last := math.Inf(-1)
	for i := range out {
		out[i].X = max(out[i].At, last+glyphStep)
		last = out[i].X
	}
	return out
}

// times returns the times of the events of a kind.
func (r *Result) times(k Kind) []float64 {
	var out []float64
	for _, e := range r.Timeline {
		if e.Kind == k {
			out = append(out, e.Time)
		}
	}
	return out
}

func flipTimes(r *Result) []float64 {
	out := make([]float64, len(r.FlipRecords))
	for i, f := range r.FlipRecords {
		out[i] = f.Time
	}
	return out
}

// eventTicks draws a tick for every half unit of width that contains an event.
func eventTicks(scale logarithmic, cut, y1, y2 float64, times []float64, what string) []tickMark {
	var out []tickMark
	first, n := 0.0, 0
	flush := func() {
		if n > 0 {
			out[len(out)-1].Title = fmt.Sprintf("%d %s at %s µs after the cut", n, what, fourDigits(first))
		}
	}
	for _, t := range times {
		x := math.Round(scale.at(t-cut)*2) / 2
		if len(out) == 0 || out[len(out)-1].X != x {
			flush()
			out = append(out, tickMark{X: x, Y1: y1, Y2: y2})
			first, n = t-cut, 0
		}
		n++
	}
	flush()
	return out
}
