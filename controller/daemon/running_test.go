package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
)

// running is a daemon at work.
type running struct {
	*Daemon
	t      testing.TB
	fake   bool // in a synctest bubble
	cancel context.CancelFunc
	done   chan struct{}
}

func (l *lab) run(change func(*Config)) *running {
	l.t.Helper()
	cfg := l.config()
	if change != nil {
		change(&cfg)
	}
	d, err := New(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Daemon: d, t: l.t, fake: l.fake, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		if err := d.Run(ctx); !errors.Is(err, context.Canceled) {
			l.t.Errorf("Run: %v", err)
		}
	}()
	return r
}

func (r *running) stop() {
	r.cancel()
	<-r.done
	if r.fake {
		synctest.Wait() // the switches have noticed
	}
}

func (r *running) state() Status {
	r.t.Helper()
	s, err := r.Status(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// until waits until the status is as wanted.
func (r *running) until(what string, ok func(Status) bool) Status {
	r.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		s := r.state()
		if ok(s) {
			return s
		}
		if time.Now().After(deadline) {
			var not []string
			for _, x := range s.Switches {
				if !x.Synced {
					not = append(not, fmt.Sprintf("%s %v %q, ports %v %q", x.Name, x.Phase, x.Error, x.Ports, x.PortError))
				}
			}
			r.t.Fatalf("not %s: started %v, epoch %d, busy %v; not synced:\n%s", what, s.Started, s.Epoch, s.Busy, strings.Join(not, "\n"))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (r *running) untilReady() Status {
	r.t.Helper()
	return r.until("ready", func(s Status) bool { return s.Ready && !s.Busy })
}

// check compares all switches' tables with what the daemon desires.
func (l *lab) check(r *running) {
	l.t.Helper()
	pipeline, _ := loadPipeline()
	for name, s := range l.switches {
		conn, err := l.dial(name)
		if err != nil {
			l.t.Fatal(err)
		}
		schema := pipeline.Schema()
		if l.profile != nil {
			schema = schema.ForDialect(p4rt.NewDialect(l.profile, s.id, l.ports[s.id]))
		}
		held, err := p4rt.Fetch(context.Background(), p4.NewP4RuntimeClient(conn), schema, uint64(s.id)+1)
		conn.Close()
		if err != nil {
			l.t.Fatalf("%s: %v", name, err)
		}
		var want []controller.Entry
		if err := r.runInLoop(context.Background(), func() { want = r.core.Tables().Desired(s.id) }); err != nil {
			l.t.Fatal(err)
		}
		if diff := cmp.Diff(schema.ExpectedEntries(want), held.Entries); diff != "" {
			l.t.Fatalf("%s: tables (-desired +held):\n%s", name, diff)
		}
	}
}

// wrote returns and forgets how many updates and pipelines the switches took.
func (l *lab) wrote() (updates, pushes int) {
	for _, s := range l.switches {
		s.mu.Lock()
		updates, pushes = updates+s.entries, pushes+s.pushes
		s.writes, s.entries, s.pushes = 0, 0, 0
		s.mu.Unlock()
	}
	return updates, pushes
}
