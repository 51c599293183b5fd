package cases

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

const forwardSeed = 5252

// BenchmarkFastForward makes the table of docs/results/iteration.md: FORWARD cases of [forwardSeed], each as a program
// that repeats the case's collective eight times, with and without fast_forward. Cases with several jobs and incasts
// are left out; skewed collectives become even, because steps of programs have no skew.
func BenchmarkFastForward(b *testing.B) {
	count, err := strconv.Atoi(cmp.Or(os.Getenv("FORWARD"), "0"))
	if err != nil || count == 0 {
		b.Skip("FORWARD does not say how many cases are drawn; see docs/results/iteration.md")
	}
	run := virtual.Runner()
	rows := map[string]*forwardRow{}
	row := func(name string) *forwardRow {
		if rows[name] == nil {
			rows[name] = &forwardRow{}
		}
		return rows[name]
	}
	for i := range count {
		c := Draw(forwardSeed, i)
		text, ok := repeated(c)
		if !ok {
			continue
		}
		slow, fast := forwardRuns(b, c, text, ""), forwardRuns(b, c, text, "fast_forward: repeats\n")
		for j := range slow {
			about := string(c.Class)
			if slow[j].Failure.Name == healthyCase {
				about = string(Healthy)
			}
			r := row(about)
			r.runs++
			x, err := runOne(b.Context(), slow[j], run)
			y, err2 := runOne(b.Context(), fast[j], run)
			if err != nil || err2 != nil || (x.CCT == nil) != (y.CCT == nil) {
				r.unlike = append(r.unlike, fmt.Sprintf("%d: %v, skipping %v, or only one finished", i, err, err2))
				continue
			}
			if x.CCT == nil || x.Events == y.Events && x.Hops == y.Hops {
				continue // nothing was skipped
			}
			r.errors = append(r.errors, math.Abs(*y.CCT / *x.CCT - 1))
			r.hops, r.all = r.hops+float64(y.Hops), r.all+float64(x.Hops)
			if x.flips() != y.flips() || x.Timeouts != y.Timeouts || x.Drops != y.Drops {
				r.unlike = append(r.unlike, fmt.Sprintf("%d: flips %d %d, time-outs %d %d, drops %d %d",
					i, x.flips(), y.flips(), x.Timeouts, y.Timeouts, x.Drops, y.Drops))
			}
		}
	}
	for name, r := range rows {
		b.Logf("%s: %s", name, r)
	}
}

// forwardRow is a row of the table.
type forwardRow struct {
	runs      int
	errors    []float64 // of the completion times of runs in which something was skipped
	hops, all float64   // packet-hops of these runs, with and without skipping
	unlike    []string  // runs that differ in more than time
}

func (r *forwardRow) String() string {
	slices.Sort(r.errors)
	at := func(share float64) float64 {
		if len(r.errors) == 0 {
			return 0
		}
		return 100 * r.errors[int(share*float64(len(r.errors)-1))]
	}
	return fmt.Sprintf("%d runs, %d with skipped collectives, packet-hops of these %.2f, error median %.2f %%, "+
		"95th percentile %.2f %%, largest %.2f %%, unlike %q",
		r.runs, len(r.errors), r.hops/max(r.all, 1), at(0.5), at(0.95), at(1), r.unlike)
}

var oneCollective = regexp.MustCompile(`^\{kind: ([a-z-]+)(?:, algorithm: ([a-z-]+))?, bytes: (\S+?)([,}].*)$`)

// repeated returns the workload of eight repetitions of a quarter of the case's collective, in two of three cases with
// a computation in between.
func repeated(c Case) (string, bool) {
	m := oneCollective.FindStringSubmatch(c.Collective)
	if m == nil || m[1] == "incast" {
		return "", false
	}
	var size fabric.Bytes
	if err := size.UnmarshalText([]byte(m[3])); err != nil {
		panic(err)
	}
	step := fmt.Sprintf("%s: %dB", m[1], max(size/4, 1024))
	if m[2] != "" {
		step += ", algorithm: " + m[2]
	}
	for _, key := range regexp.MustCompile(`(group|stride): \d+`).FindAllString(m[4], -1) {
		step += ", " + key
	}
	compute, d := "", newDice(c.Seed, c.Index, "compute")
	if d.percent(67) {
		compute = fmt.Sprintf("{compute: %dus}, ", d.between(1, 200))
	}
	return fmt.Sprintf("jobs:\n  - {repeat: 8, steps: [%s{%s}]}\n", compute, step), true
}

// forwardRuns returns Ethereal's runs of a case with another workload and one more key.
func forwardRuns(tb testing.TB, c Case, workload, key string) []scenario.Run {
	tb.Helper()
	dir := tb.TempDir()
	c.Jobs = workload
	program := "{kind: workload, file: " + c.JobsFile() + "}"
	c.Text = key + strings.Replace(c.Text, "collectives: ["+c.Collective+"]", "collectives: ["+program+"]", 1)
	path, err := c.Write(dir)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := scenario.Parse(path, []byte(c.Text), strictyaml.ReadFile)
	if err != nil {
		tb.Fatalf("%s\n%s%v", c.Text, workload, err)
	}
	runs, err := s.Expand()
	if err != nil {
		tb.Fatalf("%s\n%s%v", c.Text, workload, err)
	}
	return slices.DeleteFunc(runs, func(r scenario.Run) bool { return r.Scheme.Name != scenario.Ethereal })
}
