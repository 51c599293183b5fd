package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/buildinfo"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

const demo = "../../testbed/scenarios/demo.yaml"

// fake answers runs at once, with numbers made from their names. It stands in
// for the engine: these tests are of the command line.
type fake struct {
	fail map[int]error // by run
	hold chan struct{} // runs after the first wait for it, or for ctx
	seen sync.Map      // run index -> scenario.Run
}

func (f *fake) run(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
	f.seen.Store(run.Index, run)
	if f.hold != nil && run.Index > 0 {
		select {
		case <-f.hold:
		case <-ctx.Done():
			return &report.Result{
				Scenario: run.Scenario.Name, Scheme: run.Scheme.String(), Collective: run.Collective.Name(), Failure: run.Failure.Name,
				Bytes: int64(run.Collective.Bytes), Notifier: string(run.Notifier), Seed: run.Seed, End: report.Interrupted, EndTime: 7,
			}, ctx.Err()
		}
	}
	if err := f.fail[run.Index]; err != nil {
		return nil, err
	}
	if obs.Progress != nil {
		obs.Progress(scenario.Progress{Now: 100 * fabric.Microsecond, Hops: 1000, Events: 5000})
	}
	if obs.Events != nil {
		fmt.Fprintln(obs.Events, run)
	}
	for _, c := range obs.Captures {
		fmt.Fprintln(c.W, run.Fabric.LinkName(c.Link))
	}
	cct, bound := 300+float64(run.Index), 290.0
	return &report.Result{
		Scenario: run.Scenario.Name, Scheme: run.Scheme.String(), Collective: run.Collective.Name(), Failure: run.Failure.Name,
		Bytes: int64(run.Collective.Bytes), Notifier: string(run.Notifier), Seed: run.Seed, CCT: &cct, Bound: &bound,
		Finished: true, End: report.Finished, EndTime: cct, Fabric: run.Scenario.Fabric,
	}, nil
}

// call runs a command line and returns its exit code and output.
func call(t *testing.T, f *fake, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	a := &app{stdout: &out, stderr: &err, run: f.run, version: "test"}
	code = a.execute(t.Context(), args)
	return code, out.String(), err.String()
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		want string // in stderr
	}{
		{"run", "name a scenario file"},
		{"run a b", "a: no such file"},
		{"rum x", `ethereal has no command "rum"; did you mean ethereal run?`},
		{"run none.yaml", "none.yaml: no such file or directory"},
		{"run ../../testbed/scenario/testdata/bad/typos.yaml", "typos.yaml:9:3: host.pay_load: unknown key; did you mean payload?"},
		{"run DEMO --seds 4", "run has no flag --seds; did you mean --seeds?"},
		{"run DEMO --schemes etheral", `--schemes: unknown scheme "etheral"; did you mean ethereal?`},
		{"run DEMO --notifiers smoke", `--notifiers: unknown notifier "smoke"; write one of timeout, quench, gnmi, all`},
		{"run DEMO --seeds x", `--seeds: "x" is not a seed; write for example 7, 1,2,5 or 1..10`},
		{"run DEMO --seeds 1,1", "--seeds: 1 is in the list twice"},
		{"run DEMO --parallel 0", "--parallel: 0; write 1 or more"},
		{"run DEMO --pcap tor0-agg0", `--pcap: "tor0-agg0" is not LINK=FILE`},
		{"run DEMO --pcap tor0-agg9=x", `--pcap: no node "agg9"; nodes are h0 to h15`},
		{"run DEMO --pcap tor0-agg0=x --pcap tor0-agg1=x", "--pcap: x is named twice"},
		{"run DEMO --pcap tor0-agg9=x", "nodes are h0 to h15, tor0 to tor7, agg0 to agg7, core0 to core3; `ethereal topo --scenario DEMO -o json` lists the links"},
		{"run none.yaml", "name a scenario file, for example testbed/scenarios/demo.yaml"},
		{"run DEMO --out DIR/a --html DIR/a", "--html: DIR/a is where --out is; give each a file of its own"},
		{"run DEMO --out DIR/a --html DIR/./a", "--html: DIR/./a is where --out is"},
		{"run DEMO --html DIR/a --cpuprofile DIR/a", "--cpuprofile: DIR/a is where --html is"},
		{"run DEMO --out DEMO", "--out: DEMO is where the scenario is"},
		{"run DEMO --events DIR/a --pcap tor0-agg0=DIR/a", "is where --events is"},
		{"run DEMO --pcap tor0-agg0=DIR/no/x", "--pcap: open DIR/no/x"},
		{"run DEMO --events DIR/no/x", "--events: open DIR/no/x"},
		{"topo --k 0", "--k: 0; write 1 or more"},
		{"topo --hosts-per-tor -1 --k 4", "--hosts-per-tor: -1; write 1 or more"},
		{"topo --kind leaf-spine", "--kind leaf-spine: --tors, --spines, --hosts-per-tor missing"},
		{"topo --kind leaf-spine --tors 4 --hosts-per-tor 4", "--kind leaf-spine: --spines missing"},
		{"topo --kind leaf-spine --tors 4 --spines 2 --hosts-per-tor 4 --tors-per-pod 3", "--tors-per-pod: belongs to --kind fat-tree"},
		{"topo --k 4 --spines 2", "--spines: belongs to --kind leaf-spine; a fat-tree takes --k, or --pods, --tors-per-pod"},
		{"topo --k 400", "--k: 400 makes --pods 400, which is outside 1 to 256"},
		{"topo --pods 2", "--hosts-per-tor: missing; write 1 to 250"},
		{"topo --rate 0Gb/s", "--rate: a link of no rate carries nothing"},
		{"topo --fabric none.yaml", "name a fabric file"},
		{"run DEMO --out DIR/no/such.jsonl", "--out: open"},
		{"run DEMO --html DIR/no/such.html", "--html: open"},
		{"topo x", "topo takes no arguments"},
		{"trace ../../testbed/scenarios/workloads/gpt.yaml --ranks 100000000", "--ranks: 100000000; write 1 to 262144"},
		{"topo -o xml", `"xml" is unknown; write one of yaml, json, dot`},
		{"topo --k 5", "--k: 5 is not an even number of ports"},
		{"topo --k 4 --rate 400", `--rate: rate "400": the unit is missing`},
		{"topo --k 4 --fabric x", "exclude each other"},
		{"topo --fabric ../../testbed/scenario/testdata/bad/broken.fabric.yaml", "broken.fabric.yaml:3:1: radix: unknown key"},
	} {
		names := strings.NewReplacer("DEMO", demo, "DIR", dir)
		args, want := strings.Fields(names.Replace(c.args)), names.Replace(c.want)
		f := &fake{}
		code, stdout, stderr := call(t, f, args...)
		if code != exitInput || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%s: code %d, want %d; stderr %q, want %q in it; stdout %q", c.args, code, exitInput, stderr, want, stdout)
		}
		if _, ran := f.seen.Load(0); ran {
			t.Errorf("%s: something ran", c.args)
		}
	}
	if left := inDir(dir, "*"); len(left) > 0 {
		t.Errorf("bad input left files: %v", left)
	}
}

// TestDevices: one device may take several outputs.
func TestDevices(t *testing.T) {
	code, _, stderr := call(t, &fake{}, "run", demo, "--quiet", "--out", os.DevNull, "--html", os.DevNull)
	if code != exitOK {
		t.Errorf("code %d: %s", code, stderr)
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _ := call(t, &fake{}, "--version")
	if code != exitOK || stdout != "ethereal test\n" {
		t.Errorf("code %d, %q", code, stdout)
	}
	if v := buildinfo.Version(); !strings.Contains(v, "go1.") {
		t.Errorf("version %q names no Go release", v)
	}
}

func TestCompletion(t *testing.T) {
	code, stdout, _ := call(t, &fake{}, "completion", "bash")
	if code != exitOK || !strings.Contains(stdout, "__start_ethereal") {
		t.Errorf("code %d, %d bytes", code, len(stdout))
	}
	for args, want := range map[string]string{
		"run --schemes": "ecmp", "run --notifiers": "gnmi", "topo -o": "dot", "topo --kind": "leaf-spine", "run": "yaml",
	} {
		_, stdout, _ := call(t, &fake{}, append([]string{"__complete"}, append(strings.Fields(args), "")...)...)
		if !strings.Contains(stdout, want+"\n") {
			t.Errorf("completion of %s: %q, want %s", args, stdout, want)
		}
	}
}

func TestLogIsSilentByDefault(t *testing.T) {
	args := []string{"run", demo, "--quiet"}
	if _, _, stderr := call(t, &fake{}, args...); stderr != "" {
		t.Errorf("stderr %q, want nothing", stderr)
	}
	if _, _, stderr := call(t, &fake{}, append(args, "-v")...); !strings.Contains(stderr, `msg="run begins"`) {
		t.Errorf("-v: stderr %q, want a log", stderr)
	}
}

var errBroken = errors.New("the engine broke")

func inDir(dir, pattern string) []string {
	paths, _ := filepath.Glob(filepath.Join(dir, pattern))
	return paths
}
