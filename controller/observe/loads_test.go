package observe

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestLoadsGoStale: what a switch carried when it last answered is not what it carries now.
func TestLoadsGoStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fatTree(t, 4)
		l := NewLoads(f, time.Second)
		if _, _, unknown := l.Rates(); !slices.Contains(UnreadSwitches(f, unknown), "tor0") || slices.Contains(UnreadSwitches(f, unknown), "h0") {
			t.Errorf("before the first reading: %v", UnreadSwitches(f, unknown))
		}
		silent, err := f.LinkByName("tor0-agg0")
		if err != nil {
			t.Fatal(err)
		}
		up := int(2 * silent)
		for n := range 10 {
			for dir := range l.read {
				if dir != up || n < 5 {
					l.Store(dir, time.Now(), uint64(1000*n))
				}
			}
			time.Sleep(time.Second)
		}
		rates, busiest, unknown := l.Rates()
		if rates[up] != 0 || rates[up+1] != 1000 || busiest != 1000 {
			t.Errorf("rates %g and %g, busiest %g", rates[up], rates[up+1], busiest)
		}
		if got := UnreadSwitches(f, unknown); !slices.Equal(got, []string{"tor0"}) {
			t.Errorf("unread %v", got)
		}
		// A clock that jumps, or a counter that does, makes no rate of less than nothing, and goes on from there.
		l.Store(up+1, time.Now().Add(-time.Hour), 20_000)
		l.Store(up+1, time.Now(), 500)
		if rates, _, _ := l.Rates(); rates[up+1] != 0 {
			t.Errorf("after a jump: %g", rates[up+1])
		}
	})
}
