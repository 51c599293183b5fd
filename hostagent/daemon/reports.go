package daemon

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

// maxWaiting bounds the reports that wait for one controller's stream. Further reports are dropped: a path that
// keeps failing times out again.
const maxWaiting = 64

// Suspicions converts paths that an agent found dead into a report for the controller; nil if there are none. at is the
// time, in ns of the agent's clock.
func Suspicions(failed []hostagent.Failed, at int64) *statepb.Report {
	if len(failed) == 0 {
		return nil
	}
	r := &statepb.Report{}
	for _, f := range failed {
		dst := uint32(f.Dst)
		r.Suspicions = append(r.Suspicions, &statepb.Suspicion{
			DstTor: uint32(f.DstToR), Label: uint32(f.Label), Timeouts: 1, TimeNs: at, Dst: &dst,
		})
	}
	return r
}

// Report sends a report to all connected controllers, so that a standby gets it, too. It does not block.
func (w *Watcher) Report(r *statepb.Report) {
	if len(r.GetSuspicions())+len(r.GetProbes())+len(r.GetFlips())+len(r.GetLargest()) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.streams {
		if s.open {
			w.queueReport(s, r)
		}
	}
}

// queueReport adds a report to one controller's queue.
func (w *Watcher) queueReport(s *controllerStream, r *statepb.Report) {
	select {
	case s.outgoing <- r:
	default:
		w.cfg.Log.Warn("controller does not take reports", "addr", s.addr)
	}
}

// sendReports sends a controller its queued reports until ctx ends.
func (s *controllerStream) sendReports(ctx context.Context, stream grpc.BidiStreamingClient[statepb.AgentMessage, statepb.Update]) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-s.outgoing:
			if err := stream.Send(&statepb.AgentMessage{Message: &statepb.AgentMessage_Report{Report: r}}); err != nil {
				return fmt.Errorf("hostagent daemon: report: %w", err)
			}
		}
	}
}

// probesAsked sends the probes that a controller requests, and returns their results to it.
func (w *Watcher) probesAsked(s *controllerStream, ps []*statepb.ProbeRequest) {
	if len(ps) == 0 {
		return
	}
	if w.cfg.Probe != nil {
		w.cfg.Probe(ps, func(rs []*statepb.ProbeResult) { w.queueReport(s, &statepb.Report{Probes: rs}) })
		return
	}
	r := &statepb.Report{}
	for _, p := range ps {
		r.Probes = append(r.Probes, &statepb.ProbeResult{Id: p.GetId()})
	}
	w.queueReport(s, r)
}
