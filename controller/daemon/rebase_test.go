package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestLongRun has a controller run for months, in which its core's clock would end: it
// moves the clock's zero, and writes and notifies the same as before.
func TestLongRun(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		r := l.run(nil)
		waitIdle(r)
		months := func(up bool) {
			for range 5 {
				if err := r.runInLoop(context.Background(), func() { r.zero = r.zero.Add(-50 * 24 * time.Hour) }); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			l.link("tor0-agg1", up)
			synctest.Wait()
			s := waitIdle(r)
			if err := r.runInLoop(context.Background(), func() {
				if now := r.clock(); now < 0 || now > rebaseAfter+fabric.Second {
					t.Errorf("the core's clock shows %v", now)
				}
			}); err != nil {
				t.Fatal(err)
			}
			if after := s.Last.Trigger.Sub(began); s.Busy || (len(s.NotUp) == 0) != up || after < 0 || after > time.Second || s.Last.Took > time.Second {
				t.Errorf("%v after the link changed: %+v; not up: %v", after, s.Last, s.NotUp)
			}
			l.check(r)
		}
		months(false)
		months(true)
		r.stop()
	})
}

func TestFabricTime(t *testing.T) {
	for d, want := range map[time.Duration]fabric.Time{
		0: 0, time.Nanosecond: fabric.Nanosecond, time.Hour: 3600 * fabric.Second,
	} {
		if got := fabricTime(d); got != want || duration(got) != d {
			t.Errorf("%v is %v, and that %v", d, got, duration(got))
		}
	}
	if now := fabricTime(1000 * 24 * time.Hour); now < 50*24*3600*fabric.Second || now-fabric.LongAgo < 0 {
		t.Errorf("a thousand days are %v", now)
	}
}
