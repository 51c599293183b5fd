package virtual

import (
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestDegraded: a link that carries a quarter of its rate, which nobody reports, makes a collective of 16 MB take at
// most 1.6 of the bound if hosts unload slow paths, and less than if they keep to them; 1.3 if its switches report its
// speed. Nothing moves while all is well.
func TestDegraded(t *testing.T) {
	oneGoroutine(t)
	s, err := scenario.Load("../../scenarios/degraded.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.Seeds = scenario.Seeds{1}
	s.Schemes = s.Schemes[:2]
	s.Failures = []scenario.Failure{s.Failures[0], s.Failures[1], s.Failures[3]}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	lab, kept := newLab(t), map[string]float64{}
	for _, r := range slices.Backward(runs) { // those that keep to their paths first
		result := mustRun(t, lab, r)
		if result.CCT == nil {
			t.Fatalf("%v did not finish", r)
		}
		ratio, name := *result.CCT / *result.Bound, r.Collective.Name()
		t.Logf("%v: %.3f of the bound, %d flips", r, ratio, result.Flips)
		switch {
		case len(r.Events) == 0:
			if result.Flips > 0 {
				t.Errorf("%v: %d flips though all is well", r, result.Flips)
			}
		case len(r.Scheme.Params) > 0:
			kept[name] = ratio
		case r.Notifier.GNMI():
			if ratio > 1.3 {
				t.Errorf("%v: %.3f of the bound; want at most 1.3 where the rate is known", r, ratio)
			}
		default:
			most := 1.3
			if r.Collective.Algorithm == "halving-doubling" { // each step meets the slow link anew
				most = 1.7
			}
			if most = min(most, kept[name]); ratio > most {
				t.Errorf("%v: %.3f of the bound; want at most %.3f", r, ratio, most)
			}
		}
	}
}
