package workload

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// TestLags: the delay of a late rank stands before messages that it posts, and before nothing else.
func TestLags(t *testing.T) {
	none := func(int) fabric.Time { return 0 }
	late := func(int) fabric.Time { return fabric.Microsecond }
	for _, kind := range collective.Kinds() {
		for _, algorithm := range collective.Algorithms(kind) {
			j, err := collective.New(collective.Spec{Kind: kind, Algorithm: algorithm, Ranks: 8, Bytes: 8000, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			s, posts := NewSchedule(j, none, late), map[int]bool{}
			for _, m := range s.Messages {
				posts[m.Posted] = true
			}
			for _, w := range s.Waits {
				if w.Duration > 0 && !posts[w.To] {
					t.Errorf("%s/%s: a delay before moment %d, at which nobody posts", kind, algorithm, w.To)
				}
				delete(posts, w.To)
			}
			if len(posts) > 0 {
				t.Errorf("%s/%s: %d moments at which a late rank posts at once", kind, algorithm, len(posts))
			}
		}
	}
}
