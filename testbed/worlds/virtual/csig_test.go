package virtual

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestCSIG: eight senders fill the link to one host as DCTCP's do, with a queue that is a fraction as long. The result
// is the same on one core and on several.
func TestCSIG(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	queue := map[transport.Control]float64{}
	for _, cc := range []transport.Control{transport.CSIG, transport.DCTCP} {
		run := servedRun(t, scenario.Servers{}, scenario.Collective{Kind: "incast", Bytes: 4e6, Senders: 8}, "ecmp")
		run.Scenario.Host.CongestionControl, run.Scenario.Host.Payload = cc, 4096
		r, _, _ := onCores(t, lab, run, 1, 1)
		if !r.Finished || r.Retransmissions != 0 || *r.CCT > 1.02**r.Bound {
			t.Errorf("%s: finished %v in %.3f of the bound, %d packets sent again", cc, r.Finished, *r.CCT / *r.Bound, r.Retransmissions)
		}
		if several, _, _ := onCores(t, lab, run, 2, 2); !cmp.Equal(r, several, cmpopts.IgnoreFields(report.Result{}, "WallMS")) {
			t.Errorf("%s: not the same on 2 cores", cc)
		}
		queue[cc] = r.QueueMean[len(r.QueueMean)-1]
	}
	if a, b := queue[transport.CSIG], queue[transport.DCTCP]; a <= 0 || b < 4*a {
		t.Errorf("mean queue of %.0f bytes, under dctcp %.0f", a, b)
	}
}
