package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestRestored: agents learn of a link that is back when the tables for it are written, so
// no packet has a label that its switch does not know. Notified at once they use the link
// before, and their packets are hashed.
func TestRestored(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	const back = 300 * fabric.Microsecond
	for _, atOnce := range []bool{false, true} {
		s := scenario.Default()
		s.Name = "restored"
		s.Fabric = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 3, HostsPerToR: 2}
		s.Schemes = []scenario.Scheme{{Name: scenario.Ethereal}}
		s.Collectives = []scenario.Collective{{Kind: "all-to-all", Bytes: 64e6}}
		s.Control.RestoredAtOnce = atOnce
		s.Failures = []scenario.Failure{{
			Name: "restored", Notifiers: []scenario.Notifier{scenario.NotifyAll},
			Events: []scenario.Event{
				{At: 50 * fabric.Microsecond, Link: "tor0-spine0", Action: scenario.Cut, Detection: 10 * fabric.Microsecond},
				{At: back, Link: "tor0-spine0", Action: scenario.Restore, Detection: 10 * fabric.Microsecond},
			},
		}}
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		w, err := newWorld(lab, runs[0], scenario.Observer{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var before int64
		w.net.At(back, func(fabric.Time) { before = unknownLabels(t, w) })
		if err := w.simulate(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := w.measure()
		if err != nil {
			t.Fatal(err)
		}
		returned := -1.0 // when the first queue pair went back, in us
		for _, f := range r.FlipRecords {
			if f.Reason == "return" && returned < 0 {
				returned = f.Time
			}
		}
		hashed := unknownLabels(t, w) - before
		t.Logf("at once %v: the link is used again at %.0f us, %d packets hashed, %.1f us in all", atOnce, returned, hashed, *r.CCT)
		if !r.Finished || returned < 0 || (hashed > 0) != atOnce {
			t.Errorf("at once %v: finished %v, used again at %v us, %d packets hashed", atOnce, r.Finished, returned, hashed)
		}
	}
}

// unknownLabels returns how many packets had a label that their switch did not know.
func unknownLabels(t *testing.T, w *world) (n int64) {
	t.Helper()
	id := counterIDs()["fallback"]
	for _, sw := range w.switches {
		cells, err := w.readCounter(sw, id, 0)
		if err != nil {
			t.Fatal(err)
		}
		n += cells[2].GetPacketCount() // FALLBACK_UNKNOWN_LABEL in p4src/shared/headers.p4
	}
	return n
}
