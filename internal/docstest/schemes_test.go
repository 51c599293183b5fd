package docstest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the tables of pages that are made of what the program knows")

// TestRateControls holds the tables of receivers and rate controls in scenario.md to transport.Specs.
func TestRateControls(t *testing.T) {
	var receivers, controls strings.Builder
	receivers.WriteString("| receiver | what it does with a packet that arrives early |\n|---|---|\n")
	controls.WriteString("| rate control | what the sender does | needs |\n|---|---|---|\n")
	for _, s := range transport.Specs() {
		if s.Kind == transport.Transport {
			fmt.Fprintf(&receivers, "| `%s` | %s |\n", s.Name, s.Summary)
			continue
		}
		fmt.Fprintf(&controls, "| `%s` | %s | %s |\n", s.Name, s.Summary, needs(s.Needs))
	}
	checkTable(t, "scenario.md", "receivers", receivers.String())
	checkTable(t, "scenario.md", "rate controls", controls.String())
}

// needs says what a rate control needs.
func needs(n transport.Needs) string {
	var out []string
	say := func(needed bool, what string) {
		if needed {
			out = append(out, what)
		}
	}
	say(n.Marks, "ECN marks")
	say(n.Stamp != nil, "switches that write telemetry")
	say(n.DataField > 0, fmt.Sprintf("%d bytes in data packets", n.DataField))
	say(n.AckField > 0, fmt.Sprintf("%d bytes in ACKs", n.AckField))
	say(n.AnyOrder, "receivers that keep early packets")
	say(n.OneLink, "hosts with one link")
	return strings.Join(out, ", ")
}

// TestSchemes holds the table of schemes in scenario.md to balance.Specs.
func TestSchemes(t *testing.T) {
	var table strings.Builder
	table.WriteString("| scheme | receiver | what it does |\n|---|---|---|\n")
	for _, s := range balance.Specs() {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", s.Name, s.Receiver, s.Summary)
		for _, p := range s.Params {
			if p.Meaning == "" {
				t.Errorf("scheme %s: parameter %s has no meaning", s.Name, p.Name)
			}
		}
	}
	checkTable(t, "scenario.md", "schemes", table.String())
}

// TestSwitchBalancers holds the table of balancers.md to what the controller and the schemes know.
func TestSwitchBalancers(t *testing.T) {
	schemes := map[controller.Balance]string{controller.HashFlows: "`ecmp`, and all schemes of hosts"}
	for _, s := range balance.Specs() {
		if s.InSwitches() {
			b, err := s.Switches(nil, balance.SwitchConfig{Ports: 1, Unit: 1})
			if err != nil {
				t.Fatal(err)
			}
			schemes[b.Rule] = "`" + s.Name + "`"
		}
	}
	var table strings.Builder
	table.WriteString("| action | scheme | rule |\n|---|---|---|\n")
	for i, w := range controller.Rules() {
		if w.Text == "" {
			continue
		}
		action := "`hash_flows` (default)"
		if w.Action != controller.NoAction {
			var params []string
			for _, p := range w.Action.Layout().Params {
				params = append(params, p.Name)
			}
			action = fmt.Sprintf("`%v(%s)`", w.Action, strings.Join(params, ", "))
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", action, schemes[controller.Balance(i)], w.Text)
	}
	checkTable(t, "balancers.md", "balancers", table.String())
}

// checkTable holds the table of that name on a page, between two comments, to what it should be; -rewrite writes it.
func checkTable(t *testing.T, path, name, want string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, last := "<!-- "+name+": written by", "<!-- end of "+name+" -->"
	at := strings.Index(string(page), first)
	from := at + strings.Index(string(page)[max(0, at):], "\n") + 1
	to := strings.Index(string(page), last)
	if at < 0 || to < from {
		t.Fatalf("%s has no place for the %s, between %q and %q", path, name, first, last)
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(string(page)[:from]+want+string(page)[to:]), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, string(page)[from:to]); d != "" {
		t.Errorf("%s's %s (-program +page; -rewrite writes them):\n%s", path, name, d)
	}
}
