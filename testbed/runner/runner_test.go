package runner

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

const text = `
name: timed
fabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 2}
collectives: [{kind: all-to-all, bytes: 1MB}]
schemes: [ethereal]
failures:
  - name: cut
    events: [{at: [50%, 5us, 40us], link: tor0-spine0, action: cut, detection: 1us}]
    notifiers: [gnmi]
seeds: 1..2
deadline: DEADLINE
`

// world takes that many us, one more a seed, and 10 us more when something fails.
// It notes what it was asked for.
func world(took float64, asked *[]string) Run {
	return func(_ context.Context, r scenario.Run, _ scenario.Observer) (*report.Result, error) {
		*asked = append(*asked, fmt.Sprintf("%s %d %d", r.Failure.Name, r.Seed, len(r.Events)))
		cct := took + float64(r.Seed)
		if len(r.Events) > 0 && r.Events[0].At.Micros() < cct {
			cct += 10
		}
		result := &report.Result{Finished: true, End: report.Finished, EndTime: cct}
		if cct <= r.Scenario.Deadline.Micros() {
			result.CCT = &cct
		}
		return result, nil
	}
}

func runs(t *testing.T, deadline string) []scenario.Run {
	t.Helper()
	s, err := scenario.Parse("timed.yaml", fmt.Append(nil, text[:len(text)-len("DEADLINE\n")]+deadline+"\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTimed(t *testing.T) {
	var asked []string
	run := Timed(world(30, &asked))
	var got []report.FirstFailure
	for _, r := range runs(t, "1ms") {
		result, err := run(t.Context(), r, scenario.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, *result.FirstFailure)
	}
	h1, h2 := 31.0, 32.0
	want := []report.FirstFailure{
		{Case: "cut", Time: 15.5, Healthy: &h1}, {Case: "cut", Time: 16, Healthy: &h2},
		{Case: "cut", Time: 5}, {Case: "cut", Time: 5},
		{Case: "cut", Time: 40, AfterEnd: true}, {Case: "cut", Time: 40, AfterEnd: true},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if n := len(slices.DeleteFunc(asked, func(s string) bool { return s[0] != 'h' })); n != 2 {
		t.Errorf("%d healthy runs, want one a seed", n)
	}
}

// TestUnfinished: where the healthy run does not finish, its shares are of nothing.
func TestUnfinished(t *testing.T) {
	var asked []string
	run := Timed(world(50, &asked))
	if _, err := run(t.Context(), runs(t, "41us")[0], scenario.Observer{}); err == nil {
		t.Error("a share of a run that did not finish")
	}
}
