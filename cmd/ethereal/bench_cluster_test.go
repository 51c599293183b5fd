package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/cluster"
)

// TestBenchShards carries out a sweep as three tasks, one of which fails at first, and merges them: the same as by one
// command.
func TestBenchShards(t *testing.T) {
	path := sweepFile(t)
	dir := filepath.Join(t.TempDir(), "all")
	plain := filepath.Join(t.TempDir(), "plain.jsonl")
	bench := func(f *fake, want int, args ...string) string {
		t.Helper()
		code, _, text := call(t, f, append([]string{"bench"}, args...)...)
		if code != want {
			t.Fatalf("bench %s: exit %d: %s", strings.Join(args, " "), code, text)
		}
		return text
	}
	// The stand-in's results follow from a run's place in what is to do: one run a task, so that they do not differ.
	one := func(shard string) []string { return []string{path, "--dir", dir, "--shard", shard} }
	bench(&fake{}, exitOK, path, "--out", plain)
	broken := &fake{fail: map[int]error{0: errors.New("no power")}}
	bench(broken, exitRun, one("0/8")...)
	for i := range 7 {
		bench(&fake{}, exitOK, one(strconv.Itoa(i+1)+"/8")...)
	}

	status := func() (s cluster.Status) {
		t.Helper()
		code, out, text := call(t, &fake{}, "bench", "status", dir, "-o", "json")
		if err := json.Unmarshal([]byte(out), &s); code != exitOK || err != nil {
			t.Fatalf("status: exit %d, %v: %s", code, err, text)
		}
		return s
	}
	if s := status(); s.Done != 7 || len(s.Missing) != 1 || s.Missing[0].Task != 0 || len(s.Failed) != 1 || s.Failed[0].Error != "no power" {
		t.Errorf("%+v", s)
	}
	if code, out, _ := call(t, &fake{}, "bench", "status", dir); code != exitOK || !strings.Contains(out, "8 runs: 7 done, 1 missing, 1 of these failed") ||
		!strings.Contains(out, "no power") {
		t.Errorf("status: %s", out)
	}
	// A damaged line is named, and its run is carried out again.
	if err := os.WriteFile(filepath.Join(dir, cluster.Shard{Index: 3, Of: 8}.File()), []byte("{\"run_sha\x00\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := status(); s.Done != 6 || len(s.Damaged) != 1 {
		t.Errorf("with a damaged line: %+v", s)
	}
	if text := bench(&fake{}, exitOK, one("3/8")...); !strings.Contains(text, ".jsonl:1: ") || !strings.Contains(text, "the line is skipped") {
		t.Errorf("with a damaged line: %s", text)
	}
	if s := status(); s.Done != 7 {
		t.Errorf("after the run was carried out again: %+v", s)
	}
	if text := bench(&fake{}, exitRun, "merge", dir); !strings.Contains(text, "1 of 8 runs are missing") {
		t.Errorf("merge: %s", text)
	}
	submitted := bench(&fake{}, exitOK, "submit", path, "--dir", dir, "--slurm", "--tasks", "8")
	script, err := os.ReadFile(filepath.Join(dir, cluster.ArrayFile))
	if err != nil || !strings.Contains(string(script), "#SBATCH --array=0\n") || !strings.Contains(submitted, "1 of 8 tasks have something to do") {
		t.Errorf("%v: %s\n%s", err, submitted, script)
	}
	merged := filepath.Join(dir, "merged.jsonl")
	bench(&fake{}, exitOK, append(one("0/8"), "--merge", merged)...)
	if s := status(); s.Done != 8 || len(s.Missing)+len(s.Failed) != 0 {
		t.Errorf("%+v", s)
	}
	got, want := decodeFile(t, merged), decodeFile(t, plain)
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d", len(got), len(want))
	}
	order := map[string]bool{}
	for _, r := range got {
		order[r.RunSHA256] = true
		if r.RanOn == nil || r.RanOn.Host == "" || r.RanOn.Cores < 1 {
			t.Errorf("ran on %+v", r.RanOn)
		}
	}
	for _, r := range want {
		if !order[r.RunSHA256] {
			t.Errorf("%s is missing", r.RunSHA256)
		}
	}
	// The stand-in's numbers differ between the two: a merge of both says so.
	if text := bench(&fake{}, exitRun, "merge", dir, plain); !strings.Contains(text, "differs in cct_us") || !strings.Contains(text, "version test, ran on") {
		t.Errorf("merge of what differs: %s", text)
	}
}

func TestBenchClusterFlags(t *testing.T) {
	path := sweepFile(t)
	dir := t.TempDir()
	for args, want := range map[string]string{
		"bench " + path + " --shard 8/8":                      `"8/8" is not I/N; write 0/8`,
		"bench " + path + " --dir a --out b":                  "leave out one",
		"bench " + path + " --merge b":                        "name it with --dir",
		"bench status " + dir:                                 "has no plan of a sweep",
		"bench merge":                                         "name a folder or files",
		"bench merge none.jsonl":                              "no such file",
		"bench submit " + path + " --dir a":                   "write --slurm or --kubernetes",
		"bench submit " + path + " --slurm":                   "name a folder that all machines see",
		"bench submit " + path + " --slurm --dir a --tasks 0": "--tasks: 0; write 1 or more",
		"bench submit " + path + " --kubernetes --dir a":      "takes --image, --claim and --mount",
		"bench submit " + path + " --kubernetes --dir " + dir + " --image i --claim c --mount /nowhere --tasks 2": "is not below /nowhere",
	} {
		if code, _, text := call(t, &fake{}, strings.Fields(args)...); code != exitInput || !strings.Contains(text, want) {
			t.Errorf("%s: exit %d: %s; want %q", args, code, text, want)
		}
	}
}
