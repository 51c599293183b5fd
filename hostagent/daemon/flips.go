package daemon

import (
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

// Limits of the reports of flips to controllers, which only observers of the fabric use.
const (
	flipsEvery = 100 * time.Millisecond // minimum time between two reports of flips to a controller
	maxFlips   = 32                     // maximum number of flips per report to a controller
)

// flips are the flips not reported to controllers yet. It has its own lock: an agent flips while the watcher holds
// the watcher's.
type flips struct {
	mu   sync.Mutex
	next *statepb.Report // nil: no flips since the last report
}

// Flipped reports to all controllers which queue pairs moved to other paths. Reports are gathered for a while before
// they are sent. It does not block, and [WatchConfig].Apply may call it.
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
