package observe

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/view"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// Limits of the stored largest flows.
const (
	maxLargest   = 16              // number of largest flows in the status and on the page
	largestKept  = 4 * time.Second // time for which flows stay listed after an agent's last report
	minSpan      = 100 * time.Millisecond
	maxSpan      = time.Minute
	maxRate      = 1e12   // bytes per second: larger values in reports are nonsense
	largestFlows = "pair" // name under which the page shows the largest flows
)

// Largest stores the largest flows (elephants): the destinations to which each host sends most, from the agents'
// reports. It is not safe for concurrent use.
type Largest struct {
	reported map[fabric.NodeID]reportedLargest
	shown    bool // the page shows some now
}

type reportedLargest struct {
	at   time.Time
	span time.Duration
	sent []*statepb.Sent
}

// Store stores an agent's report, without values that cannot be true.
func (l *Largest) Store(f *fabric.Fabric, host fabric.NodeID, now time.Time, r *statepb.Report) {
	span := time.Duration(r.GetSpanNs())
	if len(r.GetLargest()) == 0 || span < minSpan || span > maxSpan {
		return
	}
	if l.reported == nil {
		l.reported = map[fabric.NodeID]reportedLargest{}
	}
	named := map[uint32]bool{}
	sent := slices.DeleteFunc(slices.Clone(r.GetLargest()), func(s *statepb.Sent) bool {
		again := named[s.GetDst()]
		named[s.GetDst()] = true
		return again || s.GetDst() >= uint32(f.Hosts()) || NodeID(s.GetDst()) == host ||
			float64(s.GetBytes()) > maxRate*span.Seconds()
	})
	l.reported[host] = reportedLargest{at: now, span: span, sent: sent}
}

// FlowStatus is a pair of hosts with much traffic from one to the other.
type FlowStatus struct {
	From string  `json:"from"`
	To   string  `json:"to"`
	Rate float64 `json:"bytes_per_second"` // of RoCEv2 payload, retransmissions included

	src, dst fabric.NodeID
	bytes    uint64
	begin    time.Time
	end      time.Time
}

// Status returns the largest flows now, in descending order.
func (l *Largest) Status(f *fabric.Fabric, now time.Time) []FlowStatus {
	var all []FlowStatus
	for host, t := range l.reported {
		if now.Sub(t.at) > largestKept {
			delete(l.reported, host)
			continue
		}
		for _, s := range t.sent {
			dst := NodeID(s.GetDst())
			all = append(all, FlowStatus{
				From: f.Name(host), To: f.Name(dst), Rate: float64(s.GetBytes()) / t.span.Seconds(),
				src: host, dst: dst, bytes: s.GetBytes(), begin: t.at.Add(-t.span), end: t.at,
			})
		}
	}
	slices.SortFunc(all, func(a, b FlowStatus) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.src, b.src), cmp.Compare(a.dst, b.dst))
	})
	return all[:min(maxLargest, len(all))]
}

// View returns the largest flows for the web page; nil: unchanged.
func (l *Largest) View(f *fabric.Fabric, began, now time.Time) []view.Flow {
	flows := []view.Flow{} // not null: null would clear the page's flows
	for _, x := range l.Status(f, now) {
		flows = append(flows, view.Flow{
			Kind: largestFlows, Src: int(x.src), Dst: int(x.dst), Bytes: int64(x.bytes),
			Text:  fmt.Sprintf("%.3g MB/s", x.Rate/1e6),
			Begin: float64(x.begin.Sub(began).Microseconds()), End: float64(x.end.Sub(began).Microseconds()),
		})
	}
	if len(flows) == 0 && !l.shown {
		return nil
	}
	l.shown = len(flows) > 0
	return flows
}
