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
	if err := os.WriteFile("cut.yaml", []byte(scenario), 0o666); err != nil {
		t.Fatal(err)
	}
	const why = "1 of the 4 runs cannot be carried out without packets"
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"validate", "cut.yaml"}, exitOK, "4 runs"},
		{[]string{"validate", "--world", "flow", "cut.yaml"}, exitInput, why},
		{[]string{"validate", "--world", "nowhere", "cut.yaml"}, exitInput, "is unknown"},
		{[]string{"run", "--world", "flow", "cut.yaml"}, exitRun, why},
		{[]string{"run", "--world", "flow", "--schemes", "ethereal", "cut.yaml"}, exitOK, "ethereal"},
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
