package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table writes the results as aligned text, one section per failure case and collective. Unfinished runs show DNF,
// interrupted ones INT, with the reason below the section.
func Table(w io.Writer, rs []*Result) error {
	var out bytes.Buffer
	rs = distinguishFailures(rs)
	unit := unitOf(rs)
	cols := columns(unit)
	if len(rs) == 0 {
		out.WriteString("no results\n")
	}
	// All sections have the same widths, for comparison by eye.
	width := make([]int, len(cols))
	for i, c := range cols {
		width[i] = max(len(c.head), len(c.unit))
		for _, r := range rs {
			width[i] = max(width[i], utf8.RuneCountInString(c.cell(r)))
		}
	}
	line := func(cell func(c tableColumn) string) {
		var b strings.Builder
		for i, c := range cols {
			text := cell(c)
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(text))
			if i > 0 {
				b.WriteString("  ")
			}
			if c.left {
				b.WriteString(text + pad)
			} else {
				b.WriteString(pad + text)
			}
		}
		out.WriteString("  " + strings.TrimRight(b.String(), " ") + "\n")
	}
	out.WriteString(opponentsHeading(rs))
	for i, s := range sections(rs) {
		if i > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "%s: %s", s.failure, s.results()[0].title())
		if text := boundsText(s.results(), unit); text != "" {
			fmt.Fprintf(&out, "  (%s)", text)
		}
		out.WriteString("\n")
		line(func(c tableColumn) string { return c.head })
		line(func(c tableColumn) string { return c.unit })
		for _, row := range s.rows {
			for _, r := range row.results {
				line(func(c tableColumn) string { return c.cell(r) })
			}
		}
		for _, r := range s.results() {
			if r.CCT == nil || r.late() {
				fmt.Fprintf(&out, "  %s: %s, %s, seed %d: %s\n", tableRemark(r), r.Scheme, r.Notifier, r.Seed, outcomeText(r))
			}
			for _, text := range slices.Concat(stepsTexts(r), flowsTexts(r)) {
				fmt.Fprintf(&out, "  %s, %s, seed %d: %s\n", r.Scheme, r.Notifier, r.Seed, text)
			}
		}
	}
	overTime(&out, rs)
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// tableRemark returns the table's word for the text of [outcomeText].
func tableRemark(r *Result) string {
	if r.late() {
		return lateText
	}
	return completionText(r)
}

// results returns the section's results in the order of its rows.
func (s resultSection) results() []*Result {
	var out []*Result
	for _, w := range s.rows {
		out = append(out, w.results...)
	}
	return out
}

// rangeText prints a spread as one number, or as a range.
func rangeText(s seedSpread, u timeUnit) string {
	least, largest := fourDigits(s.min/u.micros), fourDigits(s.max/u.micros)
	if least != largest {
		return least + " to " + largest + " " + u.name
	}
	return fourDigits(s.mean/u.micros) + " " + u.name
}
