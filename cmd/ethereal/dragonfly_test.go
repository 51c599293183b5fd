package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/worlds/dragonfly"
)

func TestDragonfly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.yaml")
	const text = `name: small
fabric: {p: 1, a: 1, h: 2}
traffic: [{kind: all-to-all, bytes: 1MB}]
schemes: [minimal, valiant, ethereal]
failures: [{name: cut, links: [g0-g1]}, {name: parted, links: [g0-g1, g0-g2]}]
seeds: [1, 2, 3]
`
	whole := strings.Replace(text, ", {name: parted, links: [g0-g1, g0-g2]}", "", 1)
	if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	code, table, stderr := call(t, &fake{}, "dragonfly", file)
	if lines := strings.Count(table, "\n"); code != exitOK || lines != 1+3 {
		t.Errorf("code %d, %d lines, want a row for each scheme:\n%s%s", code, lines, table, stderr)
	}
	code, out, stderr := call(t, &fake{}, "dragonfly", file, "-o", "json")
	var results []dragonfly.Result
	if err := json.Unmarshal([]byte(out), &results); code != exitOK || err != nil || len(results) != 9 {
		t.Errorf("code %d, %d results, want 9: %v %s", code, len(results), err, stderr)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t, &fake{}, "dragonfly", file); code != exitRun || !strings.Contains(stderr, "parted") {
		t.Errorf("a fabric that is parted: code %d: %s", code, stderr)
	}
}
