package docs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
)

// TestRateControls holds the tables of receivers and rate controls in scenario.md to endpoint.Specs.
func TestRateControls(t *testing.T) {
	var receivers, controls strings.Builder
	receivers.WriteString("| receiver | what it does with a packet that comes before its turn |\n|---|---|\n")
	controls.WriteString("| rate control | what it is | parameters | needs |\n|---|---|---|---|\n")
	for _, s := range endpoint.Specs() {
		if s.Kind == endpoint.Transport {
			fmt.Fprintf(&receivers, "| `%s` | %s |\n", s.Name, s.Summary)
			continue
		}
		var params []string
		for _, p := range s.Params {
			params = append(params, "`"+p.Name+"`: "+p.Meaning)
		}
		fmt.Fprintf(&controls, "| `%s` | %s | %s | %s |\n", s.Name, s.Summary, strings.Join(params, ". "), needs(s.Needs))
	}
	checkTable(t, "scenario.md", "receivers", receivers.String())
	checkTable(t, "scenario.md", "rate controls", controls.String())
}

// needs says what a rate control needs.
func needs(n endpoint.Needs) string {
	var out []string
	say := func(needed bool, what string) {
		if needed {
			out = append(out, what)
		}
	}
	say(n.Marks, "ECN marks of switches")
	say(n.Telemetry, "telemetry of switches")
	say(n.DataField > 0, fmt.Sprintf("%d bytes of data packets", n.DataField))
	say(n.AckField > 0, fmt.Sprintf("%d bytes of ACKs", n.AckField))
	say(n.AnyOrder, "receivers that keep packets")
	say(n.OneLink, "hosts with one link")
	return strings.Join(out, ", ")
}

// TestSchemes: the page about scenarios has a row for every scheme, with the
// receiver that it assumes and all of its parameters.
func TestSchemes(t *testing.T) {
	text, err := os.ReadFile("scenario.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	_, section, _ := strings.Cut(string(text), "\n## Schemes and their parameters\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | "); ok && strings.HasPrefix(line, "| `") {
			rows[name] = rest
		}
	}
	for _, spec := range balance.Specs() {
		name := spec.Name
		row, ok := rows[name]
		if !ok {
			t.Errorf("scenario.md: no row for scheme %s", name)
			continue
		}
		if want := string(spec.Receiver) + " | "; !strings.HasPrefix(row, want) {
			t.Errorf("scenario.md: %s: the receiver should be %s", name, want)
		}
		for _, p := range spec.Params {
			if !strings.Contains(row, "`"+p+"`") {
				t.Errorf("scenario.md: %s: nothing of parameter %s", name, p)
			}
		}
	}
	if len(rows) != len(balance.Names()) {
		t.Errorf("scenario.md: %d rows for %d schemes", len(rows), len(balance.Names()))
	}
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
			schemes[b.Way] = "`" + s.Name + "`"
		}
	}
	var table strings.Builder
	table.WriteString("| action | scheme | rule |\n|---|---|---|\n")
	for i, w := range controller.Ways() {
		if w.Rule == "" {
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
		fmt.Fprintf(&table, "| %s | %s | %s |\n", action, schemes[controller.Balance(i)], w.Rule)
	}
	checkTable(t, "balancers.md", "balancers", table.String())
}
