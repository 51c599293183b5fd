package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// monitored: the dashboard and the alerts of hosts or switches ask for metrics that one of them serves, and
// operations.md says what to do about each alert.
func monitored(t *testing.T, kind, served string) {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	rules := read("../../scripts/alerts-" + kind + ".yaml")
	names := regexp.MustCompile(`\bethereal_[a-z_]+`).FindAllString(read("../../scripts/grafana-"+kind+".json")+rules, -1)
	slices.Sort(names)
	names = slices.Compact(names)
	for _, n := range names {
		if !strings.Contains(served, "# TYPE "+n+" ") && n != "ethereal_dataplane_dropped_total" { // counts by reason, none yet
			t.Errorf("%s: there is no metric %s", kind, n)
		}
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(rules), &file); err != nil || len(names) < 3 || len(file.Groups) != 1 || len(file.Groups[0].Rules) == 0 {
		t.Fatalf("%s: %v: %d metrics, %+v", kind, err, len(names), file)
	}
	page := read("../../docs/operations.md")
	for _, r := range file.Groups[0].Rules {
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || !strings.Contains(r.Expr, "ethereal_") ||
			r.Annotations["runbook"] != "docs/operations.md#"+strings.ToLower(r.Alert) || !strings.Contains(page, "\n### "+r.Alert+"\n") {
			t.Errorf("%+v", r)
		}
	}
}

// TestLogFormat: a log of JSON lines, of the commands and of the switch, and no other format.
func TestLogFormat(t *testing.T) {
	var l logFlag
	for text, want := range map[string]string{"json": `"msg":"up","port":1}`, "text": "msg=up port=1"} {
		var out strings.Builder
		if err := l.format.Set(text); err != nil {
			t.Fatal(err)
		}
		l.logger(&out).Info("up", "port", 1)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s", text, &out)
		}
	}
	if err := l.format.Set("xml"); err == nil || !strings.Contains(err.Error(), "none of text, json") {
		t.Errorf("xml: %v", err)
	}
	o, err := parseSwitchOptions([]string{"--no-p4", "--log-format=json"})
	if err != nil || o.logFormat != logJSON {
		t.Errorf("%v, %+v", err, o)
	}
	if _, err := parseSwitchOptions([]string{"--no-p4", "--log-format", "xml"}); err == nil || !strings.Contains(err.Error(), "--log-format") {
		t.Errorf("xml: %v", err)
	}
}
