package daemon

import (
	"testing"
	"testing/synctest"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

// TestFlipped: flips that come together are reported together, up to so many, and the rest by their number.
func TestFlipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &controllerStream{open: true, outgoing: make(chan *statepb.Report, 1)}
		w := &Watcher{streams: []*controllerStream{s}}
		for n := range maxFlips + 5 {
			w.Flipped(hostagent.Flip{QP: hostagent.QP(n), From: 1, To: 2, Reason: hostagent.ByQuench})
		}
		r := <-s.outgoing
		if len(r.GetFlips()) != maxFlips || r.GetFlipsLeft() != 5 {
			t.Fatalf("%d flips reported and %d left, want %d and 5", len(r.GetFlips()), r.GetFlipsLeft(), maxFlips)
		}
		if f := r.GetFlips()[3]; f.GetQp() != 3 || f.GetFrom() != 1 || f.GetTo() != 2 || f.GetReason() != "quench" {
			t.Errorf("the fourth is %v", f)
		}
	})
}
