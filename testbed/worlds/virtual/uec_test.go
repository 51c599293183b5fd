package virtual

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestUltraEthernet: switches that cut packets lose none, their queues stay within the
// limit, what was cut is retransmitted before any timer, and an all-to-all and an incast come
// within 15 % of the bound, with the same result on one core and on several.
func TestUltraEthernet(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	const limit = 220480 // a round trip's bytes
	const text = `
name: uec
fabric: {kind: leaf-spine, tors: 4, spines: 4, hosts_per_tor: 4}
switch: {trim: 220480B, ecn: {kmin: 45760B, kmax: 178880B, pmax: 1}}
host: {payload: 4096B, congestion_control: nscc, receiver: ideal, rto: 10ms}
collectives:
  - {kind: all-to-all, bytes: 4MB}
  - {kind: incast, bytes: 500KB}
schemes: [ethereal, spray, reps]
`
	var runs []scenario.Run
	for _, control := range []string{"nscc", "rccc"} {
		s, err := scenario.Parse("uec.yaml", []byte(strings.ReplaceAll(text, "nscc", control)), nil)
		if err != nil {
			t.Fatal(err)
		}
		more, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, more...)
	}
	cut := int64(0)
	for _, run := range runs {
		one, _, _ := onCores(t, lab, run, 1, 1)
		cut += one.NAKs
		if longest := one.QueueMax[len(one.QueueMax)-1]; !one.Finished || one.Drops != 0 || one.Timeouts != 0 || longest > 1.001*limit ||
			one.Retransmissions != one.NAKs || *one.CCT > 1.15**one.Bound {
			t.Errorf("%v: finished %v, %d drops, %d time-outs, %d NAKs, %d packets sent again, longest queue %v, %v us, bound %v", run,
				one.Finished, one.Drops, one.Timeouts, one.NAKs, one.Retransmissions, longest, *one.CCT, *one.Bound)
		}
		several, _, _ := onCores(t, lab, run, 2, 2)
		if d := cmp.Diff(one, several, cmpopts.IgnoreFields(report.Result{}, "WallMS")); d != "" {
			t.Errorf("%v: 2 cores (-one, +several):\n%s", run, d)
		}
	}
	if cut == 0 {
		t.Error("nothing was cut")
	}
}

// TestSwiftTarget: two and eight senders to one host hold its link's queue at Swift's target
// delay, a little more for eight, whose windows are smaller, and the link full.
func TestSwiftTarget(t *testing.T) {
	lab := newLab(t)
	s, err := scenario.Parse("swift.yaml", []byte(`
name: swift
fabric: {kind: leaf-spine, tors: 9, spines: 4, hosts_per_tor: 1}
host: {payload: 4096B, congestion_control: swift, congestion_params: {target_delay: 3us}}
collectives: [{kind: incast, senders: 2, bytes: 32MB}, {kind: incast, senders: 8, bytes: 8MB}]
schemes: [ecmp]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	const target = 3e-6 * 400e9 / 8 // bytes
	for i, run := range runs {
		r := mustRun(t, lab, run)
		mean := r.QueueMean[len(r.QueueMean)-1] / target
		if most := []float64{1.2, 1.7}[i]; mean < 0.9 || mean > most || *r.CCT > 1.01**r.Bound || r.Timeouts+r.Drops != 0 {
			t.Errorf("%v: a mean queue of %.2f targets, %v us of %v, %d time-outs, %d drops", run, mean, *r.CCT, *r.Bound, r.Timeouts, r.Drops)
		}
	}
}
