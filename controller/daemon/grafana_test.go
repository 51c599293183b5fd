package daemon

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
)

// TestDashboard sees that the dashboard asks only for metrics that a controller
// has, and for labels that those carry.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../scripts/grafana-controller.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	known := map[string]map[string]bool{} // a metric's labels
	inLab(t, func(t *testing.T, l *lab) {
		r := l.run(nil)
		waitIdle(r)
		reg, err := r.Registry()
		if err != nil {
			t.Fatal(err)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			labels := map[string]bool{"instance": true, "le": strings.HasSuffix(f.GetName(), "_seconds")}
			for _, lp := range f.GetMetric()[0].GetLabel() {
				labels[lp.GetName()] = true
			}
			known[f.GetName()] = labels
			known[f.GetName()+"_bucket"] = labels
		}
		r.stop()
		synctest.Wait()
	})
	name, label := regexp.MustCompile(`\b(ethereal|process|go)_[a-z0-9_]+`), regexp.MustCompile(`\{\{(\w+)\}\}`)
	queries := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			names := name.FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s: %s names no metric", p.Title, target.Expr)
			}
			for _, n := range names {
				queries++
				if known[n] == nil {
					t.Errorf("%s: there is no metric %s", p.Title, n)
				}
				for _, m := range label.FindAllStringSubmatch(target.LegendFormat, -1) {
					if known[n] != nil && !known[n][m[1]] {
						t.Errorf("%s: %s has no label %s", p.Title, n, m[1])
					}
				}
			}
		}
	}
	if queries < 10 {
		t.Errorf("%d queries; was the dashboard read?", queries)
	}
}
