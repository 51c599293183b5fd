package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// SeveralSeeds reports whether results are of more than one seed.
func SeveralSeeds(rs []*Result) bool {
	return slices.ContainsFunc(rs, func(r *Result) bool { return r.Seed != rs[0].Seed })
}

// Summary writes a table of any set of results: one section per set that differs only in the scheme, with one line
// per scheme: the median and the range over seeds, the multiple of the lower bound, and the multiple of the first
// scheme's median.
func Summary(w io.Writer, rs []*Result) error {
	var out bytes.Buffer
	rs = byFabric(Distinct(rs))
	if len(rs) == 0 {
		out.WriteString("no results\n")
	}
	order := distinctValues(rs, func(r *Result) string { return r.Scheme })
	out.WriteString(opponentsHeading(rs))
	for i, g := range groups(rs, summarySection) {
		if i > 0 {
			out.WriteByte('\n')
		}
		unit := unitOf(g)
		fmt.Fprintf(&out, "%s, %s", g[0].title(), g[0].commonProperties())
		if text := boundsText(g, unit); text != "" {
			fmt.Fprintf(&out, "  (%s)", text)
		}
		out.WriteByte('\n')
		t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "scheme\tseeds\tmedian %s\tmin\tmax\tx bound\tx first\tQPs\ttime-outs\tretx\t\n", unit.name)
		var first float64
		for _, s := range byScheme(g, order) {
			c, x := spreadOf(s, completionTime), spreadOf(s, slowdownOf)
			cells := []string{"", "", "", "", ""}
			if c.n > 0 {
				if first == 0 {
					first = c.median
				}
				cells = []string{
					fourDigits(c.median / unit.micros), fourDigits(c.min / unit.micros), fourDigits(c.max / unit.micros), fixedDecimals(x.median, x.n), fixedDecimals(c.median/first, c.n),
				}
			}
			if missing := (schemeRow{results: s}).incomplete(); missing != "" {
				cells[0] = strings.TrimSpace(cells[0] + " (" + missing + ")")
			}
			qps := spreadOf(s, func(r *Result) (float64, bool) { return float64(r.QPsPerHostMax), true })
			timeouts := spreadOf(s, func(r *Result) (float64, bool) { return float64(r.Timeouts), true })
			resent := spreadOf(s, func(r *Result) (float64, bool) { return float64(r.Retransmissions), true })
			fmt.Fprintf(t, "%s\t%d\t%s\t%.0f\t%s\t%s\t\n", s[0].Scheme, len(s), strings.Join(cells, "\t"), qps.max,
				fourDigits(timeouts.mean), strconv.FormatFloat(resent.mean, 'f', 0, 64))
		}
		if err := t.Flush(); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	overTime(&out, rs)
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// summarySection is the common key of a summary's section.
func summarySection(r *Result) string { return r.operation() + "\x00" + r.commonProperties() }

// Sections returns how many sections a summary of the results has.
func Sections(rs []*Result) int { return len(groups(Distinct(rs), summarySection)) }

func fixedDecimals(v float64, n int) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// CSV writes one line per result, for other programs' tables.
func CSV(w io.Writer, rs []*Result) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"scenario", "fabric", "failure", "notifier", "collective", "bytes", "variant", "scheme", "seed", "cct_us", "bound_us",
		"qps_per_host_max", "timeouts", "retransmissions", "lost_to_failure", "drops", "ecn_marked", "end", "version", "run_sha256", "failure_us", "healthy_us", "failure_after_end",
		"step_bound_us", "flows", "fct_p50_us", "fct_p99_us", "fct_max_us", "slowdown_p50", "slowdown_p99", "slowdown_max", "bus_gb_per_s",
		"flips", "quenches", "last_flip_us", "uplink_bytes_max", "uplink_bytes_mean"}}
	for _, r := range Distinct(rs) {
		rows = append(rows, append([]string{r.Scenario, r.fabricName(), r.Failure, r.Notifier, r.Collective, strconv.FormatInt(r.Bytes, 10), r.variantText(""), r.Scheme,
			strconv.FormatUint(r.Seed, 10), csvNumber(r.CCT), csvNumber(r.Bound), strconv.Itoa(r.QPsPerHostMax),
			strconv.FormatInt(r.Timeouts, 10), strconv.FormatInt(r.Retransmissions, 10), strconv.FormatInt(r.LostToFailure, 10),
			strconv.FormatInt(r.Drops, 10), strconv.FormatInt(r.Marked, 10), string(r.End), r.Version, r.RunSHA256},
			slices.Concat(r.csvFailure(), []string{csvNumber(r.StepBound)}, r.csvFlows(), []string{
				csvNumber(r.BusBandwidth), strconv.Itoa(r.Flips), strconv.FormatInt(r.Quenches, 10), csvNumber(r.LastFlip),
				strconv.FormatInt(r.UplinkBytesMax, 10), csvNumber(&r.UplinkBytesMean),
			})...))
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// csvFailure returns the cells about the first failure's time.
func (r *Result) csvFailure() []string {
	f := r.FirstFailure
	if f == nil {
		return []string{"", "", ""}
	}
	return []string{csvNumber(&f.Time), csvNumber(f.Healthy), strconv.FormatBool(f.AfterEnd)}
}

func csvNumber(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}
