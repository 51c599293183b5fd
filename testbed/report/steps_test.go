package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSteps: the table names the step that took longer, and a file has a line per step and part.
func TestSteps(t *testing.T) {
	us := func(v float64) *float64 { return &v }
	r := made(demoFabric)[0]
	at := 0.0
	for i, took := range []float64{100, 101, 250, 100} {
		end := us(at + took)
		r.Steps = append(r.Steps, Step{Job: 1, Step: i + 1, Begin: us(at), End: end, Bound: us(98), Parts: []Part{
			{"compute 20us", us(at), us(at + 20), nil}, {"all-reduce 1MB", us(at + 20), end, BusBandwidth(1.75e6, us(at+20), end)},
		}})
		at += took
	}
	r.Steps = append(r.Steps, Step{Job: 1, Step: 5, Begin: us(at), Bound: us(98), Parts: []Part{{Name: "compute 20us", Begin: us(at)}}})
	if d := cmp.Diff([]string{
		"5 steps, 4 of them complete, took 100 us each (at least 98 us); step 3 took 250 us instead of 100 us",
	}, stepsTexts(r)); d != "" {
		t.Errorf("texts (-want +got):\n%s", d)
	}
	var table, lines strings.Builder
	if err := Table(&table, []*Result{r}); err != nil || !strings.Contains(table.String(), ", seed 1: 5 steps, 4 of") {
		t.Errorf("%v: no steps in\n%s", err, &table)
	}
	if err := StepsCSV(&lines, []*Result{r}); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(lines.String(), "\n")
	for i, want := range map[int]string{
		0: ",job,step,part,begin_us,end_us,took_us,bound_us,bus_gb_per_s", 7: ",1,1,3,,201,451,250,98,", 9: ",1,1,3,all-reduce 1MB,221,451,230,,7.6087", 13: ",1,1,5,,551,,,98,",
	} {
		if len(got) != 16 || !strings.HasSuffix(got[i], want) {
			t.Errorf("line %d of %d is %q, want ...%q", i, len(got), got[i], want)
		}
	}
	r.Steps = append(r.Steps, Step{Job: 2, Step: 1})
	if got := stepsTexts(r); len(got) != 1 || !strings.HasPrefix(got[0], "job 1: 5 steps") {
		t.Errorf("with two jobs: %q", got)
	}
}
