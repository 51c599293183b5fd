package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOpponents: whatever compares schemes under a failure says in its first lines in which form they ran.
func TestOpponents(t *testing.T) {
	run := func(scheme, notifier string) *Result {
		us := 100.0
		return &Result{Scenario: "s", Scheme: scheme, Collective: "all-to-all", Failure: "f", Notifier: notifier, CCT: &us, End: Finished, Fabric: demoFabric}
	}
	const advice = "After failures `opponents: fair` compares with what they can do with Ethereal's means: docs/scenario.md#fair-opponents"
	const fair = "Opponents in their fair form, with Ethereal's loss detection and notifications: "
	gray := run("spray", "none") // nobody notifies, and yet something failed
	gray.FirstFailure = &FirstFailure{}
	for _, c := range []struct {
		name string
		rs   []*Result
		want []string
	}{
		{"healthy", []*Result{run("ethereal", "none"), run("spray", "none")}, nil},
		{"no opponent", []*Result{run("ethereal", "quench"), run("ethereal(slack=1)", "quench")}, nil},
		{"as published", []*Result{run("ethereal", "quench"), run("spray", "quench"), run("reps(entropies=4)", "quench"), run("ecmp", "quench")}, []string{
			"Opponents as published. spray, reps(entropies=4): lost packets are found by the retransmission timer only and reports of dead links are ignored; " +
				"ecmp: there is no routing protocol.", advice,
		}},
		{"gray", []*Result{run("ethereal", "none"), gray}, []string{
			"Opponents as published. spray: lost packets are found by the retransmission timer only and reports of dead links are ignored.", advice,
		}},
		{"fair", []*Result{run("ethereal", "gnmi"), run("mrc(loss=late,news=taken)", "gnmi"), run("jsq(bins=5,10,20,convergence=1us,loss=late)", "gnmi")}, []string{
			fair + "mrc(loss=late,news=taken), jsq(bins=5,10,20,convergence=1us,loss=late) (docs/scenario.md#fair-opponents)",
		}},
		{"hashed ports", []*Result{run("reps(entropy=port,loss=late)", "gnmi")}, []string{fair + "reps(entropy=port,loss=late) (docs/scenario.md#fair-opponents)"}},
		{"half", []*Result{run("spray(loss=late)", "gnmi"), run("lpt", "gnmi")}, []string{
			"Opponents as published. spray(loss=late): reports of dead links are ignored.", advice, "Opponents without a fair form: lpt",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Opponents(c.rs)); diff != "" {
				t.Error(diff)
			}
			top := strings.Join(c.want, "\n")
			var table, summary, page strings.Builder
			if err := Table(&table, c.rs); err != nil || !strings.HasPrefix(table.String(), top) {
				t.Errorf("%v, the table begins %.200s", err, table.String())
			}
			if err := Summary(&summary, c.rs); err != nil || !strings.HasPrefix(summary.String(), top) {
				t.Errorf("%v, the summary begins %.200s", err, summary.String())
			}
			if err := HTML(&page, c.rs, Page{}); err != nil {
				t.Fatal(err)
			}
			head, _, _ := strings.Cut(page.String(), "<nav>")
			if got := strings.Contains(head, "Opponents "); got != (top != "") {
				t.Errorf("above its contents the page has: %s", head[max(0, len(head)-600):])
			}
		})
	}
}
