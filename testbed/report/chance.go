package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/perf/benchmath"
)

// writeChance writes, for runs that differ in their seeds alone, whether their completion times before and after differ
// by more than chance: the Mann-Whitney U test, which assumes no distribution. It takes four and more finished runs of
// each side.
func writeChance(w io.Writer, before, after []*Result) error {
	const least = 4 // with fewer no order of the values is improbable enough
	seeds := func(rs []*Result) (keys []string, first map[string]*Result, ccts map[string][]float64) {
		first, ccts = map[string]*Result{}, map[string][]float64{}
		for _, r := range rs {
			key := r.runKey()
			key = key[:strings.LastIndexByte(key, 0)]
			if first[key] == nil {
				keys, first[key] = append(keys, key), r
			}
			if r.CCT != nil {
				ccts[key] = append(ccts[key], *r.CCT)
			}
		}
		return keys, first, ccts
	}
	_, _, was := seeds(before)
	keys, first, is := seeds(after)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := false
	for _, key := range keys {
		if len(was[key]) < least || len(is[key]) < least || slices.Equal(was[key], is[key]) {
			continue
		}
		if !head {
			head = true
			fmt.Fprintln(t, "median CCT us before\tafter\tby more than chance\truns") //nolint:errcheck // Flush says
		}
		a := benchmath.NewSample(slices.Clone(was[key]), &benchmath.DefaultThresholds)
		b := benchmath.NewSample(slices.Clone(is[key]), &benchmath.DefaultThresholds)
		c := benchmath.AssumeNothing.Compare(a, b)
		verdict := "no"
		if c.P <= c.Alpha {
			verdict = "yes"
		}
		median := func(s *benchmath.Sample) float64 { return benchmath.AssumeNothing.Summary(s, 0.95).Center }
		r := first[key]
		fmt.Fprintf(t, "%.1f\t%.1f\t%s (p=%.3f n=%d+%d)\t%s\n", median(a), median(b), verdict, c.P, //nolint:errcheck // Flush says
			len(was[key]), len(is[key]), strings.Replace(r.String(), fmt.Sprintf(", seed %d", r.Seed), "", 1))
	}
	return t.Flush()
}
