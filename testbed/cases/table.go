package cases

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// within are the ratios whose shares the table shows.
func ratios() []float64 { return []float64{1.05, 1.15, 1.3, 2} }

// worstListed is the number of worst cases in a list.
const worstListed = 10

// classSummary is the summary of a class.
type classSummary struct {
	cases, compared     int
	within              []int // by [ratios]
	worst               float64
	timedOut, timeouts  int64
	unfinished, errors  int
	flipping, flips     int   // healthy runs that drop nothing
	clean               int   // healthy runs that drop nothing
	resent              int64 // retransmissions of these
	behind5, behind10   int
	opposed, afterwards int
}

func summarize(rs []*Record) classSummary {
	w := classSummary{cases: len(rs), within: make([]int, len(ratios()))}
	for _, r := range rs {
		s := r.Subject()
		if r.Error != "" || s == nil {
			w.errors++
			continue
		}
		if h := r.Healthy; h != nil && h.Drops+h.Lost == 0 {
			w.clean++
			w.flips += h.flips()
			w.resent += h.Retransmissions
			if h.flips() > 0 || h.Retransmissions > 0 {
				w.flipping++
			}
		}
		if s.AfterEnd {
			w.afterwards++
			continue
		}
		if s.CCT == nil {
			w.unfinished++
		}
		if s.Timeouts > 0 {
			w.timedOut++
			w.timeouts += s.Timeouts
		}
		if s.bound() != nil {
			w.compared++
		}
		if ratio, ok := r.Ratio(); ok {
			w.worst = max(w.worst, ratio)
			for i, limit := range ratios() {
				if ratio <= limit {
					w.within[i]++
				}
			}
		}
		if ratio, ok := r.Behind(); ok {
			w.opposed++
			if ratio > maxRatioHealthy {
				w.behind5++
			}
			if ratio > maxRatioFailed {
				w.behind10++
			}
		}
	}
	return w
}

// cells returns the row's cells, in the order of headings.
func (w classSummary) cells() []string {
	out := []string{fmt.Sprint(w.cases)}
	for _, n := range w.within {
		out = append(out, percent(n, w.compared))
	}
	of := func(n, all int) string { return fmt.Sprintf("%d/%d", n, all) }
	return append(out, fmt.Sprintf("%.2f", w.worst),
		fmt.Sprint(w.timedOut), fmt.Sprint(w.timeouts), fmt.Sprint(w.unfinished),
		of(w.flipping, w.clean), fmt.Sprint(w.flips), fmt.Sprint(w.resent),
		of(w.behind5, w.opposed), of(w.behind10, w.opposed), fmt.Sprint(w.afterwards), fmt.Sprint(w.errors))
}

func headings() []string {
	return []string{"class", "cases", "<=1.05", "<=1.15", "<=1.3", "<=2", "worst", "timed out", "time-outs", "unfinished",
		"false alarms", "flips", "retx", ">5% behind", ">10%", "after end", "errors"}
}

func percent(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", (200*n+of)/(2*of))
}

// legend explains the columns.
const legend = `<=1.05 to worst: completion time of Ethereal over max(step bound, healthy completion + allowance), of
cases whose failure comes before the end; healthy: over the step bound. Allowance: quench the detection, in the next
row with an idle round trip, which a quench and a retransmission take; gnmi 80 us more; late, nobody, flap four idle
round trips. timed out: runs with retransmission time-outs. false alarms, flips,
retx: of the healthy runs that drop nothing, those with flips or retransmissions, and how many of these. behind: than
the fastest fair opponent. drops: a buffer overflowed in one of Ethereal's runs.
`

// Summary writes the table of classes, the violated invariants and the worst cases. With against it compares the
// cases that both have: each cell is against's value, an arrow, and rs's.
func Summary(w io.Writer, rs, against []*Record) error {
	var b strings.Builder
	if against != nil {
		rs, against = commonCases(rs, against)
		fmt.Fprintf(&b, "%d cases in both files; %s -> %s\n", len(rs), programs(against), programs(rs))
	} else {
		fmt.Fprintf(&b, "%d cases; %s\n", len(rs), programs(rs))
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, strings.Join(headings(), "\t")+"\t") //nolint:errcheck // the builder takes all
	row := func(name string, rs, against []*Record) {
		cells := summarize(rs).cells()
		if against != nil {
			for i, was := range summarize(against).cells() {
				if was != cells[i] {
					cells[i] = was + " -> " + cells[i]
				}
			}
		}
		fmt.Fprintln(t, name+"\t"+strings.Join(cells, "\t")+"\t") //nolint:errcheck // the builder takes all
	}
	line := func(name string, keep func(*Record) bool) { row(name, filter(rs, keep), filter(against, keep)) }
	for _, class := range Classes() {
		of := func(r *Record) bool { return r.Class == class }
		if !slices.ContainsFunc(rs, of) {
			continue
		}
		line(string(class), of)
		if class == Quench {
			row("+ round trip", tripLater(filter(rs, of)), tripLater(filter(against, of)))
		}
	}
	line("all", func(*Record) bool { return true })
	line("no drops", func(r *Record) bool { return !r.drops() })
	line("drops", (*Record).drops)
	for _, control := range controls(rs) {
		line(control, func(r *Record) bool { return r.Control == control })
	}
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteString(legend)
	violations(&b, rs, against)
	if against != nil {
		changes(&b, rs, against)
	} else {
		listWorst(&b, rs)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// commonCases returns the records of the cases that both have, in the same order, with the later bound and the earlier
// healthy completion of both, so that both are compared with one reference.
func commonCases(rs, against []*Record) (a, b []*Record) {
	other := map[string]*Record{}
	for _, r := range against {
		other[r.Name] = r
	}
	for _, r := range rs {
		o := other[r.Name]
		if o == nil {
			continue
		}
		r, o := r.clone(), o.clone()
		if x, y := r.Subject(), o.Subject(); x != nil && y != nil && x.bound() != nil && y.bound() != nil {
			bound := max(*x.bound(), *y.bound())
			x.StepBound, y.StepBound = &bound, &bound
		}
		if x, y := r.Healthy, o.Healthy; x != nil && y != nil && x.CCT != nil && y.CCT != nil {
			healthy := min(*x.CCT, *y.CCT)
			r.reference, o.reference = &healthy, &healthy
		}
		a, b = append(a, r), append(b, o)
	}
	return a, b
}

// tripLater returns the records with an idle round trip more allowed.
func tripLater(rs []*Record) []*Record {
	for i, r := range rs {
		rs[i] = r.clone()
		rs[i].Allowed += r.Trip
	}
	return rs
}

func filter(rs []*Record, keep func(*Record) bool) []*Record {
	return slices.DeleteFunc(slices.Clone(rs), func(r *Record) bool { return !keep(r) })
}

func controls(rs []*Record) []string {
	var out []string
	for _, r := range rs {
		if !slices.Contains(out, r.Control) {
			out = append(out, r.Control)
		}
	}
	slices.Sort(out)
	return out
}

func programs(rs []*Record) string {
	var out []string
	for _, r := range rs {
		if !slices.Contains(out, r.Program) {
			out = append(out, r.Program)
		}
	}
	return strings.Join(out, ", ")
}

// violations lists the invariants and how many cases violate each.
func violations(b *strings.Builder, rs, against []*Record) {
	prefix := ""
	if len(rs) > 0 {
		prefix = rs[0].Name[:strings.LastIndex(rs[0].Name, "-")+1]
	}
	count := func(rs []*Record, name string) (n int, first []string) {
		for _, r := range rs {
			if slices.Contains(Violations(r), name) {
				if n++; len(first) < worstListed {
					first = append(first, strings.TrimPrefix(r.Name, prefix))
				}
			}
		}
		return n, first
	}
	b.WriteString("\nviolated invariants:\n")
	for _, i := range Invariants() {
		n, first := count(rs, i.Name)
		was := ""
		if against != nil {
			before, _ := count(against, i.Name)
			was = fmt.Sprintf("%d -> ", before)
		}
		if n > 0 || was != "" {
			listed := ""
			if i.Listed {
				listed = " (listed only)"
			}
			fmt.Fprintf(b, "  %-26s %s%d  %s%s: cases %s\n", i.Name, was, n, i.Meaning, listed, strings.Join(first, " "))
		}
	}
}

// listWorst lists the cases with the largest ratios by class, those farthest behind an opponent, and errors.
func listWorst(b *strings.Builder, rs []*Record) {
	list := func(title string, rs []*Record, ratio func(*Record) (float64, bool)) {
		rs = filter(rs, func(r *Record) bool {
			x, ok := ratio(r)
			return ok && x > 1.05 && !r.Subject().AfterEnd
		})
		slices.SortFunc(rs, func(a, c *Record) int {
			x, _ := ratio(a)
			y, _ := ratio(c)
			return cmp.Or(cmp.Compare(y, x), cmp.Compare(a.Index, c.Index))
		})
		if len(rs) > 0 {
			fmt.Fprintf(b, "\n%s:\n", title)
		}
		for _, r := range rs[:min(worstListed, len(rs))] {
			x, _ := ratio(r)
			fmt.Fprintf(b, "  %6.2f  %s\n", x, r)
		}
	}
	for _, class := range Classes() {
		if class != Healthy {
			these := filter(rs, func(r *Record) bool { return r.Class == class })
			list("worst over the reference, "+string(class), these, (*Record).Ratio)
		}
	}
	list("farthest behind the best opponent", rs, (*Record).Behind)
	for _, r := range rs {
		if s := r.Subject(); r.Error == "" && s != nil && s.CCT == nil {
			fmt.Fprintf(b, "  %s after %s: %s\n", "not finished", s.End, r)
		}
	}
	for _, r := range rs {
		if r.Error != "" {
			fmt.Fprintf(b, "  %s: %s\n", r, r.Error)
		}
	}
}

// changes lists the cases whose completion time changed most.
func changes(b *strings.Builder, rs, against []*Record) {
	type change struct {
		r    *Record
		by   float64
		text string
	}
	var all []change
	for i, r := range rs {
		now, was := r.Subject(), against[i].Subject()
		if now == nil || was == nil {
			continue
		}
		x, y := 1e9, 1e9 // not finished
		if now.CCT != nil {
			x = *now.CCT
		}
		if was.CCT != nil {
			y = *was.CCT
		}
		all = append(all, change{r, x / y, fmt.Sprintf("%.1f -> %.1f us", y, x)})
	}
	slices.SortFunc(all, func(a, c change) int { return cmp.Compare(c.by, a.by) })
	show := func(title string, all []change) {
		fmt.Fprintf(b, "\n%s:\n", title)
		for _, c := range all {
			if c.by > 1.03 || c.by < 1/1.03 {
				fmt.Fprintf(b, "  %6.2f  %s: %s\n", c.by, c.text, c.r)
			}
		}
	}
	show("slower", all[:min(2*worstListed, len(all))])
	slices.Reverse(all)
	show("faster", all[:min(2*worstListed, len(all))])
}

// String returns the case's name for a list.
func (r *Record) String() string {
	text := fmt.Sprintf("%s %s, %s, %s, %s", r.Name, r.Class, r.What, r.Control, r.Collective)
	if s := r.Subject(); s != nil && len(s.Flips) > 0 {
		text += fmt.Sprintf(", flips %v", s.Flips)
	}
	if s := r.Subject(); s != nil && s.Timeouts > 0 {
		text += fmt.Sprintf(", %d time-outs", s.Timeouts)
	}
	return text
}
