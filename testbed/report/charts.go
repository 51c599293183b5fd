package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Charts returns the pictures for which a set of results has enough data: completion times as bars, over the size
// and over the keys that a sweep varied, mean queues over the size, and the distributions of link loads and queues.
// Schemes have the same colour in all.
func Charts(rs []*Result) []Chart {
	rs = byFabric(Distinct(rs))
	order := distinctValues(rs, func(r *Result) string { return r.Scheme })
	c := chartMaker{order: order}
	for _, g := range groups(rs, func(r *Result) string {
		return r.Scenario + "\x00" + r.Failure + "\x00" + r.Notifier + "\x00" + r.variantText("")
	}) {
		c.bars(g)
		for _, op := range groups(g, func(r *Result) string { return r.Collective }) {
			c.overSize(op)
		}
		for _, op := range groups(g, (*Result).operation) {
			c.distribution(op, "uplink load", "part of the capacity of a ToR uplink", func(r *Result) []float64 { return r.UplinkLoads })
			c.distribution(op, "mean queue", "mean bytes waiting at a switch port", func(r *Result) []float64 { return r.QueueMean })
			c.distribution(op, "longest queue", "most bytes waiting at a switch port", func(r *Result) []float64 { return r.QueueMax })
		}
	}
	for _, g := range failureTimes(rs) {
		c.overTime(g)
	}
	for _, key := range variedKeys(rs) {
		for _, g := range groups(rs, func(r *Result) string {
			return r.Scenario + "\x00" + r.Failure + "\x00" + r.Notifier + "\x00" + r.operation() + "\x00" + r.variantText(key)
		}) {
			c.overKey(g, key)
		}
	}
	return c.out
}

// chartMaker makes charts with the schemes in the order of the whole set.
type chartMaker struct {
	order []string // of the schemes
	out   []Chart
}

// commonProperties returns the common properties of a group of results.
func (r *Result) commonProperties() string {
	parts := []string{r.Scenario, r.Failure}
	if r.Notifier != "none" && r.Notifier != "" {
		parts = append(parts, r.Notifier)
	}
	if v := r.variantText(""); v != "" {
		parts = append(parts, v)
	}
	return strings.Join(parts, ", ")
}

// ShortKey returns the part after the list of a varied key's path: detection for failures[1].events[*].detection.
// The failure or scheme has its name beside it.
func ShortKey(path string) string {
	return strings.TrimPrefix(path[strings.LastIndex(path, "].")+1:], ".")
}

// variantText returns the varied values, except the collective, its size and the key left out.
func (r *Result) variantText(without string) string {
	var parts []string
	for k, v := range r.Variant {
		if k != without && !strings.HasPrefix(k, "collectives") {
			parts = append(parts, ShortKey(k)+"="+v)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// groups splits results by a key, in order of first appearance.
func groups(rs []*Result, key func(*Result) string) [][]*Result {
	var out [][]*Result
	index := map[string]int{}
	for _, r := range rs {
		k := key(r)
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], r)
	}
	return out
}

// Distinct removes earlier results of the same run: the last one counts. Results without a hash are all kept.
func Distinct(rs []*Result) []*Result {
	last := map[string]int{}
	for i, r := range rs {
		if r.RunSHA256 != "" {
			last[r.RunSHA256] = i
		}
	}
	var out []*Result
	for i, r := range rs {
		if r.RunSHA256 == "" || last[r.RunSHA256] == i {
			out = append(out, r)
		}
	}
	return out
}

// byScheme splits results by scheme, the schemes in the order given.
func byScheme(rs []*Result, order []string) [][]*Result {
	out := groups(rs, func(r *Result) string { return r.Scheme })
	slices.SortStableFunc(out, func(a, b []*Result) int {
		return cmp.Compare(slices.Index(order, a[0].Scheme), slices.Index(order, b[0].Scheme))
	})
	return out
}

// slowdownOf is a measure for spreadOf.
func slowdownOf(r *Result) (float64, bool) { return r.Slowdown() }

// series makes a series per scheme, of the mean of a measure at each x.
func (c *chartMaker) series(rs []*Result, x, measure func(*Result) (float64, bool)) []Series {
	var out []Series
	for _, of := range byScheme(rs, c.order) {
		s := Series{Name: of[0].Scheme}
		for _, at := range groups(of, func(r *Result) string { v, _ := x(r); return fmt.Sprint(v) }) {
			v, ok := x(at[0])
			m := spreadOf(at, measure)
			if ok && m.n == len(at) {
				s.Points = append(s.Points, Point{X: v, Y: m.mean, Low: m.min, High: m.max})
			}
		}
		slices.SortFunc(s.Points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
		if len(s.Points) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// bars makes one chart of all collectives of a group.
func (c *chartMaker) bars(rs []*Result) {
	ops := distinctValues(rs, (*Result).operation)
	const most = 8 // groups that a picture can show legibly
	for start := 0; start < len(ops); start += most {
		part := ops[start:min(start+most, len(ops))]
		chart := Chart{
			Title: "CCT over the lower bound: " + rs[0].commonProperties(), YLabel: "CCT / bound", Name: "cct-" + slugOf(rs[0].commonProperties()),
		}
		if start > 0 {
			chart.Name += "-" + strconv.Itoa(start/most+1)
		}
		largest, least := 0.0, 1e300
		for _, op := range part {
			chart.Groups = append(chart.Groups, shortOperation(op))
		}
		for _, of := range byScheme(rs, c.order) {
			s := Series{Name: of[0].Scheme}
			for _, at := range groups(of, (*Result).operation) {
				g := slices.Index(part, at[0].operation())
				if g < 0 {
					continue
				}
				m := spreadOf(at, slowdownOf)
				p := Point{X: float64(g), Y: m.mean, Low: m.min, High: m.max, Missing: m.n < len(at)}
				if !p.Missing {
					largest, least = max(largest, p.Y), min(least, p.Y)
				}
				s.Points = append(s.Points, p)
			}
			if len(s.Points) > 0 {
				chart.Series = append(chart.Series, s)
			}
		}
		chart.LogY = largest > 20*least
		if len(chart.Series) > 0 {
			c.out = append(c.out, chart)
		}
	}
}

// shortOperation returns a name that fits under a group of bars.
func shortOperation(op string) string {
	op = strings.TrimPrefix(op, "all-reduce/")
	return strings.NewReplacer("halving-doubling", "halving-d.", "whole-vector-doubling", "whole vectors", "double-binary-tree", "d. bin. tree").Replace(op)
}

func (c *chartMaker) overSize(rs []*Result) {
	if len(distinctValues(rs, func(r *Result) string { return strconv.FormatInt(r.Bytes, 10) })) < 3 {
		return
	}
	size := func(r *Result) (float64, bool) { return float64(r.Bytes) / 1e6, true }
	c.line(rs, "size", "size, MB", true, size)
	c.queueOverSize(rs, size)
}

// meanQueue is a measure for spreadOf: the mean queue over all ports of switches and the run, in kB. It has no
// value for empty queues, because the axis has no zero.
func meanQueue(r *Result) (float64, bool) {
	q := r.QueueMean
	if len(q) < 2 {
		return 0, false
	}
	sum := -(q[0] + q[len(q)-1]) / 2 // equal steps between quantiles: the trapezoid rule
	for _, v := range q {
		sum += v
	}
	mean := sum / float64(len(q)-1) / 1e3
	return mean, mean > 0
}

// queueOverSize charts queues over sizes: slope 1 means proportional.
func (c *chartMaker) queueOverSize(rs []*Result, size func(*Result) (float64, bool)) {
	s := c.series(rs, size, meanQueue)
	if len(s) > 0 {
		c.out = append(c.out, Chart{
			Name:  "queue-size-" + slugOf(rs[0].Collective+" "+rs[0].commonProperties()),
			Title: "Mean queue of a switch port: " + rs[0].Collective + ", " + rs[0].commonProperties(), XLabel: "size, MB", YLabel: "kB",
			Series: s, LogX: true, LogY: true,
		})
	}
}

// variedKeys returns the keys for which a sweep varied numbers.
func variedKeys(rs []*Result) []string {
	values := map[string]map[string]bool{}
	for _, r := range rs {
		for k, v := range r.Variant {
			if _, ok := parseQuantity(v); !ok || strings.HasPrefix(k, "collectives") {
				continue
			}
			if values[k] == nil {
				values[k] = map[string]bool{}
			}
			values[k][v] = true
		}
	}
	var out []string
	for k, v := range values {
		if len(v) > 2 {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// parseQuantity reads a value: a time in microseconds, a rate in Gb/s, a size in MB,
// or a number.
func parseQuantity(text string) (float64, bool) {
	var t fabric.Time
	if t.UnmarshalText([]byte(text)) == nil {
		return t.Micros(), true
	}
	var r fabric.Rate
	if r.UnmarshalText([]byte(text)) == nil {
		return float64(r) / float64(fabric.Gbps), true
	}
	if v, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64); err == nil {
		return v, true
	}
	var b fabric.Bytes
	if b.UnmarshalText([]byte(text)) == nil {
		return float64(b) / 1e6, true
	}
	return 0, false
}

func (c *chartMaker) overKey(rs []*Result, key string) {
	if len(distinctValues(rs, func(r *Result) string { return r.Variant[key] })) < 3 {
		return
	}
	parts := strings.Split(key, ".")
	name := parts[len(parts)-1]
	unit := ""
	var t fabric.Time
	if t.UnmarshalText([]byte(rs[0].Variant[key])) == nil {
		unit = ", µs"
	}
	// A logarithmic axis has no zero: it is drawn a decade before the smallest value.
	least := 0.0
	for _, r := range rs {
		if v, ok := parseQuantity(r.Variant[key]); ok && v > 0 && (least == 0 || v < least) {
			least = v
		}
	}
	c.line(rs, name, name+unit+" (the leftmost is 0)", true, func(r *Result) (float64, bool) {
		v, ok := parseQuantity(r.Variant[key])
		return max(v, least/10), ok
	})
}

func (c *chartMaker) line(rs []*Result, name, label string, logX bool, x func(*Result) (float64, bool)) {
	chart := Chart{
		Name: name + "-" + slugOf(rs[0].operation()+" "+rs[0].circumstancesWithout(name)), LogX: logX,
		Title:  "CCT over the lower bound: " + rs[0].operation() + ", " + rs[0].circumstancesWithout(name),
		XLabel: label, YLabel: "CCT / bound", Series: c.series(rs, x, slowdownOf),
	}
	if name == "size" {
		chart.Name = name + "-" + slugOf(rs[0].Collective+" "+rs[0].commonProperties())
		chart.Title = "CCT over the lower bound: " + rs[0].Collective + ", " + rs[0].commonProperties()
	}
	largest, least := 0.0, 1e300
	for _, s := range chart.Series {
		for _, p := range s.Points {
			largest, least = max(largest, p.Y), min(least, p.Y)
		}
	}
	chart.LogY = largest > 20*least
	if len(chart.Series) > 0 {
		c.out = append(c.out, chart)
	}
}

// circumstancesWithout omits the variants whose last key is name.
func (r *Result) circumstancesWithout(name string) string {
	c := *r
	c.Variant = map[string]string{}
	for k, v := range r.Variant {
		if !strings.HasSuffix(k, name) {
			c.Variant[k] = v
		}
	}
	return c.commonProperties()
}

// distribution draws, per scheme, the share of links or ports up to each value: the mean of the quantiles over
// seeds.
func (c *chartMaker) distribution(rs []*Result, name, label string, get func(*Result) []float64) {
	chart := Chart{
		Name:  strings.ReplaceAll(name, " ", "-") + "-" + slugOf(rs[0].operation()+" "+rs[0].commonProperties()),
		Title: strings.ToUpper(name[:1]) + name[1:] + ": " + rs[0].operation() + ", " + rs[0].commonProperties(), XLabel: label, YLabel: "part of all",
	}
	for _, of := range byScheme(rs, c.order) {
		s := Series{Name: of[0].Scheme}
		n := len(get(of[0]))
		if n < 2 {
			continue
		}
		for i := range n {
			sum, seeds := 0.0, 0
			for _, r := range of {
				if q := get(r); len(q) == n {
					sum, seeds = sum+q[i], seeds+1
				}
			}
			v := sum / float64(seeds)
			s.Points = append(s.Points, Point{X: v, Y: float64(i) / float64(n-1)})
		}
		chart.Series = append(chart.Series, s)
	}
	if len(chart.Series) > 0 {
		c.out = append(c.out, chart)
	}
}

// slugOf keeps letters, digits and single dashes.
func slugOf(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.TrimSuffix(b.String(), "-")
}
