package daemon

import (
	"cmp"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// The report of the hosts to which a host sends most.
const (
	LargestEvery = time.Second // a report
	maxLargest   = 8           // hosts in one
)

// Largest returns a report of what a host has sent within span, in bytes by
// destination; nil if that is nothing.
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
