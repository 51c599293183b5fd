package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

//go:embed page
var pageFiles embed.FS

// Page is the page's content besides the results.
type Page struct {
	Title   string // defaults to the scenarios' names
	Version string // of the program that made the results
	Charts  bool   // also show [Charts]
	Command string // that made the results; "": not shown
	Sources []Source
	Looks   []ViewHint
}

// ViewHint is a command that shows runs over time on a page.
type ViewHint struct {
	What    string // name of the run to look into
	Command string // command that serves the page
	File    string // its trace, relative to the report; "": none
}

// Source is a file from which the results were made: a scenario.
type Source struct{ Name, Text string }

// distinguishFailures returns results whose failure names include the scenario and the varied values, where these
// differ.
func distinguishFailures(rs []*Result) []*Result {
	rs = byFabric(rs)
	several := len(distinctValues(rs, func(r *Result) string { return r.Scenario })) > 1
	out := make([]*Result, len(rs))
	for i, r := range rs {
		variant := r.variantText("")
		if !several && variant == "" {
			out[i] = r
			continue
		}
		c := *r
		if several {
			c.Failure = c.Scenario + ": " + c.Failure
		}
		if variant != "" {
			c.Failure += ", " + variant
		}
		c.Variant = nil
		out[i] = &c
	}
	return out
}

// HTML writes a self-contained page: findings, pictures, table, definitions.
func HTML(w io.Writer, rs []*Result, p Page) error {
	script, err := pageFiles.ReadFile("page/page.js")
	if err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	t, err := template.New("page.html").Funcs(template.FuncMap{
		"px":  coordinate,
		"add": func(a, b float64) float64 { return a + b },
		"neg": func(v float64) float64 { return -v },
		"pct": func(v float64) template.CSS { return template.CSS(coordinate(v) + "%") },
		"css": func(name string) (template.CSS, error) {
			b, err := pageFiles.ReadFile("page/" + name)
			return template.CSS(b), err
		},
		"palette": func() template.CSS {
			var b strings.Builder
			for i, c := range palette {
				fmt.Fprintf(&b, ".s%d { --c: %s; }\n", i, c)
			}
			return template.CSS(b.String())
		},
		"script": func() template.JS { return template.JS(script) }, //nolint:gosec // it is embedded
		"scriptHash": func() string {
			h := sha256.Sum256(script)
			return base64.StdEncoding.EncodeToString(h[:])
		},
	}).ParseFS(pageFiles, "page/*.html")
	if err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	var charts []Chart
	if p.Charts {
		charts = Charts(rs)
	}
	story := Story(rs)
	rs = distinguishFailures(rs)
	if p.Title == "" {
		p.Title = strings.Join(distinctValues(rs, func(r *Result) string { return r.Scenario }), ", ")
	}
	var out bytes.Buffer
	if err := t.Execute(&out, newView(rs, charts, story, p)); err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// pageData is the template's data.
type pageData struct {
	Page

	Facts     []string
	Opponents []string
	Story     []string
	Bars      []barPanel
	Pictures  []template.HTML
	Heat      []heatPanel
	Timelines []timelinePanel
	Columns   []tableColumn
	Tables    []viewTable
	Glyphs    []legend
	Seeds     bool // more than one
}

type legend struct{ Class, Text, Letter string }

type viewTable struct {
	Title, Sub string
	Rows       []viewRow
	Notes      []string
}

type viewRow struct {
	Class string
	Mark  template.HTML
	Cells []viewCell
}

type viewCell struct {
	Text string
	Left bool
	DNF  bool
	Open bool    // interrupted
	Bar  float64 // 0 to 100, when above 0
}

// Heading returns the column's name and unit.
func (c tableColumn) Heading() string { return c.head }

// Unit returns the column's unit, as a page has it.
func (c tableColumn) Unit() string { return strings.ReplaceAll(c.unit, "us", "µs") }

// Help returns the column's meaning.
func (c tableColumn) Help() string { return c.help }

// Left reports whether the column is aligned left.
func (c tableColumn) Left() bool { return c.left }

func newView(rs []*Result, charts []Chart, story []string, p Page) pageData {
	v := pageData{
		Page: p, Facts: fabricFacts(rs), Opponents: append(CutOffs(rs), Opponents(rs)...), Story: story, Bars: barPanels(rs), Heat: heatPanels(rs), Timelines: timelinePanels(rs), Columns: columns(microseconds),
		Seeds: len(distinctValues(rs, func(r *Result) string { return strconv.FormatUint(r.Seed, 10) })) > 1,
	}
	for _, c := range charts {
		v.Pictures = append(v.Pictures, template.HTML(c.SVG())) // escaped there
	}
	used := map[Kind]bool{}
	for _, r := range rs {
		for _, e := range r.Timeline {
			used[e.Kind] = true
		}
	}
	for _, g := range glyphs() {
		if used[g.kind] {
			v.Glyphs = append(v.Glyphs, legend{Class: "k-" + string(g.kind), Text: g.text, Letter: g.letter})
		}
	}
	worst := 0.0
	for _, r := range rs {
		if s, ok := r.Slowdown(); ok {
			worst = max(worst, s)
		}
	}
	for _, s := range sections(rs) {
		t := viewTable{Title: s.failure, Sub: s.operation}
		if text := boundsText(s.results(), microseconds); text != "" {
			t.Sub += ", " + strings.ReplaceAll(text, " us", " µs")
		}
		for _, r := range s.results() {
			l := lookOf(r.Scheme)
			row := viewRow{Class: l.class(), Mark: l.inline()}
			for _, c := range v.Columns {
				cell := viewCell{Text: c.cell(r), Left: c.left}
				cell.DNF, cell.Open = cell.Text == dnfText, cell.Text == interruptedText
				if slow, ok := r.Slowdown(); ok && c.head == "CCT/bound" {
					cell.Bar = 100 * slow / worst
				}
				if cell.Text == missingText {
					cell.Text = "–"
				}
				row.Cells = append(row.Cells, cell)
			}
			t.Rows = append(t.Rows, row)
			if r.CCT == nil || r.late() {
				t.Notes = append(t.Notes, fmt.Sprintf("%s: %s, %s, seed %d: %s.", tableRemark(r), r.Scheme, r.Notifier, r.Seed,
					strings.ReplaceAll(outcomeText(r), " us", " µs")))
			}
			for _, text := range slices.Concat(stepsTexts(r), flowsTexts(r)) {
				t.Notes = append(t.Notes, fmt.Sprintf("%s, %s, seed %d: %s.", r.Scheme, r.Notifier, r.Seed, strings.ReplaceAll(text, " us", " µs")))
			}
		}
		v.Tables = append(v.Tables, t)
	}
	return v
}

// fabricFacts describes the fabrics and the extent of the results.
func fabricFacts(rs []*Result) []string {
	var out []string
	for _, r := range rs {
		f, err := fabric.New(r.Fabric)
		if err != nil {
			continue
		}
		s := f.Spec()
		text := fmt.Sprintf("%s: %d hosts, %d switches (%d ToR, %d agg, %d core)", s.Kind, f.Hosts(), f.Switches(), f.ToRs(), f.Aggs(), f.Cores())
		if !f.ThreeTier() {
			text = fmt.Sprintf("%s: %d hosts, %d ToRs, %d spines", s.Kind, f.Hosts(), f.ToRs(), f.Cores())
		}
		text += fmt.Sprintf(", links %v, %v", s.HostLink.Rate, s.HostLink.Delay)
		if s.ToRUplink != s.HostLink {
			text += fmt.Sprintf(", ToR uplinks %v, %v", s.ToRUplink.Rate, s.ToRUplink.Delay)
		}
		text = strings.ReplaceAll(text, "us", "µs")
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	var hops, events uint64
	for _, r := range rs {
		hops, events = hops+r.PacketHops, events+r.SimEvents
	}
	if len(rs) > 0 {
		out = append(out, fmt.Sprintf("%s, %s packets across links, %s events", pluralText(len(rs), "run"), largeCount(hops), largeCount(events)))
	}
	return out
}

// largeCount prints a large count: "12.3 M".
func largeCount(n uint64) string {
	switch {
	case n >= 1e9:
		return fourDigits(float64(n)/1e9) + " G"
	case n >= 1e6:
		return fourDigits(float64(n)/1e6) + " M"
	case n >= 1e4:
		return fourDigits(float64(n)/1e3) + " k"
	}
	return strconv.FormatUint(n, 10)
}
