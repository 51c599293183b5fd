package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestMininetFlags: `ethereal mininet` has the flags of mininet/run.py, and passes on what was given.
func TestMininetFlags(t *testing.T) {
	source, err := os.ReadFile("../../mininet/run.py")
	if err != nil {
		t.Fatal(err)
	}
	var script, ours []string
	for _, m := range regexp.MustCompile(`add_argument\("--([a-z0-9-]+)"`).FindAllStringSubmatch(string(source), -1) {
		script = append(script, m[1])
	}
	run, _, err := (&app{}).rootCommand().Find([]string{"mininet", "run"})
	if err != nil {
		t.Fatal(err)
	}
	run.Flags().VisitAll(func(f *pflag.Flag) { ours = append(ours, f.Name) })
	// ethereal is this program; up and clean are commands.
	ours = append(ours, "ethereal", "up", "clean", "verbose")
	slices.Sort(script)
	slices.Sort(ours)
	if !slices.Equal(script, ours) {
		t.Errorf("run.py has %v\nethereal mininet has %v", script, ours)
	}
	if err := run.ParseFlags([]string{"--switch", "bmv2", "--view", "--mtu", "1500"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(mininetFlags(run), " "); got != "--mtu=1500 --switch=bmv2 --view" {
		t.Errorf("passed on: %s", got)
	}
}

// TestMininetMissing: what is missing is named.
func TestMininetMissing(t *testing.T) {
	none := filepath.Join(t.TempDir(), "python3")
	if err := runMininet(t.Context(), none, nil); err == nil || !strings.Contains(err.Error(), none) || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("without Python: %v", err)
	}
	if err := os.WriteFile(none, []byte("#!/bin/sh\necho \"No module named 'mininet'\" >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := runMininet(t.Context(), none, nil); err == nil || !strings.Contains(err.Error(), "No module named 'mininet'; apt-get install mininet") {
		t.Errorf("without Mininet: %v", err)
	}
}
