package daemon

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// TestReplay leads a core through a run's event log: failures, a link that flaps
// until it is held down, a drain. It has the same tables, has notified agents of the same
// epochs, and knows the same links.
func TestReplay(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		var log bytes.Buffer
		r := l.run(func(c *Config) { c.Events = eventlog.New(&log); c.Core.Instance = "run" })
		waitIdle(r)
		l.link("agg0-core1", false)
		synctest.Wait()
		if _, err := r.Drain(context.Background(), "agg3", false, false); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			l.link("tor5-agg4", false)
			time.Sleep(200 * time.Millisecond)
			l.link("tor5-agg4", true)
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(2 * time.Minute) // it calms down
		l.link("agg0-core1", true)
		l.link("tor7-agg6", false)
		synctest.Wait()
		waitIdle(r)
		var want *statepb.Update
		tables := map[fabric.NodeID][]controller.Entry{}
		if err := r.runInLoop(context.Background(), func() {
			want = r.core.Tables().Snapshot()
			for _, s := range l.switches {
				tables[s.id] = r.core.Tables().Desired(s.id)
			}
		}); err != nil {
			t.Fatal(err)
		}
		cfg := r.cfg.Core
		r.stop()

		var last uint64
		fresh := func() (*controller.Core, error) { last = 0; return controller.New(cfg) }
		core, err := eventlog.Replay(&log, fresh, func(c *controller.Core) {
			for _, u := range c.Ready().Notices {
				if u.GetEpoch() != last+1 {
					t.Errorf("epoch %d after %d", u.GetEpoch(), last)
				}
				last = u.GetEpoch()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, core.Snapshot(), protocmp.Transform(), protocmp.IgnoreFields(&statepb.LinkState{}, "time_ns")); d != "" || last != want.GetEpoch() {
			t.Errorf("agents were notified up to epoch %d of %d; snapshot (-run +replay):\n%s", last, want.GetEpoch(), d)
		}
		for id, es := range tables {
			if d := cmp.Diff(es, core.Desired(id)); d != "" {
				t.Errorf("%s (-run +replay):\n%s", l.f.Name(id), d)
			}
		}
		for _, bad := range []string{"{]", `{"kind":"believed","switch":"tor99"}`, `{"kind":"drain","link":"h0-tor0"}`} {
			if _, err := eventlog.Replay(strings.NewReader(bad), fresh, nil); err == nil {
				t.Errorf("%s was taken", bad)
			}
		}
	})
}
