package daemon

import (
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// TestLargest: a report names so many hosts, those that were sent most to first,
// and there is none when nothing was sent.
func TestLargest(t *testing.T) {
	if r := Largest(make([]uint64, 16), time.Second); r != nil {
		t.Errorf("of nothing: %v", r)
	}
	sent := make([]uint64, 16)
	for i := range sent {
		sent[i] = uint64(i)
	}
	r := Largest(sent, time.Second)
	if n := len(r.GetLargest()); n != maxLargest || r.GetLargest()[0].GetDst() != 15 || r.GetLargest()[n-1].GetBytes() != 8 || r.GetSpanNs() != 1e9 {
		t.Errorf("%v", r)
	}
	s := &controllerStream{open: true, outgoing: make(chan *statepb.Report, 1)}
	(&Watcher{streams: []*controllerStream{s}}).Report(r)
	if len(s.outgoing) != 1 {
		t.Error("controllers are not notified")
	}
}
