//go:build linux

package live_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/tofino"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// tiny is a scenario of a few seconds.
const tiny = `
name: tiny
fabric:
  kind: leaf-spine
  tors: 2
  spines: 2
  hosts_per_tor: 1
  host_link: {rate: 100Mb/s, delay: 10us}
  tor_uplink: {rate: 100Mb/s, delay: 10us}
switch: {buffer: 1MB, ecn: {kmin: 1MB, kmax: 1MB, pmax: 1}}
host: {payload: 2048B, rto: 200ms, congestion_control: none, receiver: go-back-n}
agent: {failed_path_memory: 30s}
collectives: [{kind: all-to-all, bytes: 4MB}]
schemes: [ethereal]
failures:
  - name: healthy
  - name: cut
    events: [{at: 20ms, link: tor0-spine0, action: cut, detection: 1ms}]
    notifiers: [all]
deadline: 30s
`

// small is a scenario that models of a chip carry, which take a few hundred packets a second.
const small = `
name: small
fabric:
  kind: leaf-spine
  tors: 2
  spines: 2
  hosts_per_tor: 1
  host_link: {rate: 1Mb/s, delay: 10us}
  tor_uplink: {rate: 1Mb/s, delay: 10us}
switch: {buffer: 1MB, ecn: {kmin: 1MB, kmax: 1MB, pmax: 1}}
host: {payload: 4096B, rto: 3s, congestion_control: none, receiver: go-back-n}
agent: {failed_path_memory: 30s}
collectives: [{kind: all-to-all, bytes: 256kB}]
schemes: [ethereal]
failures:
  - name: healthy
  - name: cut
    events:
      - {at: 300ms, link: tor0-spine0, action: cut, detection: 1ms}
      - {at: 900ms, link: tor0-spine0, action: restore, detection: 1ms}
    notifiers: [all]
deadline: 60s
`

// TestRun builds a fabric of processes, moves bytes over it, and cuts a link of
// it. The checksums are compared by the run itself. A machine that stops a
// process for longer than a time-out moves flows, so the run has three goes.
func TestRun(t *testing.T) {
	systemtest.Only(t)
	for _, datapath := range live.Datapaths() {
		t.Run(datapath, func(t *testing.T) {
			if datapath == live.TofinoModel && os.Getenv(tofino.ModelVariable) == "" {
				t.Skipf("%s names no model: docs/tofino.md", tofino.ModelVariable)
			}
			if err := etherealtest.Retry(t, 3, func() error { return tinyRun(t, datapath) }); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestRunPINS does so with switches that execute sai_p4. It needs what p4c made of that, as SAI_P4=P4INFO,JSON.
func TestRunPINS(t *testing.T) {
	systemtest.Only(t)
	sai := os.Getenv("SAI_P4")
	if sai == "" {
		t.Skip("no sai_p4: compile it with p4c, and name the two files as SAI_P4=P4INFO,JSON")
	}
	if err := etherealtest.Retry(t, 3, func() error { return tinyRun(t, live.Interpreter, "--pins", sai) }); err != nil {
		t.Fatal(err)
	}
}

// tinyRun carries out the scenario tiny and says all that is wrong with it.
func tinyRun(t *testing.T, datapath string, flags ...string) error {
	dir := t.TempDir()
	bin, scenario, out := etherealtest.Binary(t), filepath.Join(dir, "tiny.yaml"), filepath.Join(dir, "out.jsonl")
	what := tiny
	if datapath == live.TofinoModel {
		what = small
	}
	if err := os.WriteFile(scenario, []byte(what), 0o600); err != nil {
		t.Fatal(err)
	}
	tmp, err := os.MkdirTemp("/tmp", "ethereal-test-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	cmd := exec.Command(bin, "run", "--world", "live", "--datapath", datapath, scenario, "--out", out, "-q")
	cmd.Args = append(cmd.Args, flags...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	timer := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Run(); err != nil {
		if text := stderr.String(); strings.Contains(text, "no network namespaces") || strings.Contains(text, "operation not permitted") {
			t.Skipf("no namespaces here: %s", text)
		} else if strings.Contains(text, "TCX hook") {
			t.Skipf("the kernel takes no program on an interface's way in: %s", text)
		}
		return fmt.Errorf("%w\n%s", err, stderr.String())
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	var results []*report.Result
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var r report.Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		results = append(results, &r)
	}
	if len(results) != 2 {
		return fmt.Errorf("%d results, want 2", len(results))
	}
	var wrong []error
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	for _, r := range results {
		if !r.Finished || r.CCT == nil || r.Bound == nil || *r.CCT < *r.Bound*0.98 {
			note("%s: finished %v, CCT %v, bound %v", r.Failure, r.Finished, r.CCT, r.Bound)
		}
	}
	// Every message of 2 MB is split over both uplinks; repeated packets come on
	// top.
	healthy, most := results[0], int64(1_048_000)
	if len(flags) > 0 {
		most = 1_150_000 // interfaces count acknowledgements too
	}
	for _, l := range healthy.Links {
		if datapath == live.TofinoModel {
			continue // its counters are not read
		}
		if strings.HasPrefix(l.From, "tor") && strings.HasPrefix(l.To, "spine") &&
			(l.DataBytes < 1_000_000 || healthy.Retransmissions == 0 && l.DataBytes > most) {
			note("healthy: %s to %s carried %d bytes of data, about 1,028,000 are its share; %d time-outs", l.From, l.To, l.DataBytes,
				healthy.Timeouts)
		}
	}
	if r := results[1]; r.Flips == 0 && r.Quenches == 0 {
		note("cut: no host noticed: %d flips, %d quenches, %d time-outs", r.Flips, r.Quenches, r.Timeouts)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		note("left behind: %v, %v", left, err)
	}
	return errors.Join(wrong...)
}
