package docstest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner/sweep"
)

// TestEvaluationFiles: the results of a sweep that are kept here are the runs that
// `ethereal bench` makes of it, each once.
func TestEvaluationFiles(t *testing.T) {
	files, err := filepath.Glob("evaluation/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no results: %v", err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		s, err := sweep.Load(filepath.Join("..", "testbed", "sweeps", name+".yaml"))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		missing, hashes := map[string]int{}, map[string]bool{}
		for _, c := range s.Cases {
			r := c.Run
			missing[runName(r.Scenario.Name, r.Failure.Name, r.Collective.Name(), int64(r.Collective.Bytes),
				string(r.Notifier), r.Scheme.String(), r.Seed, c.Variant)]++
			hashes[c.Hash] = true
		}
		versions, old := map[string]int{}, 0
		for _, r := range results(t, path) {
			missing[runName(r.Scenario, r.Failure, r.Collective, r.Bytes, r.Notifier, r.Scheme, r.Seed, r.Variant)]--
			versions[r.Version]++
			if !hashes[r.RunSHA256] {
				old++
			}
		}
		for run, n := range missing {
			switch {
			case n > 0:
				t.Errorf("%s lacks a run of its sweep: %s", path, run)
			case n < 0:
				t.Errorf("%s has a run that its sweep does not make, or has it twice: %s", path, run)
			}
		}
		t.Logf("%s: runs by build: %v", path, versions)
		if old > 0 { // new defaults do that, whether or not they change a result
			t.Logf("%s: %d runs depend on more, or on other values, than when they were made: ethereal bench would run them again", path, old)
		}
	}
}

// runName names a run by what notifies it from the others of its sweep.
func runName(scenario, failure, collective string, bytes int64, notifier, scheme string, seed uint64, variant map[string]string) string {
	name := fmt.Sprintf("%s, %s, %s %d B, %s, %s, seed %d", scenario, failure, collective, bytes, notifier, scheme, seed)
	for _, key := range slices.Sorted(maps.Keys(variant)) {
		if !strings.HasPrefix(key, "collectives") { // they are in the name
			name += ", " + key + "=" + variant[key]
		}
	}
	return name
}

// results reads a file of results.
func results(t *testing.T, path string) []*report.Result {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	rs, err := report.Decode(file, path)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}
