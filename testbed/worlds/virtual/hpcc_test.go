package virtual

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestHPCC: two senders to one host use 95 % of its link, as the algorithm wants, less the telemetry's bytes, and leave
// next to no queue, where DCTCP has one of hundreds of packets.
func TestHPCC(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	took := map[transport.Control]float64{}
	queue := map[transport.Control]float64{}
	for _, cc := range []transport.Control{transport.HPCC, transport.DCTCP} {
		run := servedRun(t, scenario.Servers{}, scenario.Collective{Kind: "incast", Bytes: 32e6, Senders: 2}, "ecmp")
		run.Scenario.Host.CongestionControl, run.Scenario.Host.Payload = cc, 4096
		r := mustRun(t, lab, run)
		if !r.Finished || r.Retransmissions != 0 {
			t.Fatalf("%s: finished %v, %d packets sent again", cc, r.Finished, r.Retransmissions)
		}
		took[cc] = *r.CCT / *r.Bound
		queue[cc] = r.QueueMean[len(r.QueueMean)-1]
	}
	if x := took[transport.HPCC]; x < 1.055 || x > 1.08 {
		t.Errorf("hpcc takes %.3f of the bound; 1/0.95 and 1 %% of telemetry are 1.063", x)
	}
	if a, b := queue[transport.HPCC], queue[transport.DCTCP]; a > 10e3 || b < 20*a {
		t.Errorf("mean queue of %.0f bytes, under dctcp %.0f", a, b)
	}
}

// TestHPCCIncast: eight senders have no more on the way than a round trip's bytes each, and the queue of that is the
// longest there is; DCQCN's is many times as long, and so is its mean. A link that is degraded under way keeps next to
// no queue. The result is the same on one core and on several.
func TestHPCCIncast(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	const text = `
name: hpcc
fabric: {kind: leaf-spine, tors: 9, spines: 4, hosts_per_tor: 1}
host: {payload: 4096B, congestion_control: CONTROL}
collectives: [{kind: incast, senders: 8, bytes: 4MB}]
schemes: [ecmp]
failures:
  - {name: healthy}
  - {name: slow, notifiers: [timeout], events: [{at: 100us, action: degrade, link: h0-tor0, rate: 100Gb/s}]}
`
	results := map[string][]*report.Result{}
	for _, control := range []string{"hpcc", "dcqcn"} {
		s, err := scenario.Parse("hpcc.yaml", []byte(strings.ReplaceAll(text, "CONTROL", control)), nil)
		if err != nil {
			t.Fatal(err)
		}
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range runs {
			one, _, _ := onCores(t, lab, run, 1, 1)
			results[control] = append(results[control], one)
			if several, _, _ := onCores(t, lab, run, 2, 2); !cmp.Equal(one, several, cmpopts.IgnoreFields(report.Result{}, "WallMS")) {
				t.Errorf("%v: not the same on 2 cores", run)
			}
		}
	}
	last := func(x []float64) float64 { return x[len(x)-1] }
	for i, h := range results["hpcc"] {
		d := results["dcqcn"][i]
		if !h.Finished || h.Retransmissions != 0 || *h.CCT > 1.15**h.Bound || last(h.QueueMean) > 50e3 || last(h.QueueMax) > 1.4e6 {
			t.Errorf("%s: %.3f of the bound, %d packets sent again, a mean queue of %.0f bytes, the longest %.0f", h.Failure,
				*h.CCT / *h.Bound, h.Retransmissions, last(h.QueueMean), last(h.QueueMax))
		}
		if last(d.QueueMax) < 10*last(h.QueueMax) || last(d.QueueMean) < 10*last(h.QueueMean) {
			t.Errorf("%s: dcqcn has a mean queue of %.0f bytes and a longest of %.0f", h.Failure, last(d.QueueMean), last(d.QueueMax))
		}
	}
}
