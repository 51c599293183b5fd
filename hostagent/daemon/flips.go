package daemon

import (
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

// Limits on the flips reported to controllers, which only observers of the fabric use.
const (
	flipsEvery = 100 * time.Millisecond // a report
	maxFlips   = 32                     // in one
)

// flips are those not reported to controllers yet. It has its own lock: an agent flips while the watcher
// holds its.
type flips struct {
	mu   sync.Mutex
	next *statepb.Report // nil: nothing has happened since the last
}

// Flipped reports flips to all controllers, some time later. It does not block, and Apply may call it.
func (w *Watcher) Flipped(fs ...hostagent.Flip) {
	w.flips.mu.Lock()
	defer w.flips.mu.Unlock()
	for _, f := range fs {
		if w.flips.next == nil {
			w.flips.next = &statepb.Report{}
			time.AfterFunc(flipsEvery, w.reportFlips)
		}
		r := w.flips.next
		if len(r.Flips) == maxFlips {
			r.FlipsLeft++
			continue
		}
		r.Flips = append(r.Flips, &statepb.Flip{Qp: uint32(f.QP), From: uint32(f.From), To: uint32(f.To), Reason: f.Reason.String()})
	}
}

func (w *Watcher) reportFlips() {
	w.flips.mu.Lock()
	r := w.flips.next
	w.flips.next = nil
	w.flips.mu.Unlock()
	w.Report(r)
}
