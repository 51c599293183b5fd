package docs

import (
	"os"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
)

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
		if want := spec.Receiver.String() + " | "; !strings.HasPrefix(row, want) {
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
