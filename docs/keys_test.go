package docs

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/testbed/scenarios"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the tables of pages that are made of what the program knows")

// TestKeys holds the table in scenario.md to scenario.schema.json: the keys at a scenario's top. The others are printed by
// `ethereal validate --keys`.
func TestKeys(t *testing.T) {
	keys, err := scenarios.Keys()
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| key | default | meaning |\n|---|---|---|\n")
	for _, k := range keys {
		if strings.ContainsAny(k.Path, ".[") {
			continue
		}
		def := ""
		switch {
		case k.Required:
			def = "required"
		case k.Default != "":
			def = "`" + k.Default + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", k.Path, def, strings.ReplaceAll(k.Meaning, "|", "or"))
	}
	checkTable(t, "scenario.md", "keys", table.String())
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
