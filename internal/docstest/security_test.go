package docstest

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/certs"
)

var rewriteSecurity = flag.Bool("rewrite-security", false, "write the tables of security.md")

// The table of roles in security.md is the one by which servers decide.
func TestSecurityTables(t *testing.T) {
	const file = "security.md"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for name, want := range map[string]string{"roles": certs.Table()} {
		begin := "<!-- " + name + " -->\n"
		before, rest, ok := strings.Cut(text, begin)
		table, after, ok2 := strings.Cut(rest, "<!-- end -->")
		if !ok || !ok2 {
			t.Fatalf("%s has no place for the table of %s", file, name)
		}
		switch {
		case *rewriteSecurity:
			text = before + begin + want + "<!-- end -->" + after
		case table != want:
			t.Errorf("%s: the table of %s is not the code's; run go test ./internal/docstest -run SecurityTables -rewrite-security", file, name)
		}
	}
	if *rewriteSecurity {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
