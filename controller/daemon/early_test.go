package daemon

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestEmptySwitchIsNotUsed restarts a switch without tables whose links are up long
// before anybody can program it: its links stay out of use until it has its tables,
// and not for ever if nobody can.
func TestEmptySwitchIsNotUsed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		r := l.run(nil)
		waitIdle(r)
		s := l.switches["agg0"]
		links := func(up bool) {
			for _, name := range []string{"tor0-agg0", "tor1-agg0", "agg0-core0", "agg0-core1"} {
				id, err := l.f.LinkByName(name)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range []int{0, 1} {
					end := l.f.Link(id).A
					if e == 1 {
						end = l.f.Link(id).B
					}
					if end.Node != s.id {
						l.port(end, up)
					}
				}
			}
		}
		down := func() (n int) {
			synctest.Wait()
			for _, x := range r.state().NotUp {
				if !x.Up {
					n++
				}
			}
			return n
		}
		s.down()
		links(false)
		time.Sleep(2 * time.Second)
		if n := down(); n != 4 {
			t.Fatalf("%d links down, want 4", n)
		}
		s.boot(nil)
		links(true) // carrier is there, the servers are not yet
		time.Sleep(time.Second)
		if n := down(); n != 4 || r.state().Ready {
			t.Errorf("%d links down before the switch has tables, want 4", n)
		}
		s.up()
		waitIdle(r)
		if n := down(); n != 0 {
			t.Errorf("%d links down once it has them", n)
		}
		l.check(r)

		// Somebody cut it off from the controller: it may forward all the same.
		s.down()
		links(false)
		time.Sleep(time.Second)
		links(true)
		time.Sleep(2 * 15 * time.Second)
		if n := down(); n != 0 {
			t.Errorf("%d links down after the limit", n)
		}
		s.up()
		waitIdle(r)
		l.check(r)
		r.stop()
	})
}
