package report

import (
	"bytes"
	"strings"
	"testing"
)

// TestChance: seeds whose times are all longer differ by more than chance; the same times in another order do not, and
// three seeds say nothing.
func TestChance(t *testing.T) {
	runs := func(scheme string, ccts ...float64) (rs []*Result) {
		for i, c := range ccts {
			rs = append(rs, &Result{Scenario: "s", Scheme: scheme, Seed: uint64(i + 1), CCT: &c})
		}
		return rs
	}
	join := func(parts ...[]*Result) (all []*Result) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	before := join(runs("slower", 1, 2, 3, 4, 5), runs("mixed", 1, 2, 3, 4, 5), runs("few", 1, 2, 3))
	after := join(runs("slower", 11, 12, 13, 14, 15), runs("mixed", 5, 3, 1, 2, 4), runs("few", 11, 12, 13))
	var b bytes.Buffer
	if _, err := Compare(&b, before, after, [2]string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(b.String(), "by more than chance")
	lines := strings.Split(strings.TrimSpace(table), "\n")
	for i, want := range []string{"runs", "3.0 13.0 yes (p=0.008 n=5+5) ", "3.0 3.0 no (p=1.000 n=5+5) "} {
		if i >= len(lines) || !strings.HasPrefix(strings.Join(strings.Fields(lines[i]), " ")+" ", want) {
			t.Errorf("want %q of\n%s", want, &b)
		}
	}
	if len(lines) != 3 || strings.Contains(table, "seed") {
		t.Errorf("%s", table)
	}
}
