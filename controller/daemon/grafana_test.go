package daemon

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

var metricName = regexp.MustCompile(`\b(ethereal|process|go)_[a-z0-9_]+`)

// knownMetrics returns the labels of every metric that a controller has, by its name.
func knownMetrics(t *testing.T) map[string]map[string]bool {
	t.Helper()
	known := map[string]map[string]bool{}
	inLab(t, func(t *testing.T, l *lab) {
		r := l.run(func(c *Config) { c.Loads = time.Second })
		waitIdle(r)
		r.inbox.post(func() { // what only a suspicion brings
			tor := r.f.ToRID(0)
			r.paths.Store(suspicion.ProbedPath{SrcToR: tor, DstToR: r.f.ToRID(1)}, time.Now(), &statepb.ProbeResult{Sent: 4, Lost: 1, TripNs: 9, LeastNs: 8})
		})
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
	return known
}

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
	known := knownMetrics(t)
	label := regexp.MustCompile(`\{\{(\w+)\}\}`)
	queries := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			names := metricName.FindAllString(target.Expr, -1)
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

// TestAlerts sees that alerts ask only for metrics that a controller has, and that each says on which page to read what
// to do.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("../../scripts/alerts-controller.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	known, alerts := knownMetrics(t), 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			alerts++
			names := metricName.FindAllString(r.Expr, -1)
			for _, n := range names {
				if known[n] == nil {
					t.Errorf("%s: there is no metric %s", r.Alert, n)
				}
			}
			if len(names) == 0 || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s: it has no metric, severity or summary", r.Alert)
			}
			if want := "docs/operations.md#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want || !strings.Contains(string(page), "\n### "+r.Alert+"\n") {
				t.Errorf("%s: its runbook is %q, and %s has to have it", r.Alert, r.Annotations["runbook"], want)
			}
		}
	}
	if alerts < 5 {
		t.Errorf("%d alerts; was the file read?", alerts)
	}
}
