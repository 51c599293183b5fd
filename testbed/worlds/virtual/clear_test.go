package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestClearToSend: with an uplink cut, halving-doubling whose messages wait for their receivers' step ends sooner, on
// one core and on several alike.
func TestClearToSend(t *testing.T) {
	s, err := scenario.Load("../../scenarios/steps.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.Seeds = scenario.Seeds{1}
	s.Failures, s.Collectives = s.Failures[1:], s.Collectives[:2]
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	lab := newLab(t)
	var took []float64
	for _, r := range runs {
		one, _, _ := onCores(t, lab, r, 1, 1)
		two, _, _ := onCores(t, lab, r, 2, 2)
		if one.EventsSHA256 != two.EventsSHA256 {
			t.Errorf("%v: two cores' events differ from one's", r)
		}
		if one.CCT == nil {
			t.Fatalf("%v did not finish", r)
		}
		took = append(took, *one.CCT)
	}
	if took[1] > 0.9*took[0] {
		t.Errorf("%.1f us when messages wait for their receivers, %.1f when they do not; want at most 0.9 of it", took[1], took[0])
	}
}
