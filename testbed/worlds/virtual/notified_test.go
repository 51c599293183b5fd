package virtual

import (
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestNotified: with switches that notice a cut after 10 us and notify hosts by source quench, no host
// of an all-reduce waits for a time-out, whether the cut comes before the traffic or in the
// middle of it. It takes less than 1.3 times its healthy time, and halving-doubling, of
// which a cut in the middle doubles the skew, 1.5: docs/results/evaluation.md.
func TestNotified(t *testing.T) {
	oneGoroutine(t)
	s, err := scenario.Load("../../scenarios/notified.yaml")
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
		if len(r.Events) == 0 {
			result := mustRun(t, lab, r)
			if result.CCT == nil {
				t.Fatalf("%v did not finish", r)
			}
			healthy[k] = *result.CCT
			continue
		}
		for _, share := range []float64{0, 0.35, 0.7} {
			r, most := r, 1.3
			if r.Events = slices.Clone(r.Events); share > 0 {
				r.Events[0].At = fabric.Time(share * healthy[k] * float64(fabric.Microsecond))
				if r.Collective.Algorithm == "halving-doubling" {
					most = 1.5
				}
			}
			result := mustRun(t, lab, r)
			if result.CCT == nil {
				t.Fatalf("%v, cut at %v, did not finish", r, r.Events[0].At)
			}
			ratio := *result.CCT / healthy[k]
			t.Logf("%s, seed %d, cut at %v: %.1f us, %.3f of healthy, %d repeated, %d lost", k.collective, k.seed, r.Events[0].At,
				*result.CCT, ratio, result.Retransmissions, result.LostToFailure)
			if ratio < 0.9 || ratio >= most || result.Timeouts > 0 {
				t.Errorf("%s, seed %d, cut at %v: %.3f of the healthy time, %d time-outs; want below %v without any",
					k.collective, k.seed, r.Events[0].At, ratio, result.Timeouts, most)
			}
		}
	}
}
