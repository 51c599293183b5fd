package docstest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// silenceDetection is what sweeps/silence.yaml has of it where hosts are notified at once, in microseconds.
const silenceDetection = 10

var silenceCollectives = []string{
	"all-to-all", "all-reduce/ring", "all-reduce/halving-doubling", "all-reduce/double-binary-tree",
}

// TestSilenceTables: the tables of results/failures.md are those of docs/evaluation/silence.jsonl.
func TestSilenceTables(t *testing.T) {
	all := results(t, "evaluation/silence.jsonl")
	rs := slices.DeleteFunc(slices.Clone(all), func(r *report.Result) bool { return strings.HasSuffix(r.Scenario, swift) })
	checkTable(t, "results/failures.md", "failures", silenceTable(rs))
	checkTable(t, "results/failures.md", "late", lateTable(rs))
	checkTable(t, "results/failures.md", "worst", worstTable(rs))
	checkTable(t, "results/failures.md", "rate controls", rateControlTable(all))
}

// swift ends the names of scenarios that have this rate control, and are otherwise as those without.
const swift = ", Swift"

// rateControlTable compares the completion times over the bound of runs under DCTCP and under Swift.
func rateControlTable(rs []*report.Result) string {
	var b strings.Builder
	b.WriteString("| halving-doubling | DCTCP | Swift |\n|---|---|---|\n")
	for _, r := range rs {
		if !strings.HasSuffix(r.Scenario, swift) {
			continue
		}
		i := slices.IndexFunc(rs, func(o *report.Result) bool {
			return o.Scenario+swift == r.Scenario && silenceRow(o) == silenceRow(r) && o.Collective == r.Collective &&
				o.Bytes == r.Bytes && o.Notifier == r.Notifier && o.Seed == r.Seed
		})
		fmt.Fprintf(&b, "| %s, %d MB | %s | %s |\n",
			silenceRow(r), r.Bytes/1_000_000, overBound(rs[i:i+1]), overBound([]*report.Result{r}))
	}
	return b.String()
}

// silenceRun names a run's fabric, collective, size and seed: those of one name differ in what fails.
func silenceRun(r *report.Result) string {
	collective := strings.TrimPrefix(r.Collective, "all-reduce/")
	return fmt.Sprintf("%s, %s, %d MB, seed %d", r.Scenario, collective, r.Bytes/1_000_000, r.Seed)
}

// silenceRow is a run's row: cuts at several times share one, cuts that switches detect late share one, and so do
// notifications by quench and by all mechanisms.
func silenceRow(r *report.Result) string {
	name, _, _ := strings.Cut(r.Failure, " at ")
	if strings.HasPrefix(name, "after ") {
		return "cut, detected after 1 to 100 ms"
	}
	return name
}

// overHealthy returns a run's completion time over the healthy one's and the detection.
func overHealthy(r *report.Result, healthy map[string]float64) float64 {
	if r.CCT == nil {
		return math.Inf(1)
	}
	base := healthy[silenceRun(r)]
	if r.Notifier != "timeout" {
		base += silenceDetection
	}
	return *r.CCT / base
}

func healthyTimes(rs []*report.Result) map[string]float64 {
	healthy := map[string]float64{}
	for _, r := range rs {
		if r.Failure == "healthy" && r.CCT != nil {
			healthy[silenceRun(r)] = *r.CCT
		}
	}
	return healthy
}

// leastPackets is how many packets a run has at least: as if each, data or not, took the longest path.
func leastPackets(r *report.Result) float64 {
	longest := 6
	if r.Fabric.Kind == "leaf-spine" {
		longest = 4
	}
	return float64(r.PacketHops) / float64(longest) / 2
}

// silenceTable has a row for each failure: the worst run of each collective, over the healthy time and
// detection and over the bound, and the time-outs of all.
func silenceTable(rs []*report.Result) string {
	healthy := healthyTimes(rs)
	var rows []string
	for _, r := range rs {
		if row := silenceRow(r); row != "healthy" && !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
	}
	var b strings.Builder
	b.WriteString("| what fails | runs | all-to-all | ring | halving-doubling | double binary tree | time-outs |" +
		" packets, millions |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, row := range rows {
		worst, bound := map[string]float64{}, map[string]float64{}
		runs, timeouts, packets := 0, int64(0), 0.0
		for _, r := range rs {
			if silenceRow(r) != row {
				continue
			}
			runs++
			worst[r.Collective] = max(worst[r.Collective], overHealthy(r, healthy))
			if x, ok := r.Slowdown(); ok {
				bound[r.Collective] = max(bound[r.Collective], x)
			}
			timeouts, packets = timeouts+r.Timeouts, packets+leastPackets(r)
		}
		fmt.Fprintf(&b, "| %s | %d |", row, runs)
		for _, c := range silenceCollectives {
			fmt.Fprintf(&b, " %.2f, %.2f |", worst[c], bound[c])
		}
		fmt.Fprintf(&b, " %d | %.1f |\n", timeouts, packets/1e6)
	}
	return b.String()
}

// lateTable compares cuts that switches notice late with the same ones noticed at once, by size: the worst run.
func lateTable(rs []*report.Result) string {
	once := map[string]float64{}
	for _, r := range rs {
		if (r.Failure == "ToR uplink" || r.Failure == "ToR uplink at 50%") && r.Notifier == "all" && r.CCT != nil {
			once[silenceRun(r)] = *r.CCT
		}
	}
	var b strings.Builder
	b.WriteString("| size | runs | all-to-all | ring | halving-doubling | double binary tree | time-outs |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	for _, size := range []int64{1, 4, 16} {
		worst := map[string]float64{}
		runs, timeouts := 0, int64(0)
		for _, r := range rs {
			if !strings.HasPrefix(r.Failure, "after") || r.Bytes != size*1_000_000 {
				continue
			}
			x := math.Inf(1)
			if r.CCT != nil {
				x = *r.CCT / once[silenceRun(r)]
			}
			runs, timeouts, worst[r.Collective] = runs+1, timeouts+r.Timeouts, max(worst[r.Collective], x)
		}
		fmt.Fprintf(&b, "| %d MB | %d |", size, runs)
		for _, c := range silenceCollectives {
			fmt.Fprintf(&b, " %.2f |", worst[c])
		}
		fmt.Fprintf(&b, " %d |\n", timeouts)
	}
	return b.String()
}

// worstTable names the runs by quench and all that exceed 1.15, the worst of each row and size.
func worstTable(rs []*report.Result) string {
	healthy := healthyTimes(rs)
	type group struct {
		name  string
		worst *report.Result
		over  int
		runs  int
	}
	var groups []*group
	for _, r := range rs {
		if r.Notifier != "quench" && r.Notifier != "all" || strings.HasPrefix(r.Failure, "after") {
			continue
		}
		where, _, _ := strings.Cut(silenceRun(r), ", seed")
		where = strings.TrimPrefix(where, "fat-tree of 64, ") // most are there: the table's head says so
		name := silenceRow(r) + " | " + where
		i := slices.IndexFunc(groups, func(g *group) bool { return g.name == name })
		if i < 0 {
			i, groups = len(groups), append(groups, &group{name: name})
		}
		g := groups[i]
		g.runs++
		if overHealthy(r, healthy) > 1.15 {
			g.over++
		}
		if g.worst == nil || overHealthy(r, healthy) > overHealthy(g.worst, healthy) {
			g.worst = r
		}
	}
	var b strings.Builder
	b.WriteString("| what fails | collective (on the fat-tree of 64 unless named) | runs above 1.15 | worst | over the bound |\n")
	b.WriteString("|---|---|---|---|---|\n")
	for _, g := range groups {
		if g.over == 0 {
			continue
		}
		x, _ := g.worst.Slowdown()
		fmt.Fprintf(&b, "| %s | %d of %d | %.2f | %.2f |\n", g.name, g.over, g.runs, overHealthy(g.worst, healthy), x)
	}
	return b.String()
}
