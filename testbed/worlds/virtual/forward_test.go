package virtual

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestFastForward: with repeated collectives skipped, a program takes as long as without, and an uplink that dies is
// left all the same. Nothing is skipped after a failure that hosts do not know for certain.
func TestFastForward(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("jobs.yaml", "jobs:\n  - {ranks: 0..7, repeat: 12, steps: [{compute: 5us}, {all-reduce: 400KB, algorithm: halving-doubling}]}\n")
	path := write("scenario.yaml", `name: forward
fabric: {kind: leaf-spine, tors: 4, spines: 2, hosts_per_tor: 2, host_link: {rate: 200Gb/s, delay: 8us}, tor_uplink: {rate: 400Gb/s, delay: 1us}}
host: {payload: 4096B}
agent: {start_jitter: 0ns}
collectives: [{kind: workload, file: jobs.yaml}]
schemes: [ethereal]
failures:
  - name: healthy
  - {name: cut, notifiers: [all, timeout], events: [{at: 800us, action: cut, link: uplink of tor0, detection: 10us}]}
`)
	s, err := scenario.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	forward := *s
	forward.FastForward = scenario.Repeats
	slow, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	fast, err := forward.Expand()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		sent int     // of the 12 collectives at most
		off  float64 // of the completion time; where packets are lost, it depends on which
	}{{3, 0.005}, {9, 0.005}, {10, 0.05}} {
		a, err := newLab(t).Run(t.Context(), slow[i], scenario.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := newLab(t).Run(t.Context(), fast[i], scenario.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		if a.CCT == nil || b.CCT == nil || math.Abs(*a.CCT-*b.CCT) > want.off**a.CCT {
			t.Errorf("%v: took %v us, skipping %v us", slow[i], *a.CCT, *b.CCT)
		}
		if (a.Flips > 0) != (b.Flips > 0) || (a.Timeouts > 0) != (b.Timeouts > 0) {
			t.Errorf("%v: %d flips and %d time-outs, skipping %d and %d", slow[i], a.Flips, a.Timeouts, b.Flips, b.Timeouts)
		}
		if n := b.FastForward.Of - b.FastForward.Skipped; b.FastForward.Of != 12 || n > want.sent || a.FastForward != nil {
			t.Errorf("%v: %+v, want at most %d sent", slow[i], b.FastForward, want.sent)
		}
	}
}
