package observe

import (
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// TestLargest: the pairs of hosts that send most are those that agents reported
// recently, and what an agent says that cannot be is left out.
func TestLargest(t *testing.T) {
	f, at := fatTree(t, 4), time.Unix(1000, 0)
	var l Largest
	say := func(host int, now time.Time, span time.Duration, sent ...*statepb.Sent) {
		l.Store(f, fabric.NodeID(host), now, &statepb.Report{SpanNs: int64(span), Largest: sent})
	}
	say(3, at, time.Second, &statepb.Sent{Dst: 9, Bytes: 5e6}, &statepb.Sent{Dst: 3, Bytes: 9e6}, &statepb.Sent{Dst: 1 << 30, Bytes: 9e6},
		&statepb.Sent{Dst: 9, Bytes: 5e6}, &statepb.Sent{Dst: 8, Bytes: 1 << 63})
	say(4, at, 2*time.Second, &statepb.Sent{Dst: 0, Bytes: 12e6}, &statepb.Sent{Dst: 1, Bytes: 1})
	say(5, at, 0, &statepb.Sent{Dst: 0, Bytes: 12e6})
	say(6, at, time.Hour, &statepb.Sent{Dst: 0, Bytes: 12e6})
	got := l.Status(f, at)
	if len(got) != 3 || got[0].From != "h4" || got[0].To != "h0" || got[0].Rate != 6e6 || got[1].From != "h3" || got[1].Rate != 5e6 {
		t.Fatalf("%+v", got)
	}
	if flows := l.View(f, at, at); len(flows) != 3 || flows[0].Text != "6 MB/s" || flows[0].Src != 4 {
		t.Errorf("on the page: %+v", flows)
	}
	later := at.Add(largestKept + 1)
	if got := l.Status(f, later); len(got) > 0 {
		t.Errorf("later: %+v", got)
	}
	if flows := l.View(f, at, later); flows == nil || len(flows) > 0 {
		t.Errorf("the page is not updated that there are none: %+v", flows)
	}
	if flows := l.View(f, at, later); flows != nil {
		t.Errorf("the page is notified again: %+v", flows)
	}
	for host := range f.Hosts() - 1 {
		say(host, at, time.Second, &statepb.Sent{Dst: 15, Bytes: uint64(host + 1)}, &statepb.Sent{Dst: 14, Bytes: 1})
	}
	if got := l.Status(f, at); len(got) != maxLargest || got[0].From != "h14" {
		t.Errorf("%d, first %+v", len(got), got[0])
	}
}
