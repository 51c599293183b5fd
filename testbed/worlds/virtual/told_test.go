package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestTold: with switches that notice a cut after 10 us and answer by source
// quench, every all-reduce takes less than 1.3 times its healthy time.
func TestTold(t *testing.T) {
	oneGoroutine(t)
	s, err := scenario.Load("../../scenarios/told.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.Seeds = scenario.Seeds{1, 2}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	type key struct {
		collective string
		seed       uint64
	}
	lab, healthy := newLab(t), map[key]float64{}
	for _, r := range runs {
		k := key{r.Collective.Name(), r.Seed}
		result := mustRun(t, lab, r)
		if result.CCT == nil {
			t.Fatalf("%v did not finish", r)
		}
		if len(r.Events) == 0 {
			healthy[k] = *result.CCT
			continue
		}
		ratio := *result.CCT / healthy[k]
		t.Logf("%s, seed %d: %.1f us, %.3f of healthy, %d repeated, %d lost", k.collective, k.seed, *result.CCT, ratio, result.Retransmissions, result.LostToFailure)
		if ratio < 1 || ratio >= 1.3 || result.Timeouts > 0 {
			t.Errorf("%s, seed %d: %.3f of the healthy time, %d time-outs; want below 1.3 without any", k.collective, k.seed, ratio, result.Timeouts)
		}
	}
}
