package scenario

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// TestLargest compares the largest message with those that the collectives send.
func TestLargest(t *testing.T) {
	const ranks = 8
	for _, kind := range collective.Kinds() {
		for _, algorithm := range collective.Algorithms(kind) {
			for _, bytes := range []fabric.Bytes{ranks, 1_000_003} {
				c := Collective{Kind: kind, Algorithm: algorithm, Bytes: bytes}
				job, err := collective.New(c.Spec(ranks, 1))
				if err != nil {
					t.Fatal(err)
				}
				var want int64
				for p := range job.Phases() {
					for s := range job.Traffic(p) {
						want = max(want, s.Bytes)
					}
				}
				if got := c.largestMessage(ranks); got != want {
					t.Errorf("%v: %d, want %d", c, got, want)
				}
			}
		}
	}
}
