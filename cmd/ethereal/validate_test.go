package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files that are right. The broken ones below differ in one place.
var rightFiles = map[string]string{
	"scenario.yaml": `name: demo
fabric: {kind: fat-tree, k: 4}
collectives:
  - {kind: all-to-all, bytes: 1MB}
schemes: [ethereal, ecmp]
host:
  rto: 1ms
  payload: 4096B
failures:
  - name: cut
    notifiers: [gnmi]
    events:
      - {at: 10us, action: cut, link: tor0-agg0, detection: 10us}
deadline: 20ms
seeds: 1..3
`,
	"experiment.yaml": `name: one
fabric: {kind: fat-tree, k: 4}
collectives: [{kind: all-to-all, bytes: 1MB}]
schemes: [ethereal]
steps:
  - {at: 10us, action: cut, link: uplink of tor0, detection: 10us}
expect:
  - {that: finished, is: true}
  - {that: flips, min: 1}
worlds:
  live: {time: 1000}
`,
	"sweep.yaml": `name: all
parts:
  - scenario: scenario.yaml
    set: {host.rto: 2ms}
    vary:
      collectives[*].bytes: [1MB, 2MB]
`,
	"fabric.yaml": `kind: leaf-spine
tors: 2
spines: 1
hosts_per_tor: 1
host_link: {rate: 100Gb/s, delay: 500ns}
`,
	"targets.yaml": `switches:
  tor0: {p4runtime: '127.0.0.1:9559', device_id: 3}
  tor1: {p4runtime: '127.0.0.1:9560', device_id: 4}
  spine0: {p4runtime: '127.0.0.1:9561', gnmi: none}
hosts:
  h0: {admin: '127.0.0.1:9661'}
tables:
  carrier_v4: udp-sport
  quench_interval: 10us
  ecn: {kmin: 100KB, kmax: 400KB, pmax: 0.2, unit: 1500B}
suspicion:
  agents: 2
`,
	"workload.yaml": `jobs:
  - {kind: all-to-all, bytes: 1MB, ranks: '0..1'}
  - kind: all-gather
    bytes: 1MB
    ranks: '0,1'
    repeat: 2
`,
	"gpt.yaml":    "gpt:\n  layers: 4\n  tensor: 2\n",
	"matrix.yaml": "matrix: {file: matrix.csv, unit: 14336B}\n",
	"matrix.csv":  "0,3\n2,0\n",
	"deployment.json": `{
  "fabric": "fabric.yaml",
  "targets": "targets.yaml",
  "hosts": ["h0.sock", "h1.sock"]
}
`,
	"t.groups.json": "{\n  \"0\": [0, 1]\n}\n",
}

// brokenFile is a file that is right but for one place, and what is to be said of it.
type brokenFile struct {
	file, old, now string
	line           int
	key            string // "": the file as a whole
	remedy         string // in the error
}

var brokenFiles = []brokenFile{
	// Any file.
	{"scenario.yaml", "name: demo\n", "name: demo\n\tx: 1\n", 2, "", "indent with spaces"},
	{"scenario.yaml", "fabric: {kind: fat-tree, k: 4}", "fabric: {kind: fat-tree, k: 4", 2, "", "check indentation"},
	{"scenario.yaml", "seeds: 1..3\n", "seeds: 1..3\n---\nname: more\n", 16, "", "keep one document per file"},
	{"scenario.yaml", "deadline: 20ms", "deadline: 20ms\ndeadline: 30ms", 15, "deadline", "keep one of the two"},
	{"fabric.yaml", "kind: leaf-spine\ntors: 2\nspines: 1\nhosts_per_tor: 1\nhost_link: {rate: 100Gb/s, delay: 500ns}\n", "- 1\n", 1, "", "write key: value pairs"},
	// Scenarios.
	{"scenario.yaml", "k: 4", "kk: 4", 2, "fabric.kk", "did you mean k?"},
	{"scenario.yaml", "k: 4", "k: 5", 2, "fabric.k", "even"},
	{"scenario.yaml", "kind: fat-tree", "kind: fattree", 2, "fabric.kind", "write fat-tree, leaf-spine or dragonfly"},
	{"scenario.yaml", "kind: all-to-all", "kind: alltoall", 4, "collectives[0].kind", "did you mean all-to-all?"},
	{"scenario.yaml", ", bytes: 1MB", "", 4, "collectives[0].bytes", "for example 16MB"},
	{"scenario.yaml", "bytes: 1MB", "bytes: 1 megabyte", 4, "collectives[0].bytes", "16MB"},
	{"scenario.yaml", "ethereal, ecmp", "ethereal, ecpm", 5, "schemes[1]", "did you mean ecmp?"},
	{"scenario.yaml", "ethereal, ecmp", "ecmp, ecmp", 5, "schemes[1]", "remove one"},
	{"scenario.yaml", "rto: 1ms", "rto: 1", 7, "host.rto", "1ms"},
	{"scenario.yaml", "payload: 4096B", "payload: 64KB", 8, "host.payload", "write"},
	{"scenario.yaml", "payload: 4096B", "paylaod: 4096B", 8, "host.paylaod", "did you mean payload?"},
	{"scenario.yaml", "[gnmi]", "[gmni]", 11, "failures[0].notifiers[0]", "did you mean gnmi?"},
	{"scenario.yaml", "link: tor0-agg0", "link: tor0-agg9", 13, "failures[0].events[0].link", "agg0 to agg7"},
	{"scenario.yaml", "action: cut", "action: sever", 13, "failures[0].events[0].action", "cut"},
	{"scenario.yaml", "at: 10us", "at: 30ms", 13, "failures[0].events[0].at", "move the event or the deadline"},
	{"scenario.yaml", "seeds: 1..3", "seeds: 3..1", 15, "seeds", "1..10"},
	{"scenario.yaml", "seeds: 1..3", "seeds: 1..9999\nname2: x", 16, "name2", "did you mean name?"},
	// Experiments.
	{"experiment.yaml", "link: uplink of tor0", "link: uplink of tor99", 6, "steps[0].link", "tor0 to tor7"},
	{"experiment.yaml", "that: flips", "that: flip", 9, "expect[1].that", "did you mean flips?"},
	{"experiment.yaml", "time: 1000", "time: -1", 11, "worlds.live.time", "1000"},
	{"experiment.yaml", "  live:", "  alive:", 11, "worlds.alive", "did you mean live?"},
	// Sweeps.
	{"sweep.yaml", "scenario: scenario.yaml", "scenario: nowhere.yaml", 3, "parts[0].scenario", "relative to this one"},
	{"sweep.yaml", "host.rto: 2ms", "host.rot: 2ms", 3, "parts[0]", "did you mean rto?"},
	{"sweep.yaml", "[1MB, 2MB]", "1MB", 6, "parts[0].vary.collectives[*].bytes", "[1MB, 4MB]"},
	{"sweep.yaml", "collectives[*].bytes", "collectives[7].bytes", 6, "parts[0].vary.collectives[7].bytes", "name a key of the scenario"},
	{"sweep.yaml", "name: all", "title: all", 1, "title", "name"},
	// Fabrics.
	{"fabric.yaml", "spines: 1", "spines: 0", 3, "spines", "write"},
	{"fabric.yaml", "rate: 100Gb/s", "rate: 100G", 5, "host_link.rate", "400Gb/s"},
	{"fabric.yaml", "hosts_per_tor: 1", "hosts_per_tor: many", 4, "hosts_per_tor", "whole number"},
	// Targets, as the fabric is.
	{"targets.yaml", "  tor1:", "  tor9:", 3, "switches.tor9", "name a switch of the fabric"},
	{"targets.yaml", "  tor1: {p4runtime: '127.0.0.1:9560', device_id: 4}\n", "", 1, "switches.tor1", "write tor1: {p4runtime: HOST:PORT}"},
	{"targets.yaml", "p4runtime: '127.0.0.1:9560', ", "", 3, "switches.tor1.p4runtime", "write HOST:PORT"},
	{"targets.yaml", "'127.0.0.1:9560'", "127.0.0.1", 3, "switches.tor1.p4runtime", "9559"},
	{"targets.yaml", "device_id: 4", "device_id: 4, profile: tofno-sde", 3, "switches.tor1.profile", "did you mean tofino-sde?"},
	{"targets.yaml", "device_id: 4", "device_id: 4, profile: bmv2", 3, "switches.tor1.gnmi", "`ethereal gnmi`"},
	{"targets.yaml", "device_id: 4", "device_id: 4, ports: [{name: a, id: 1}]", 3, "switches.tor1.ports", "lists all its 2"},
	{"targets.yaml", "  h0:", "  spine0:", 6, "hosts.spine0", "from h0 to h1"},
	{"targets.yaml", "carrier_v4: udp-sport", "carrier_v4: ipv6-flowlabel", 8, "tables.carrier_v4", "udp-sport"},
	{"targets.yaml", "quench_interval: 10us", "quench_interval: 10ns", 9, "tables.quench_interval", "10us"},
	{"targets.yaml", "kmax: 400KB", "kmax: 4KB", 10, "tables.ecn.kmax", ""},
	{"targets.yaml", "pmax: 0.2", "pmax: 20", 10, "tables.ecn.pmax", ""},
	{"targets.yaml", "agents: 2", "agents: -2", 12, "suspicion.agents", "1 or more"},
	{"targets.yaml", "suspicion:\n", "programs:\n  tna2: {}\nsuspicion:\n", 12, "programs.tna2", "one of v1model, tna, t2na"},
	{"targets.yaml", "suspicion:\n", "programs:\n  v1model: {p4info: nowhere.txt}\nsuspicion:\n", 12, "programs.v1model.p4info", "compiler wrote"},
	// Workloads.
	{"workload.yaml", "kind: all-gather", "kind: allgather", 3, "jobs[1].kind", "all-gather"},
	{"workload.yaml", "'0,1'", "'0,9'", 5, "jobs[1].ranks", "0 to 1"},
	{"workload.yaml", "repeat: 2", "repeat: -2", 6, "jobs[1].repeat", "10"},
	{"workload.yaml", "jobs:\n", "gpt: {}\njobs:\n", 1, "", "write one of them"},
	{"gpt.yaml", "layers: 4", "layers: -4", 2, "gpt.layers", "1 or more"},
	{"gpt.yaml", "tensor: 2", "tensor: 4", 1, "gpt", "use a larger fabric"},
	{"gpt.yaml", "gpt:\n  layers: 4\n  tensor: 2\n", "chakra: {trace: nowhere}\n", 1, "chakra.trace", "PREFIX"},
	{"matrix.yaml", "matrix.csv", "nowhere.csv", 1, "matrix.file", "no such file"},
	// Deployments and groups.
	{"deployment.json", `"fabric.yaml"`, `"nowhere.yaml"`, 2, "fabric", "name a fabric file"},
	{"deployment.json", `, "h1.sock"`, ``, 4, "hosts", "control socket of each host"},
	{"deployment.json", `"targets"`, `"target"`, 3, "target", "did you mean targets?"},
	{"t.groups.json", "[0, 1]", "[0, x]", 2, "0[1]", "write for example 4"},
}

// TestValidate breaks files in one place each: what is said names the file, the line, the key
// and a remedy, and nothing runs.
func TestValidate(t *testing.T) {
	validate := func(t *testing.T, files map[string]string, name string) (int, []checkedFile, string) {
		dir := t.TempDir()
		for n, text := range files {
			if err := os.WriteFile(filepath.Join(dir, n), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		t.Chdir(dir)
		var out, errs bytes.Buffer
		a := &app{stdout: &out, stderr: &errs, version: "v"}
		args := []string{"validate", "-o", "json", name}
		if name != "fabric.yaml" {
			args = append(args, "--fabric", "fabric.yaml")
		}
		code := a.execute(t.Context(), args)
		var found []checkedFile
		if err := json.Unmarshal(out.Bytes(), &found); err != nil || len(found) != 1 {
			t.Fatalf("%v: %v\n%s%s", args, err, out.String(), errs.String())
		}
		return code, found, errs.String()
	}
	for name := range rightFiles {
		if strings.HasSuffix(name, ".csv") {
			continue // other files name it
		}
		t.Run("right/"+name, func(t *testing.T) {
			if code, found, errs := validate(t, rightFiles, name); code != exitOK || !found[0].OK || found[0].What == "" {
				t.Errorf("exit code %d: %+v\n%s", code, found, errs)
			}
		})
	}
	if len(brokenFiles) < 50 {
		t.Errorf("%d broken files", len(brokenFiles))
	}
	for i, b := range brokenFiles {
		t.Run(fmt.Sprintf("broken/%02d-%s", i+1, b.file), func(t *testing.T) {
			files := maps.Clone(rightFiles)
			if !strings.Contains(files[b.file], b.old) {
				t.Fatalf("%s has no %q", b.file, b.old)
			}
			files[b.file] = strings.Replace(files[b.file], b.old, b.now, 1)
			code, found, errs := validate(t, files, b.file)
			if code != exitInput || found[0].OK || len(found[0].Errors) == 0 {
				t.Fatalf("exit code %d: %+v", code, found)
			}
			right := false
			for _, e := range found[0].Errors {
				if e.File == "" || e.Line == 0 || e.Problem == "" || e.Remedy == "" {
					t.Errorf("lacks file, line, problem or remedy: %+v", e)
				}
				right = right || e.File == b.file && e.Line == b.line && e.Key == b.key && strings.Contains(e.Problem+"; "+e.Remedy, b.remedy)
			}
			if !right || strings.Contains(errs, "yaml.") || strings.Contains(errs, "daemon.") {
				t.Errorf("want line %d, key %q, %q in:\n%s", b.line, b.key, b.remedy, errs)
			}
			t.Log(strings.TrimSpace(errs))
		})
	}
}

// TestValidateSeveral compares targets with the fabric beside them, and goes on after a file that is wrong.
func TestValidateSeveral(t *testing.T) {
	t.Chdir(t.TempDir())
	for n, text := range rightFiles {
		if err := os.WriteFile(n, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	a := &app{stdout: &out, stderr: &out, version: "v"}
	if code := a.execute(t.Context(), []string{"validate", "targets.yaml", "nowhere.yaml", "fabric.yaml", "scenario.yaml"}); code != exitInput {
		t.Errorf("exit code %d", code)
	}
	want := `targets.yaml: targets of 3 switches
fabric.yaml: a fabric of 2 hosts and 3 switches
scenario.yaml: a scenario of 6 runs
nowhere.yaml: stat nowhere.yaml: no such file or directory; name a file that is there and can be read
`
	if out.String() != want {
		t.Errorf("said:\n%s\nwant:\n%s", out.String(), want)
	}
}
