package docstest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// TestFairTables: the tables of results/fair.md are those of docs/evaluation/fair.jsonl, and of fair-clouds.jsonl, in
// which SRD and Falcon have their authors' rate controls.
func TestFairTables(t *testing.T) {
	rs := append(results(t, "evaluation/fair.jsonl"), results(t, "evaluation/fair-clouds.jsonl")...)
	for _, c := range []struct{ table, collective string }{
		{"all-to-all", "all-to-all"}, {"halving-doubling", "all-reduce/halving-doubling"},
	} {
		checkTable(t, "results/fair.md", c.table, fairTable(rs, c.collective))
	}
}

// fairTable has a row for each scheme: completion over the bound, healthy, and under failures as published and in the
// fair form. The healthy runs of both forms are equal.
func fairTable(rs []*report.Result, collective string) string {
	columns := []struct {
		text, failure, notifier string
		fair                    bool
	}{
		{"healthy", "healthy", "none", false},
		{"cut: published", "cut", "quench", false}, {"fair", "cut", "quench", true},
		{"gray: published", "gray 1%", "timeout", false}, {"fair", "gray 1%", "timeout", true},
		{"slow: published", "degraded to 25%", "timeout", false}, {"fair", "degraded to 25%", "timeout", true},
	}
	var b strings.Builder
	b.WriteString("| scheme |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.text)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	row := func(name string, is func(r *report.Result, fair bool) bool) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, c := range columns {
			var of []*report.Result
			for _, r := range rs {
				if r.Collective == collective && r.Failure == c.failure && r.Notifier == c.notifier && is(r, c.fair) {
					of = append(of, r)
				}
			}
			fmt.Fprintf(&b, " %s |", overBound(of))
		}
		b.WriteString("\n")
	}
	for _, s := range []string{"ethereal", "spray", "reps", "drb", "jsq", "mrc", "srd", "falcon", "ecmp"} {
		row(s, func(r *report.Result, fair bool) bool {
			name, _, _ := strings.Cut(r.Scheme, "(")
			form := "as-published"
			if fair && s != "ethereal" { // it is the same in either form
				form = "fair"
			}
			return name == s && r.Variant["opponents"] == form
		})
	}
	row("ecmp, converged after 1us", func(r *report.Result, fair bool) bool {
		return fair && r.Scheme == "ecmp(convergence=1us)"
	})
	return b.String()
}

// overBound prints completion over the bound, least and largest.
func overBound(rs []*report.Result) string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range rs {
		x, ok := r.Slowdown()
		if !ok {
			return "over 300 ms"
		}
		low, high = min(low, x), max(high, x)
	}
	if len(rs) == 0 {
		return ""
	}
	print := func(x float64) string {
		if x >= 10 {
			return fmt.Sprintf("%.0f", x)
		}
		return fmt.Sprintf("%.2f", x)
	}
	if a, z := print(low), print(high); a != z {
		return a + "-" + z
	}
	return print(low)
}
