package scenario

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// Forms in which a scenario's schemes run.
const (
	// OpponentsAsPublished runs the schemes that Ethereal is compared with as their authors published them.
	OpponentsAsPublished = "as-published"
	// OpponentsInFairForm runs them with the parameters of [balance.Spec.Fair], as far as the scenario gives none.
	// Results name these.
	OpponentsInFairForm = "fair"
)

// OpponentForms returns the names of the forms in which opponents can run, the default first.
func OpponentForms() []string { return []string{OpponentsAsPublished, OpponentsInFairForm} }

func (s *Scenario) checkOpponents(bad reportError) {
	if s.Opponents != "" && !slices.Contains(OpponentForms(), s.Opponents) {
		bad("opponents", fmt.Sprintf("%q is unknown", s.Opponents), strictyaml.Choose(s.Opponents, OpponentForms()))
	}
}

// schemesInForm returns the schemes in the scenario's form.
func (s *Scenario) schemesInForm() []Scheme {
	if s.Opponents != OpponentsInFairForm {
		return s.Schemes
	}
	out := slices.Clone(s.Schemes)
	for i, c := range out {
		if spec, err := c.Spec(); err == nil {
			out[i].Params = spec.Fair(c.Params)
		}
	}
	return out
}

// Routing returns the time after a switch notices a dead port in which a routing protocol repairs the tables, if
// the run has one; otherwise ok is false. Where the controller is notified of failures, it repairs the tables.
func (r Run) Routing() (after fabric.Time, ok bool) {
	spec, err := r.Scheme.Spec()
	if err != nil || r.Notifier.GNMI() {
		return 0, false
	}
	return spec.Convergence(r.Scheme.Params)
}
