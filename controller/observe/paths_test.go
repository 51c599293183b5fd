package observe

import (
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

func fatTree(t *testing.T, k int) *fabric.Fabric {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: k})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestPathsAreBounded: what is kept of paths has a bound, and what agents say of time is held against sense.
func TestPathsAreBounded(t *testing.T) {
	f, now := fatTree(t, 16), time.Unix(1000, 0)
	var p Paths
	n := 0
	for dst := range f.ToRs() {
		for _, label := range f.PathLabels(f.ToRID(0), f.ToRID(dst)) {
			n++
			p.Store(suspicion.ProbedPath{SrcToR: f.ToRID(0), DstToR: f.ToRID(dst), Label: label}, now.Add(time.Duration(n)), &statepb.ProbeResult{
				Sent: 4, TripNs: int64(n), LeastNs: int64(2 * n), // less than the least cannot be
			})
		}
	}
	all := p.Status(f, now)
	if n <= maxPaths || len(all) != maxPaths {
		t.Fatalf("%d paths of %d are kept", len(all), n)
	}
	for _, s := range all {
		if s.Since.Before(now.Add(time.Duration(n-maxPaths))) || s.Trip == 0 || s.Least != 0 {
			t.Fatalf("%+v is kept of %d", s, n)
		}
	}
	path := suspicion.ProbedPath{SrcToR: f.ToRID(0), DstToR: f.ToRID(f.ToRs() - 1)}
	for _, trip := range []int64{-5, int64(time.Hour), 5000, 0, 4000} {
		p.Store(path, now.Add(time.Minute), &statepb.ProbeResult{Sent: 1, TripNs: trip, LeastNs: trip})
	}
	if x := p.seen[path]; x.trip != 4*time.Microsecond || x.least != 4*time.Microsecond {
		t.Errorf("%+v", x)
	}
	flows, ok := p.View(f, now, now.Add(time.Minute))
	if !ok || len(flows) != viewPaths {
		t.Errorf("the page is sent %d", len(flows))
	}
	if _, ok := p.View(f, now, now.Add(time.Minute)); ok {
		t.Error("the page is sent what it has")
	}
	if flows, ok := p.View(f, now, now.Add(time.Hour)); !ok || flows == nil || len(flows) > 0 {
		t.Errorf("the page is not updated that paths are forgotten: %v %v", flows, ok)
	}
}
