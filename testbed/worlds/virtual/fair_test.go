package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestFair: after a cut that a quench reports fair opponents wait for no timer, as published they do; routers end a
// black hole when they have converged; healthy, either form takes the same time to the last picosecond.
func TestFair(t *testing.T) {
	oneGoroutine(t)
	s, err := scenario.Load("../../scenarios/notified.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.Seeds, s.Collectives = scenario.Seeds{1}, s.Collectives[:1]
	s.Schemes = nil
	for _, name := range []string{"spray", "reps", "drb", "mrc", "jsq"} {
		s.Schemes = append(s.Schemes, scenario.Scheme{Name: name})
	}
	s.Schemes = append(s.Schemes, scenario.Scheme{Name: "ecmp", Params: map[string]string{"convergence": "5ms"}})
	lab, healthy := newLab(t), map[string]float64{}
	for _, form := range []string{scenario.OpponentsAsPublished, scenario.OpponentsInFairForm} {
		s.Opponents = form
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			result := mustRun(t, lab, r)
			if result.CCT == nil {
				t.Fatalf("%v did not finish", r)
			}
			t.Logf("%v: %.1f us, %d time-outs, %d again, %d lost", r, *result.CCT, result.Timeouts, result.Retransmissions, result.LostToFailure)
			name := r.Scheme.Name
			switch routed := name == "ecmp"; {
			case len(r.Events) == 0 && form == scenario.OpponentsAsPublished:
				healthy[name] = *result.CCT
			case len(r.Events) == 0 && *result.CCT != healthy[name]:
				t.Errorf("%v, healthy: %v us, as published %v", r, *result.CCT, healthy[name])
			case len(r.Events) == 0:
			case routed:
				if at := (r.Events[0].At + r.Events[0].Detection + 5*fabric.Millisecond).Micros(); *result.CCT < at || *result.CCT > at+3000 {
					t.Errorf("%v: %v us; want its tables repaired at %v and a time-out or two", r, *result.CCT, at)
				}
			case form == scenario.OpponentsInFairForm && name == "jsq": // its spines learn of the link by routing
			case (result.Timeouts == 0) != (form == scenario.OpponentsInFairForm):
				t.Errorf("%v, %s: %d time-outs", r, form, result.Timeouts)
			}
		}
	}
}
