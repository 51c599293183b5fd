package docstest

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// demoCase is a row of the README's table and a group of its picture.
type demoCase struct {
	text, short string
	collective  string
	failure     string
	notifier    string
}

var demoCases = []demoCase{
	{"all-to-all, healthy", "all-to-all healthy", "all-to-all", "healthy", "none"},
	{"... ToR uplink cut at 20 us, the switch notifies hosts (quench)", "all-to-all quench", "all-to-all", "tor0-agg0 cut", "quench"},
	{"... the controller notifies hosts (gNMI)", "all-to-all gNMI", "all-to-all", "tor0-agg0 cut", "gnmi"},
	{"... nobody notifies hosts (time-out)", "all-to-all time-out", "all-to-all", "tor0-agg0 cut", "timeout"},
	{"halving-doubling all-reduce, healthy", "all-reduce healthy", "all-reduce/halving-doubling", "healthy", "none"},
	{"... ToR uplink cut at 20 us, quench", "all-reduce quench", "all-reduce/halving-doubling", "tor0-agg0 cut", "quench"},
	{"... gNMI", "all-reduce gNMI", "all-reduce/halving-doubling", "tor0-agg0 cut", "gnmi"},
	{"... time-out", "all-reduce time-out", "all-reduce/halving-doubling", "tor0-agg0 cut", "timeout"},
}

func (c demoCase) of(rs []*report.Result, scheme string) []*report.Result {
	return slices.DeleteFunc(slices.Clone(rs), func(r *report.Result) bool {
		return r.Collective != c.collective || r.Failure != c.failure || r.Notifier != c.notifier || r.Scheme != scheme
	})
}

// microRange prints the range of a measure in whole microseconds; DNF if a run did not finish.
func microRange(rs []*report.Result, get func(*report.Result) *float64) string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range rs {
		v := get(r)
		if v == nil {
			return "over " + strconv.FormatFloat(r.EndTime/1000, 'f', -1, 64) + " ms"
		}
		low, high = min(low, *v), max(high, *v)
	}
	a, b := fmt.Sprintf("%.0f", low), fmt.Sprintf("%.0f", high)
	if a == b {
		return a + " us"
	}
	return a + "-" + b + " us"
}

func cct(r *report.Result) *float64   { return r.CCT }
func bound(r *report.Result) *float64 { return r.Bound }

// demoTable is the README's table.
func demoTable(rs []*report.Result) string {
	var b strings.Builder
	b.WriteString("| 16 MB, k=4 fat-tree, 400 Gb/s; ten seeds | Ethereal | ECMP | lower bound |\n|---|---|---|---|\n")
	for _, c := range demoCases {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.text, microRange(c.of(rs, "ethereal"), cct), microRange(c.of(rs, "ecmp"), cct),
			microRange(c.of(rs, "ethereal"), bound))
	}
	return b.String()
}

// demoPicture is the README's picture: completion times over the bound, by case.
func demoPicture(rs []*report.Result) string {
	chart := report.Chart{Title: "What make demo shows: completion time over the lower bound, ten seeds", YLabel: "CCT / bound"}
	for _, c := range demoCases {
		chart.Groups = append(chart.Groups, c.short)
	}
	for _, scheme := range []string{"ethereal", "ecmp"} {
		s := report.Series{Name: scheme}
		for i, c := range demoCases {
			p := report.Point{X: float64(i), Low: math.Inf(1)}
			of := c.of(rs, scheme)
			for _, r := range of {
				x, ok := r.Slowdown()
				p.Missing = p.Missing || !ok
				p.Y, p.Low, p.High = p.Y+x/float64(len(of)), min(p.Low, x), max(p.High, x)
			}
			s.Points = append(s.Points, p)
		}
		chart.Series = append(chart.Series, s)
	}
	return chart.SVG()
}

// TestReadmeFigures: the README's table and picture are those of docs/evaluation/readme.jsonl. That its runs come out
// so today TestCommands sees, which has the demo run.
func TestReadmeFigures(t *testing.T) {
	rs := results(t, "evaluation/readme.jsonl")
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- figures of docs/evaluation/readme.jsonl -->\n", "<!-- end -->"
	before, rest, ok1 := strings.Cut(string(text), begin)
	was, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("README.md has no %q and %q around its table", begin, end)
	}
	picture, err := os.ReadFile("demo.svg")
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile("../README.md", []byte(before+begin+demoTable(rs)+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("demo.svg", []byte(demoPicture(rs)), 0o644); err != nil {
			t.Fatal(err)
		}
	} else {
		if was != demoTable(rs) {
			t.Errorf("README.md's table is not that of the results; go test ./internal/docstest -run TestReadmeFigures -rewrite")
		}
		if string(picture) != demoPicture(rs) {
			t.Errorf("demo.svg is not the picture of the results; go test ./internal/docstest -run TestReadmeFigures -rewrite")
		}
	}
}

// demoAsKept: the demo's runs, in a file that a command has written today, are those of the first seed in
// docs/evaluation/readme.jsonl, to every event.
func demoAsKept(t *testing.T, today string) {
	t.Helper()
	kept := map[string]string{}
	for _, r := range results(t, "evaluation/readme.jsonl") {
		kept[runName(r.Scenario, r.Failure, r.Collective, r.Bytes, r.Notifier, r.Scheme, r.Seed, nil)] = r.EventsSHA256
	}
	rs := results(t, today)
	for _, r := range rs {
		name := runName(r.Scenario, r.Failure, r.Collective, r.Bytes, r.Notifier, r.Scheme, r.Seed, nil)
		if kept[name] != r.EventsSHA256 {
			t.Errorf("%s came out differently: bin/ethereal bench testbed/sweeps/readme.yaml --out docs/evaluation/readme.jsonl", name)
		}
	}
	if len(rs) < 16 {
		t.Errorf("the demo has %d runs", len(rs))
	}
}
