package daemon

import (
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

// Limits on what controllers are told of flips, which are of use to those who watch the fabric and to nobody else.
const (
	flipsEvery = 100 * time.Millisecond // a report
	maxFlips   = 32                     // in one
)

// flips are those that controllers have not been told of. It has a lock of its own: an agent flips while the watcher
// holds its.
type flips struct {
	mu   sync.Mutex
	next *statepb.Report // nil: nothing has happened since the last
}

// Flipped tells all controllers of flips, some time later. It does not block, and Apply may call it.
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
