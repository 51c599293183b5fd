package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
)

// Compare writes the differences between two sets of results, for runs that both have: the number of runs that are
// the same to every event, and the others with both completion times, the largest change first; then whether seeds
// alone explain the difference. If they have no run in common, it writes nothing and returns false. names are the sets'
// names.
func Compare(w io.Writer, before, after []*Result, names [2]string) (bool, error) {
	before, after = byFabric(Distinct(before)), byFabric(Distinct(after))
	earlier := map[string]*Result{}
	for _, r := range before {
		earlier[r.runKey()] = r
	}
	var changed []changedRun
	var common, same int
	for _, r := range after {
		was, ok := earlier[r.runKey()]
		if !ok {
			continue
		}
		common++
		delete(earlier, r.runKey())
		if was.EventsSHA256 != "" && was.EventsSHA256 == r.EventsSHA256 {
			same++
			continue
		}
		changed = append(changed, changedRun{was, r})
	}
	if common == 0 {
		return false, nil
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s in both files; %d the same to every event, %d not; %d only in %s, %d only in %s\n", pluralText(common, "run"), same, len(changed),
		len(earlier), names[0], len(after)-common, names[1])
	slices.SortStableFunc(changed, func(a, b changedRun) int { return -cmp.Compare(a.size(), b.size()) })
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	if len(changed) > 0 {
		fmt.Fprintln(t, "CCT us before\tafter\tratio\ttime-outs\tlost\trun")
	}
	for _, c := range changed {
		ratio := missingText
		if c.before.CCT != nil && c.after.CCT != nil {
			ratio = strconv.FormatFloat(*c.after.CCT / *c.before.CCT, 'f', 3, 64)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", completionText(c.before), completionText(c.after), ratio, changeArrow(c.before.Timeouts, c.after.Timeouts),
			changeArrow(c.before.LostToFailure, c.after.LostToFailure), c.after)
	}
	if err := t.Flush(); err != nil {
		return true, fmt.Errorf("report: %w", err)
	}
	if err := writeChance(&out, before, after); err != nil {
		return true, fmt.Errorf("report: %w", err)
	}
	if before[0].Version != after[0].Version {
		fmt.Fprintf(&out, "built from %s and %s\n", before[0].Version, after[0].Version)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return true, fmt.Errorf("report: %w", err)
	}
	return true, nil
}

// changedRun is a run whose results differ.
type changedRun struct{ before, after *Result }

// size returns the change as the logarithm of a ratio; infinite if one of the two did not finish.
func (c changedRun) size() float64 {
	switch {
	case (c.before.CCT == nil) != (c.after.CCT == nil):
		return math.Inf(1)
	case c.before.CCT == nil:
		return 0
	}
	return math.Abs(math.Log(*c.after.CCT / *c.before.CCT))
}

// runKey identifies a run of a set by what was simulated, not by the scenario's text.
func (r *Result) runKey() string {
	return r.fabricName() + "\x00" + r.operation() + "\x00" + r.commonProperties() + "\x00" + r.Notifier + "\x00" + r.Scheme + "\x00" + strconv.FormatUint(r.Seed, 10)
}

func changeArrow(from, to int64) string {
	if from == to {
		return strconv.FormatInt(to, 10)
	}
	return fmt.Sprintf("%d -> %d", from, to)
}
