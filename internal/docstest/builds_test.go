package docstest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/runner/sweep"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

var rewriteBuilds = flag.String("rewrite-builds", "",
	"carry out a sample of a file's runs again, or of all files', and write which of them come out as they are kept: a name, or all")

const buildsFile = "evaluation/builds.json"

// kept is what is known of a file of results.
type kept struct {
	Runs   int            `json:"runs"`
	Builds map[string]int `json:"builds"` // runs by the build that made them
	// Again are runs that were carried out again by the build of the commit that wrote this, Differ those of them whose
	// events are others than those in the file.
	Again  []string `json:"again"`
	Differ []string `json:"differ,omitempty"`
}

// TestEvaluationBuilds: the table of evaluation.md says which builds made each file of results, and it holds: a run of
// each file, the cheapest, comes out today as it is kept, or the table says that the file is stale. A file may be of
// several builds where a sample of its runs was carried out again by one.
func TestEvaluationBuilds(t *testing.T) {
	files, err := filepath.Glob("evaluation/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no results: %v", err)
	}
	known := map[string]kept{}
	if text, err := os.ReadFile(buildsFile); err == nil {
		if err := json.Unmarshal(text, &known); err != nil {
			t.Fatalf("%s: %v", buildsFile, err)
		}
	} else if *rewriteBuilds == "" {
		t.Fatal(err)
	}
	lab, err := virtual.NewLab()
	if err != nil {
		t.Fatal(err)
	}
	run := runner.Timed(lab.Run)
	for _, path := range files {
		name := filepath.Base(path)
		rs := results(t, path)
		if *rewriteBuilds == name || *rewriteBuilds == "all" {
			known[name] = again(t, run, path, rs)
			continue
		}
		was, ok := known[name]
		if builds := buildsOf(rs); !ok || was.Runs != len(rs) || !maps.Equal(was.Builds, builds) {
			t.Errorf("%s: %d runs by build %v, in %s %d by %v; go test ./internal/docstest -run TestEvaluationBuilds -rewrite-builds=%s",
				path, len(rs), builds, buildsFile, was.Runs, was.Builds, name)
			continue
		}
		if len(was.Builds) > 1 && len(was.Again) < 2*len(was.Builds) {
			t.Errorf("%s is of %d builds, and few of its runs were carried out again; make it again: "+
				"bin/ethereal bench testbed/sweeps/%s.yaml --again --out docs/evaluation/%s",
				path, len(was.Builds), strings.TrimSuffix(name, ".jsonl"), name)
		}
		is := carryOut(t, run, path, sample(rs, 1)[:1])
		if stale := len(was.Differ) > 0; !stale && len(is.Differ) > 0 {
			t.Errorf("%s is stale: %s comes out otherwise today; make it again: bin/ethereal bench testbed/sweeps/%s.yaml "+
				"--again --out docs/evaluation/%s, or say that it is: go test ./internal/docstest -run TestEvaluationBuilds -rewrite-builds=%s",
				path, is.Differ[0], strings.TrimSuffix(name, ".jsonl"), name, name)
		}
	}
	for name := range known {
		if !slices.Contains(files, "evaluation/"+name) {
			t.Errorf("%s has %s, which is not there", buildsFile, name)
		}
	}
	if *rewriteBuilds != "" {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(known); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(buildsFile, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		*rewrite = true
	}
	checkTable(t, "results/evaluation.md", "builds", buildsTable(known))
}

// buildsTable names the stale files, or says that there are none.
func buildsTable(known map[string]kept) string {
	var stale strings.Builder
	runs, again := 0, 0
	for _, name := range slices.Sorted(maps.Keys(known)) {
		k := known[name]
		runs, again = runs+k.Runs, again+len(k.Again)
		if n := len(k.Differ); n > 0 {
			fmt.Fprintf(&stale, "- **`%s` is stale**: %d of %d runs differ, the first is %s\n", name, n, len(k.Again), k.Differ[0])
		}
	}
	if stale.Len() == 0 {
		return fmt.Sprintf("No result is known to differ from today's program. The %d files hold %d runs; %d of these were repeated, and none differed.\n", len(known), runs, again)
	}
	return stale.String()
}

func buildsOf(rs []*report.Result) map[string]int {
	m := map[string]int{}
	for _, r := range rs {
		m[r.Version]++
	}
	return m
}

// most bounds the packets' hops of a run that is carried out again, but for each file's cheapest.
const most = 700_000

// sample returns some results: of each scheme and notifier, the cheapest, first the cheapest of all.
func sample(rs []*report.Result, each int) []*report.Result {
	byCost := slices.Clone(rs)
	slices.SortStableFunc(byCost, func(a, b *report.Result) int { return int(int64(a.PacketHops) - int64(b.PacketHops)) })
	taken := map[string]int{}
	return slices.DeleteFunc(byCost, func(r *report.Result) bool {
		kind := fmt.Sprint(r.Scheme, r.Notifier)
		taken[kind]++
		return taken[kind] > each || r.PacketHops > most && r != byCost[0]
	})
}

// again carries out a sample of a file's runs.
func again(t *testing.T, run runner.Run, path string, rs []*report.Result) kept {
	k := carryOut(t, run, path, sample(rs, 1))
	k.Runs, k.Builds = len(rs), buildsOf(rs)
	t.Logf("%s: %d runs again, %d differ", path, len(k.Again), len(k.Differ))
	return k
}

// carryOut carries out runs of a file again.
func carryOut(t *testing.T, run runner.Run, path string, rs []*report.Result) (k kept) {
	t.Helper()
	s, err := sweep.Load(filepath.Join("..", "testbed", "sweeps", strings.TrimSuffix(filepath.Base(path), ".jsonl")+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	byHash, byName := map[string]scenario.Run{}, map[string][]scenario.Run{}
	for _, c := range s.Cases {
		r := c.Run
		byHash[c.Hash] = r
		name := runName(r.Scenario.Name, r.Failure.Name, r.Collective.Name(), int64(r.Collective.Bytes),
			string(r.Notifier), r.Scheme.String(), r.Seed, c.Variant)
		byName[name] = append(byName[name], r)
	}
	for _, r := range rs {
		name := runName(r.Scenario, r.Failure, r.Collective, r.Bytes, r.Notifier, r.Scheme, r.Seed, r.Variant)
		c, ok := byHash[r.RunSHA256]
		if !ok { // there are new defaults since
			if len(byName[name]) != 1 {
				continue // it cannot be distinguished from others, or is no run of the sweep: TestEvaluationFiles says so
			}
			c = byName[name][0]
		}
		got, err := run(context.Background(), c, scenario.Observer{Cores: 1})
		if err != nil {
			t.Fatalf("%s: %s: %v", path, name, err)
		}
		k.Again = append(k.Again, name)
		if got.EventsSHA256 != r.EventsSHA256 {
			k.Differ = append(k.Differ, name)
		}
	}
	return k
}
