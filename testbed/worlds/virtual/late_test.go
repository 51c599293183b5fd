package virtual

import (
	"context"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestLate: a permutation lasts as much longer as its slowest rank lags. In a ring each step leads from a rank to the
// next: of the 30 steps of 16 ranks' all-reduce a chain meets one slow rank twice, and no chain meets it more often.
func TestLate(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	const d = 50 * fabric.Microsecond
	took := func(c scenario.Collective) float64 {
		run := servedRun(t, scenario.Servers{}, c, "ethereal")
		run.Scenario.Agent.StartJitter = 0
		r := mustRun(t, lab, run)
		if !r.Finished || r.Timeouts != 0 {
			t.Fatalf("%v: finished %v, %d time-outs", c, r.Finished, r.Timeouts)
		}
		return *r.CCT
	}
	for _, tt := range []struct {
		c    scenario.Collective
		more float64 // of d
	}{
		{scenario.Collective{Kind: "permutation", Bytes: 1e6, Shift: 5}, 1},
		{scenario.Collective{Kind: "all-reduce", Algorithm: "ring", Bytes: 1e6}, 2},
	} {
		healthy := took(tt.c)
		tt.c.Stragglers, tt.c.StragglerDelay = 1, d
		if more := took(tt.c) - healthy; more < 0.95*tt.more*d.Micros() || more > 1.05*tt.more*d.Micros() {
			t.Errorf("%v: %v us more; want %v times %v", tt.c, more, tt.more, d)
		}
	}
	skewed := scenario.Collective{Kind: "permutation", Bytes: 1e6, Shift: 5}
	healthy := took(skewed)
	skewed.StartSkew = d
	run := servedRun(t, scenario.Servers{}, skewed, "ethereal")
	last := fabric.Time(0)
	for rank := range run.Fabric.Hosts() {
		last = max(last, run.Lateness().StartDelay(rank))
	}
	if last <= d/2 || last > d {
		t.Errorf("of %d ranks the last begins after %v of %v", run.Fabric.Hosts(), last, d)
	}
	if more := took(skewed) - healthy; more < 0.9*last.Micros() || more > 1.05*last.Micros() {
		t.Errorf("%v: %v us more; the last rank begins after %v", skewed, more, last)
	}
}

// TestLateCores: late ranks are late in whatever region, and on however many cores.
func TestLateCores(t *testing.T) {
	lab := newLab(t)
	c := scenario.Collective{
		Kind: "all-reduce", Algorithm: "halving-doubling", Bytes: 1e6, StartSkew: 20 * fabric.Microsecond, Stragglers: 3,
		StragglerDelay: 5 * fabric.Microsecond,
	}
	run := servedRun(t, scenario.Servers{}, c, "reps")
	var all []float64
	for _, obs := range []scenario.Observer{{Regions: 1, Cores: 1}, {Regions: 4, Cores: 1}, {Regions: 4, Cores: 2}} {
		r, err := lab.Run(context.Background(), run, obs)
		if err != nil || !r.Finished {
			t.Fatalf("%v: %v", r, err)
		}
		all = append(all, *r.CCT)
	}
	if all[0] != all[1] || all[0] != all[2] {
		t.Errorf("CCTs in one region, in four, and on two cores: %v", all)
	}
}
