package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// What the flow world cannot tell is refused by validate, and by run before anything has run.
func TestRefusedWithoutPackets(t *testing.T) {
	t.Chdir(t.TempDir())
	const scenario = `name: cut
fabric: {kind: fat-tree, k: 4}
collectives: [{kind: all-to-all, bytes: 1MB}]
schemes: [ethereal, spray]
failures:
  - {name: healthy}
  - {name: cut, events: [{at: 10us, link: tor0-agg0, action: cut, detection: 10us}], notifiers: [gnmi]}
seeds: 1
`
	dead := strings.ReplaceAll(scenario, ": 10us", ": 0us") // before the collective begins
	for name, text := range map[string]string{"cut.yaml": scenario, "dead.yaml": dead} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const (
		why  = "2 of the 4 runs cannot be carried out without packets"
		what = "cut tor0-agg0 at 10us: links do not change while the collective runs; use --world virtual"
	)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"validate", "cut.yaml"}, exitOK, "4 runs"},
		{[]string{"validate", "--world", "flow", "cut.yaml"}, exitInput, why},
		{[]string{"validate", "--world", "flow", "cut.yaml"}, exitInput, what},
		{[]string{"validate", "--world", "nowhere", "cut.yaml"}, exitInput, "is unknown"},
		{[]string{"run", "--world", "flow", "cut.yaml"}, exitRun, why},
		{[]string{"run", "--world", "flow", "--schemes", "ethereal", "cut.yaml"}, exitRun, what},
		{[]string{"validate", "--world", "flow", "dead.yaml"}, exitInput, "1 of the 4 runs"},
		{[]string{"run", "--world", "flow", "--schemes", "ethereal", "dead.yaml"}, exitOK, "ethereal"},
	} {
		var out, errs bytes.Buffer
		a := &app{stdout: &out, stderr: &errs, version: "v"}
		code := a.execute(t.Context(), c.args)
		if said := out.String() + errs.String(); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%v: exit code %d:\n%s", c.args, code, said)
		}
		if c.code == exitRun && strings.Contains(errs.String(), "CCT") {
			t.Errorf("%v: something ran: %s", c.args, errs.String())
		}
	}
}
