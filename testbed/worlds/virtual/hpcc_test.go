package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestHPCC: two senders to one host use 95 % of its link, as the algorithm wants, less the telemetry's bytes, and leave next to no
// queue, where DCTCP has one of hundreds of packets. Regions do not change it.
func TestHPCC(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	took := map[scenario.CongestionControl]float64{}
	queue := map[scenario.CongestionControl]float64{}
	for _, cc := range []scenario.CongestionControl{scenario.HPCC, scenario.DCTCP} {
		run := servedRun(t, scenario.Servers{}, scenario.Collective{Kind: "incast", Bytes: 32e6, Senders: 2}, "ecmp")
		run.Scenario.Host.CongestionControl, run.Scenario.Host.Payload = cc, 4096
		r := mustRun(t, lab, run)
		if !r.Finished || r.Retransmissions != 0 {
			t.Fatalf("%s: finished %v, %d packets sent again", cc, r.Finished, r.Retransmissions)
		}
		took[cc] = *r.CCT / *r.Bound
		queue[cc] = r.QueueMean[len(r.QueueMean)-1]
	}
	if x := took[scenario.HPCC]; x < 1.055 || x > 1.08 {
		t.Errorf("hpcc takes %.3f of the bound; 1/0.95 and 1 %% of telemetry are 1.063", x)
	}
	if a, b := queue[scenario.HPCC], queue[scenario.DCTCP]; a > 10e3 || b < 20*a {
		t.Errorf("mean queue of %.0f bytes, under dctcp %.0f", a, b)
	}
}
