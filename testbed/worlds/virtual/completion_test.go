package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestCompletion: where a step waits for the acknowledgement and not for the data alone,
// each but the last takes an acknowledgement's way back longer. What has one step, such
// as a permutation, is over with its last acknowledgement in any case.
func TestCompletion(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	// Between hosts of one ToR there are two links of 500 ns, else four, and an
	// acknowledgement's own length is under 10 ns a hop.
	const least, most = 1.0, 2.05 // us
	for _, tt := range []struct {
		c     scenario.Collective
		waits float64 // for a message, one after another
	}{
		{scenario.Collective{Kind: "permutation", Bytes: 1e5, Shift: 5}, 0},
		{scenario.Collective{Kind: "all-reduce", Algorithm: "ring", Bytes: 1e6}, 29},
		{scenario.Collective{Kind: "all-reduce", Algorithm: "halving-doubling", Bytes: 1e6}, 7},
	} {
		took := map[scenario.Completion]float64{}
		for _, on := range []scenario.Completion{scenario.OnArrival, scenario.OnAck} {
			run := servedRun(t, scenario.Servers{}, tt.c, "ethereal")
			run.Scenario.Host.Completion, run.Scenario.Agent.StartJitter = on, 0
			r := mustRun(t, lab, run)
			if !r.Finished || r.Timeouts != 0 {
				t.Fatalf("%v on %s: finished %v, %d time-outs", tt.c, on, r.Finished, r.Timeouts)
			}
			took[on] = *r.CCT
		}
		if more := took[scenario.OnAck] - took[scenario.OnArrival]; more < tt.waits*least || more > tt.waits*most {
			t.Errorf("%v: %v us on acknowledgement, %v on arrival; want %v to %v more",
				tt.c, took[scenario.OnAck], took[scenario.OnArrival], tt.waits*least, tt.waits*most)
		}
	}
}
