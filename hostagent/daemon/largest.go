package daemon

import (
	"cmp"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// Limits of the report of a host's largest destinations.
const (
	LargestEvery = time.Second // time between two reports of [Largest]
	maxLargest   = 8           // maximum number of destination hosts per report of the largest flows
)

// Largest returns a report of the destinations to which a host has sent most bytes within span; nil if it has sent
// none.
func Largest(sent []uint64, span time.Duration) *statepb.Report {
	r := &statepb.Report{SpanNs: int64(span)}
	for dst, n := range sent {
		if n > 0 {
			r.Largest = append(r.Largest, &statepb.Sent{Dst: uint32(fabric.NodeID(dst)), Bytes: n})
		}
	}
	if len(r.Largest) == 0 {
		return nil
	}
	slices.SortStableFunc(r.Largest, func(a, b *statepb.Sent) int { return cmp.Compare(b.GetBytes(), a.GetBytes()) })
	r.Largest = r.Largest[:min(maxLargest, len(r.Largest))]
	return r
}
