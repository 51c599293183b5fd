package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestSteps: the steps of training follow each other, none is faster than its bound, and the step bound knows their
// computations. With ECMP the third takes longer, in which a link dies.
func TestSteps(t *testing.T) {
	s, err := scenario.Load("../../scenarios/training.yaml")
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	took := func(s report.Step) float64 { return *s.End - *s.Begin }
	for _, run := range runs {
		if run.Scheme.Name != scenario.ECMP {
			continue
		}
		r, err := newLab(t).Run(t.Context(), run, scenario.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Steps) != 5 || r.CCT == nil || *r.Steps[4].End != *r.CCT {
			t.Fatalf("%v: %d steps, CCT %v", run, len(r.Steps), r.CCT)
		}
		if *r.StepBound < 5**r.Steps[0].Bound-20 {
			t.Errorf("%v: the step bound is %v us, that of a step %v us", run, *r.StepBound, *r.Steps[0].Bound)
		}
		for i, step := range r.Steps {
			if took(step) < *step.Bound || len(step.Parts) != 2 || *step.Parts[0].End-*step.Parts[0].Begin < 200 {
				t.Errorf("%v: step %d: %+v", run, i+1, step)
			}
			if slow := took(step) > 1.2*took(r.Steps[0]); slow != (i == 2 && len(run.Events) > 0) {
				t.Errorf("%v: step %d took %v us, step 1 %v us", run, i+1, took(step), took(r.Steps[0]))
			}
		}
	}
}
