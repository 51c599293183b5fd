package report

import (
	"bytes"
	"strings"
	"testing"
)

// cutAt returns a run with a cut at a share of the 100 us that it takes healthy.
func cutAt(name string, share, cct float64, scheme string, seed uint64) *Result {
	healthy := 100.0
	return &Result{
		Scenario: "s", Collective: "ring", Bytes: 1e6, Notifier: "quench", Scheme: scheme, Seed: seed, Failure: "cut at " + name, CCT: &cct,
		Finished: true, End: Finished,
		FirstFailure: &FirstFailure{Case: "cut", Time: share * healthy, Healthy: &healthy, AfterEnd: share*healthy >= cct},
	}
}

// TestOverTime: the table and the chart have CCT over the time of the cut, and a run
// that was complete before is in neither as if it had met the cut.
func TestOverTime(t *testing.T) {
	rs := []*Result{
		cutAt("10%", 0.1, 150, "ethereal", 1), cutAt("10%", 0.1, 170, "ethereal", 2), cutAt("10%", 0.1, 400, "ecmp", 1),
		cutAt("50%", 0.5, 120, "ethereal", 1), cutAt("50%", 0.5, 130, "ethereal", 2), cutAt("50%", 0.5, 300, "ecmp", 1),
		cutAt("90%", 0.9, 80, "ethereal", 1), cutAt("90%", 0.9, 104, "ethereal", 2), cutAt("90%", 0.9, 80, "ecmp", 1),
	}
	rs[5].CCT = nil
	var out bytes.Buffer
	if err := Table(&out, rs); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"time of the failure, % of the healthy run: ring 1MB, s, cut, quench",
		"  10.0          160.0  400.0\n", "  50.0          125.0    DNF\n", "  90.0  104.0, 1 LATE   LATE\n",
		"80.0 LATE", "LATE: ecmp, quench, seed 1: the failure came at 90 us, after the run's end",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for _, c := range Charts(rs) {
		if !strings.HasPrefix(c.Name, "failure-time-") {
			continue
		}
		if len(c.Series) != 2 || len(c.Series[0].Points) != 2 || c.Series[0].Points[0] != (Point{X: 10, Y: 1.6, Low: 1.5, High: 1.7}) || len(c.Series[1].Points) != 1 {
			t.Errorf("%+v", c.Series)
		}
		return
	}
	t.Error("no chart over the time of the failure")
}
