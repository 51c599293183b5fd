package virtual

import (
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestPolarisation: with equal hashes aggregation switches leave uplinks unused, and the diagnosis names the tier; with
// the usual ones it does not.
func TestPolarisation(t *testing.T) {
	for _, equal := range []bool{true, false} {
		s, err := scenario.Load("../../scenarios/polarisation.yaml")
		if err != nil {
			t.Fatal(err)
		}
		s.Schemes, s.Collectives[0].Bytes, s.Switch.EqualHashes = []scenario.Scheme{{Name: scenario.ECMP}}, 500e3, equal
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		r, err := newLab(t).Run(t.Context(), runs[0], scenario.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := report.Diagnose(&text, []*report.Result{r}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String(), "the tier polarises") != equal || strings.Contains(text.String(), "switch.equal_hashes") != equal {
			t.Errorf("equal hashes %v:\n%s", equal, &text)
		}
	}
}
