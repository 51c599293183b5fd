package coordinator

import (
	"cmp"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/hostproto"
)

// trace hands the recorder the run's messages, in the order of time: hosts are heard one after the other. Pieces and their
// paths hosts do not tell of.
func (r *live) trace() {
	rec := r.opt.Recorder
	if rec == nil {
		return
	}
	all := r.s.kept
	r.s.traced, r.s.kept = false, nil
	slices.SortStableFunc(all, func(a, b happening) int { return cmp.Compare(a.At, b.At) })
	for _, e := range all {
		at, host := fabric.Time(e.At-r.start)*fabric.Nanosecond, fabric.NodeID(e.Rank)
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
