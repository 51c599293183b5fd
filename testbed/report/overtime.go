package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// failureTimes returns groups of results that differ only in the first failure's time, the scheme and the seed. A
// group has at least three times.
func failureTimes(rs []*Result) [][]*Result {
	failed := slices.DeleteFunc(slices.Clone(rs), func(r *Result) bool { return r.FirstFailure == nil })
	all := groups(failed, func(r *Result) string {
		return strings.Join([]string{r.Scenario, r.FirstFailure.Case, r.Notifier, r.operation(), r.variantText("")}, "\x00")
	})
	return slices.DeleteFunc(all, func(g []*Result) bool { return len(distinctValues(g, func(r *Result) string { return r.Failure })) < 3 })
}

// failurePoint returns the first failure's position on a group's axis: in percent of the healthy run if all know
// that, otherwise in us.
func failurePoint(rs []*Result) (label string, at func(*Result) (float64, bool)) {
	for _, r := range rs {
		if r.FirstFailure.Healthy == nil {
			return "time of the failure, us", func(r *Result) (float64, bool) { return r.FirstFailure.Time, true }
		}
	}
	return "time of the failure, % of the healthy run", func(r *Result) (float64, bool) {
		return 100 * r.FirstFailure.Time / *r.FirstFailure.Healthy, true
	}
}

// overHealthy is a measure for spreadOf: CCT over the healthy run's CCT. A run that was complete before the failure
// has none.
func overHealthy(r *Result) (float64, bool) {
	f := r.FirstFailure
	if r.CCT == nil || r.late() || f.Healthy == nil {
		return 0, false
	}
	return *r.CCT / *f.Healthy, true
}

// overTime draws CCT over the failure's time.
func (c *chartMaker) overTime(rs []*Result) {
	label, at := failurePoint(rs)
	measure, y := overHealthy, "CCT / healthy"
	if !strings.Contains(label, "%") {
		measure, y = func(r *Result) (float64, bool) { v, ok := completionTime(r); return v, ok && !r.late() }, "CCT, us"
	}
	// The healthy runs of different seeds differ in duration: points with the same name are one.
	x := func(r *Result) (float64, bool) {
		of := slices.DeleteFunc(slices.Clone(rs), func(o *Result) bool { return o.Failure != r.Failure || o.Scheme != r.Scheme })
		return spreadOf(of, at).mean, true
	}
	what := rs[0].operation() + ", " + rs[0].caseCircumstances()
	chart := Chart{
		Name: "failure-time-" + slugOf(what), Title: "CCT over the time of the failure: " + what, XLabel: label, YLabel: y,
		Series: c.series(rs, x, measure),
	}
	if len(chart.Series) > 0 {
		c.out = append(c.out, chart)
	}
}

// caseCircumstances is circumstances without the failure's time.
func (r *Result) caseCircumstances() string {
	c := *r
	c.Failure = r.FirstFailure.Case
	return c.commonProperties()
}

// overTime writes, for each set of results that differ in the failure's time, one line per time and one column per
// scheme: the mean CCT over seeds, and the number of runs that did not finish or were complete before.
func overTime(w io.Writer, rs []*Result) {
	for _, g := range failureTimes(rs) {
		label, at := failurePoint(g)
		schemes := distinctValues(g, func(r *Result) string { return r.Scheme })
		fmt.Fprintf(w, "\nCCT, us, over the %s: %s, %s\n", label, g[0].operation(), g[0].caseCircumstances()) //nolint:errcheck // a buffer
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "at\t%s\t\n", strings.Join(schemes, "\t")) //nolint:errcheck // a buffer
		for _, point := range groups(g, func(r *Result) string { return r.Failure }) {
			cells := []string{fmt.Sprintf("%.1f", spreadOf(point, at).mean)}
			for _, s := range schemes {
				of := slices.DeleteFunc(slices.Clone(point), func(r *Result) bool { return r.Scheme != s })
				cells = append(cells, timeCell(of))
			}
			fmt.Fprintf(t, "%s\t\n", strings.Join(cells, "\t")) //nolint:errcheck // a buffer
		}
		t.Flush() //nolint:errcheck // a buffer
	}
}

// timeCell returns the mean CCT of a scheme's runs, or why there is none.
func timeCell(rs []*Result) string {
	lateOnes := slices.DeleteFunc(slices.Clone(rs), func(r *Result) bool { return !r.late() })
	m := spreadOf(rs, func(r *Result) (float64, bool) { v, ok := completionTime(r); return v, ok && !r.late() })
	var parts []string
	if m.n > 0 {
		parts = append(parts, fmt.Sprintf("%.1f", m.mean))
	}
	for _, c := range []struct {
		n    int
		word string
	}{{len(rs) - m.n - len(lateOnes), dnfText}, {len(lateOnes), lateText}} {
		switch {
		case c.n == 0:
		case len(rs) == 1:
			parts = append(parts, c.word)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.word))
		}
	}
	return strings.Join(parts, ", ")
}
