package coordinator

import (
	"cmp"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// trace passes the run's messages to the recorder, in order of time: hosts' reports arrive one after the other.
// Hosts do not report pieces and their paths.
func (r *sessionRun) trace() {
	rec := r.opt.Recorder
	if rec == nil {
		return
	}
	all := r.s.keptEvents
	r.s.traced, r.s.keptEvents = false, nil
	inOrder(all)
	for _, e := range all {
		// A clock of another machine is known to some microseconds, and no event precedes the start.
		at, host := fabric.Time(max(0, e.At-r.start))*fabric.Nanosecond, fabric.NodeID(e.Rank)
		switch e.Kind {
		case hostproto.Posted:
			rec.Posted(at, host, e.ID, fabric.NodeID(e.Peer), e.Bytes)
		case hostproto.Received:
			rec.Received(at, e.ID)
		case hostproto.Sent:
			rec.Sent(at, e.ID)
		case hostproto.Done:
			rec.Finished(at, host)
		}
	}
}

// inOrder sorts events by time. Another machine's clock is less exact than the time between a message and its
// acknowledgement. So a message is received no sooner than it was posted, and no later than its acknowledgement.
func inOrder(all []hostEvent) {
	posted, sent := map[messageKey]int64{}, map[messageKey]int64{}
	for _, e := range all {
		switch e.Kind {
		case hostproto.Posted:
			posted[messageKey{e.Rank, e.ID}] = e.At
		case hostproto.Sent:
			sent[messageKey{e.Rank, e.ID}] = e.At
		}
	}
	for i := range all {
		if e := &all[i]; e.Kind == hostproto.Received {
			k := messageKey{e.Peer, e.ID}
			if at, ok := posted[k]; ok {
				e.At = max(e.At, at)
			}
			if at, ok := sent[k]; ok {
				e.At = min(e.At, at)
			}
		}
	}
	kinds := []hostproto.Kind{hostproto.Posted, hostproto.Received, hostproto.Sent, hostproto.Done}
	slices.SortStableFunc(all, func(a, b hostEvent) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)))
	})
}
