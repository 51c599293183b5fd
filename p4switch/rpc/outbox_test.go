package rpc

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A box refuses beyond its limit, empties in order, and ends when closed.
func TestOutbox(t *testing.T) {
	box := NewOutbox(func(int) int { return 1 }, 1<<20)
	for i := range 5 {
		if got := box.Offer(i, 3); got != (i < 3) {
			t.Errorf("offer %d: %v", i, got)
		}
	}
	var got []int
	var wg sync.WaitGroup
	wg.Go(func() {
		err := box.Run(context.Background(), func(i int) error { got = append(got, i); return nil }, func() {
			box.Offer(7, 3)
			box.Close()
		})
		if err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	if diff := cmp.Diff([]int{0, 1, 2, 7}, got); diff != "" {
		t.Error(diff)
	}
}
