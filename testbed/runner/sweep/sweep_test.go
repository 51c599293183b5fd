package sweep

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

const base = `name: base
fabric: {kind: fat-tree, k: 4}
collectives: [{kind: all-to-all, bytes: 1MB}, {kind: permutation, bytes: 1MB}]
schemes: [ethereal, ecmp]
failures:
  - name: healthy
  - name: cut
    events: [{at: 1us, link: tor0-agg0, action: cut, detection: 0us}]
    notifiers: [quench]
`

func parse(text string) (*Sweep, error) {
	return Parse("dir/s.yaml", []byte(text), func(path string) ([]byte, error) {
		if path == filepath.Join("dir", "base.yaml") {
			return []byte(base), nil
		}
		return nil, fmt.Errorf("no %s", path)
	})
}

func TestCases(t *testing.T) {
	s, err := parse(`name: s
parts:
  - scenario: base.yaml
    set: {schemes: [ethereal], host.rto: 2ms, seeds: 7}
    vary:
      collectives[*].bytes: [1MB, 2MB]
      failures[1].events[0].detection: [0us, 10us, 1ms]
`)
	if err != nil {
		t.Fatal(err)
	}
	// Two sizes x two collectives, healthy once and cut with three detections.
	if got, want := len(s.Cases), 2*2*(1+3); got != want {
		t.Errorf("%d cases, want %d", got, want)
	}
	hashes := map[string]bool{}
	for _, c := range s.Cases {
		if hashes[c.Hash] {
			t.Errorf("%v twice", c.Run)
		}
		hashes[c.Hash] = true
		if c.Run.Seed != 7 || c.Run.Scenario.Host.RTO != 2*fabric.Millisecond || c.Run.Scheme.Name != "ethereal" {
			t.Errorf("%v: seed %d, rto %v", c.Run, c.Run.Seed, c.Run.Scenario.Host.RTO)
		}
		if got := c.Variant["collectives[*].bytes"]; got != c.Run.Collective.Bytes.String() {
			t.Errorf("%v: variant says %s", c.Run, got)
		}
		if len(c.Run.Events) > 0 && c.Variant["failures[1].events[0].detection"] == "" {
			t.Errorf("%v: variant %v", c.Run, c.Variant)
		}
	}
}

// TestHash: what a run depends on changes its hash, what it does not does not.
func TestHash(t *testing.T) {
	hash := func(set string) string {
		t.Helper()
		if set != "" {
			set = "\"" + set
		}
		s, err := parse("name: s\nparts:\n  - scenario: base.yaml\n    set: {" + strings.Replace(set, ": ", "\": ", 1) + "}\n")
		if err != nil {
			t.Fatal(err)
		}
		return s.Cases[0].Hash
	}
	plain := hash("")
	for _, same := range []string{"name: other", "description: x", "seeds: 1..3", "failures: [{name: fine}]", "schemes: [ethereal, reps]", "host.rto: 1ms"} {
		if hash(same) != plain {
			t.Errorf("%s changes the hash", same)
		}
	}
	for _, other := range []string{"seeds: 2", "host.rto: 2ms", "fabric: {kind: fat-tree, k: 6}", "collectives[0].bytes: 2MB",
		"schemes: [ecmp]", "host.resend_on_flip: false", "switch.ecn.pmax: 0.5"} {
		if hash(other) == plain {
			t.Errorf("%s does not change the hash", other)
		}
	}
}

func TestBad(t *testing.T) {
	for text, want := range map[string]string{
		"parts: []":                   "name: is missing",
		"name: s":                     "parts: is missing",
		"name: s\npart: []":           "part: unknown key; did you mean parts?",
		"name: s\nparts: [{set: {}}]": "parts[0].scenario: is missing",
		"name: s\nparts: [{scenario: none.yaml}]":                               "dir/s.yaml:2:20: parts[0].scenario: no dir/none.yaml",
		"name: s\nparts: [{scenario: base.yaml, set: [1]}]":                     "set: is not a mapping",
		"name: s\nparts: [{scenario: base.yaml, vary: {host.rto: 1ms}}]":        "vary.host.rto: is not a list",
		"name: s\nparts: [{scenario: base.yaml, set: {'a..b': 1}}]":             `"a..b" is not a key`,
		"name: s\nparts: [{scenario: base.yaml, set: {'seeds[x]': 1}}]":         `"seeds[x]" is not a key`,
		"name: s\nparts: [{scenario: base.yaml, set: {'failures[7].name': x}}]": "the list has 2 entries: there is no [7]",
		"name: s\nparts: [{scenario: base.yaml, set: {host.rtto: 1ms}}]":        "host.rtto: unknown key; did you mean rto?",
		"name: s\nparts: [{scenario: base.yaml, vary: {host.rto: [1ms, 0s]}}]":  "with set, host.rto=0s: host.rto: 0s is outside",
	} {
		_, err := parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		} else if !errors.Is(err, strictyaml.ErrContent) {
			t.Errorf("%s: error %v is not ErrContent", text, err)
		}
	}
}

func TestFiles(t *testing.T) {
	files, err := filepath.Glob("../../sweeps/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sweeps: %v", err)
	}
	for _, f := range files {
		if _, err := Load(f); err != nil {
			t.Error(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("name: s\nparts:\n  - scenario: base.yaml\n    set: {seeds: 7}\n    vary: {'collectives[*].bytes': [1MB, 2MB]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parse(text); err == nil && len(s.Cases) == 0 {
			t.Error("a sweep of no case")
		}
	})
}

// TestAliasOfVary: what varies, and over which values, may be said once.
func TestAliasOfVary(t *testing.T) {
	s, err := parse("name: x\nparts: [{scenario: base.yaml, vary: &v {host.rto: &times [1ms, 2ms]}}, " +
		"{scenario: base.yaml, set: &s {host.rto: 3ms}, vary: {agent.failed_path_memory: *times}}, {scenario: base.yaml, set: *s}, {scenario: base.yaml, vary: *v}]\n")
	if err != nil {
		t.Fatal(err)
	}
	variants := map[string]bool{}
	for _, c := range s.Cases {
		variants[c.Variant["host.rto"]+" "+c.Variant["agent.failed_path_memory"]] = true
	}
	if d := cmp.Diff(map[string]bool{"1ms ": true, "2ms ": true, " 1ms": true, " 2ms": true, " ": true}, variants); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What aliases stand for is bounded: they may stand for what they are a part of.
func TestAliases(t *testing.T) {
	for _, text := range []string{
		"name: x\nparts: [{scenario: a.yaml, set: &a {host.rto: *a}}]\n",
		"name: x\nparts: [{scenario: a.yaml, set: {a: &a [1,1,1,1,1,1,1,1], b: &b [*a,*a,*a,*a,*a,*a,*a,*a], c: &c [*b,*b,*b,*b,*b,*b,*b,*b], " +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c], e: &e [*d,*d,*d,*d,*d,*d,*d,*d], f: &f [*e,*e,*e,*e,*e,*e,*e,*e], g: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]}}]\n",
	} {
		_, err := parse(text)
		if !errors.Is(err, strictyaml.ErrContent) || !strings.Contains(err.Error(), "aliases") {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}
