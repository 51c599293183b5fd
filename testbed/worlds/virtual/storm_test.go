package virtual

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestStorm: a host's interface pauses its ToR for 2 ms. Flows that share links with its traffic wait as long, also
// Ethereal's, whose paths answer probes. What is paused is not taken for lossy: no path is left. With a watchdog
// switches drop what waits, and the others go on. It is so on several cores alike.
func TestStorm(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	s, err := scenario.Load("../../scenarios/storm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.Schemes, s.Seeds = s.Schemes[:2], s.Seeds[:1]
	end := s.Failures[1].Events[1].At.Micros()
	for _, after := range []fabric.Time{0, 200 * fabric.Microsecond} {
		s.Switch.PFC.Watchdog = after
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		if ecmp := mustRun(t, lab, runs[3]); after == 0 && doneAt(ecmp, "h1") < end {
			t.Errorf("%v: h1 is done at %v, the storm is over at %v", runs[3], doneAt(ecmp, "h1"), end)
		}
		healthy, storm := mustRun(t, lab, runs[0]), mustRun(t, lab, runs[2])
		if !healthy.Finished || !storm.Finished || healthy.Pauses != 0 || healthy.Drops != 0 || storm.Pauses == 0 {
			t.Fatalf("finished: %v, %v; pauses %d, %d; %d drops",
				healthy.Finished, storm.Finished, healthy.Pauses, storm.Pauses, healthy.Drops)
		}
		if lossless := storm.Drops == 0; lossless != (after == 0) {
			t.Errorf("watchdog %v: %d drops", after, storm.Drops)
		}
		for _, h := range []string{"h16", "h1"} { // beside it on the way up, and on the way down
			if after == 0 {
				break // its traffic stands on all paths: they answer, so nobody leaves them
			}
			if at := doneAt(storm, h); at >= end || doneAt(healthy, h) > at {
				t.Errorf("watchdog %v: %s is done at %v, healthy at %v; the storm is over at %v",
					after, h, at, doneAt(healthy, h), end)
			}
		}
		for _, f := range storm.FlipRecords {
			if after == 0 && f.Reason == hostagent.ByLoss.String() {
				t.Errorf("%s left path %d for what it loses, and nothing is lost", f.Host, f.From)
			}
		}
		if apart, at := doneAt(healthy, "h48"), doneAt(storm, "h48"); at != apart {
			t.Errorf("watchdog %v: h48, who has nothing to do with it, is done at %v, healthy at %v", after, at, apart)
		}
		got, _, _ := onCores(t, lab, runs[2], 2, 2)
		if d := cmp.Diff(storm, got, cmpopts.IgnoreFields(report.Result{}, "WallMS")); d != "" {
			t.Errorf("watchdog %v: 2 cores (-one, +several):\n%s", after, d)
		}
	}
}

// doneAt returns when a rank finished, in microseconds.
func doneAt(r *report.Result, host string) float64 {
	i := slices.IndexFunc(r.Timeline, func(e report.Event) bool { return e.Kind == report.KindDone && e.Where == host })
	if i < 0 {
		return -1
	}
	return r.Timeline[i].Time
}
