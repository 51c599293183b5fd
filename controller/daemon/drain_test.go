package daemon

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/test/bufconn"
)

// mute makes a switch leave its writes unanswered until the returned function is called.
func (s *labSwitch) mute() (answer func()) {
	release := make(chan struct{})
	set := func(f func(*p4.WriteRequest) error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fault = f
	}
	set(func(*p4.WriteRequest) error { <-release; return nil })
	return func() { set(nil); close(release) }
}

// TestDrainUnacknowledged drains a link while a ToR that uses it does not answer: only the ToR's answer makes it done.
func TestDrainUnacknowledged(t *testing.T) {
	for _, undo := range []bool{false, true} {
		inLab(t, func(t *testing.T, l *lab) {
			ctx := context.Background()
			r := l.run(func(c *Config) { c.Token = secret })
			waitIdle(r)
			defer r.stop()
			if _, err := r.Drain(ctx, "tor0-agg1", false, false); undo && err != nil {
				t.Fatal(err)
			} else if !undo {
				r.Drain(ctx, "tor0-agg1", true, false)
			}
			// Longer than a stage of a change, shorter than Drain waits.
			answer := l.switches["tor0"].mute()
			time.AfterFunc(3*time.Second, answer)
			began := time.Now()
			if _, err := r.Drain(ctx, "tor0-agg1", undo, false); err != nil || time.Since(began) < 3*time.Second {
				t.Fatalf("undo %v: after %v: %v", undo, time.Since(began), err)
			}
			l.check(r)

			answer = l.switches["tor0"].mute()
			for range 2 { // asking again does not make it done
				_, err := r.Drain(ctx, "tor0-agg1", !undo, false)
				if !errors.Is(err, ErrUnacknowledged) || !strings.Contains(err.Error(), "from tor0;") {
					t.Fatalf("undo %v: %v", !undo, err)
				}
			}
			req := httptest.NewRequest(http.MethodPost, "/drain?name=tor0-agg1&undo="+map[bool]string{true: "true", false: ""}[!undo], nil)
			req.Header.Set("Authorization", "Bearer "+secret)
			w := httptest.NewRecorder()
			r.Handler().ServeHTTP(w, req)
			if w.Code != http.StatusGatewayTimeout || !strings.Contains(w.Body.String(), "tor0") {
				t.Errorf("undo %v over HTTP: %d %s", !undo, w.Code, w.Body)
			}
			if s := r.state(); s.Last.Missed != 1 {
				t.Errorf("the last change: %+v; want one missed", s.Last)
			}
			answer()
			if _, err := r.Drain(ctx, "tor0-agg1", !undo, false); err != nil {
				t.Fatalf("after the answer: %v", err)
			}
			l.check(r)
		})
	}
}

// TestDrainUnreachable drains links while a switch that uses them has no session: it counts until its neighbours
// report that nothing reaches it.
func TestDrainUnreachable(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		ctx := context.Background()
		r := l.run(nil)
		waitIdle(r)
		defer r.stop()
		l.switches["tor3"].down()
		time.Sleep(10 * time.Second)
		if _, err := r.Drain(ctx, "tor0-agg1", false, false); !errors.Is(err, ErrUnacknowledged) || !strings.Contains(err.Error(), "from tor3;") {
			t.Fatalf("tor3 has no session: %v", err)
		}
		for _, name := range []string{"tor3-agg2", "tor3-agg3"} {
			id, err := l.f.LinkByName(name)
			if err != nil {
				t.Fatal(err)
			}
			l.port(l.f.Link(id).B, false)
		}
		time.Sleep(10 * time.Second)
		if _, err := r.Drain(ctx, "tor0-agg1", false, false); err != nil {
			t.Errorf("tor3 is dead: %v", err)
		}
	})
}

// TestDrainAtStandby drains at a controller that is primary of no switch, while its peer is, and while the primary is
// out of reach.
func TestDrainAtStandby(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		ctx := context.Background()
		p := &peers{t: t, lis: map[string]*bufconn.Listener{}}
		a := l.run(func(c *Config) { c.Own = 9; p.join("b", "c")(c) })
		waitIdle(a)
		b := l.run(func(c *Config) { c.Own = 2; p.join("a", "c")(c) })
		c := l.run(func(c *Config) { c.Own = 1; p.join("a", "b")(c) })
		stopA, stopB, stopC := p.serve("a", a), p.serve("b", b), p.serve("c", c)
		waitIdle(b)
		waitIdle(c)
		time.Sleep(5 * time.Second) // of the bubble: they reach each other, who dialled before the others served
		if _, err := b.Drain(ctx, "tor0-agg0", false, false); err != nil {
			t.Error(err)
		}
		l.check(b)
		answer := l.switches["tor1"].mute()
		if _, err := b.Drain(ctx, "tor0-agg0", true, false); !errors.Is(err, ErrUnacknowledged) || !strings.Contains(err.Error(), "from tor1;") {
			t.Errorf("tor1 does not answer the primary: %v", err)
		}
		answer()
		if _, err := b.Drain(ctx, "tor0-agg0", true, false); err != nil {
			t.Error(err)
		}
		l.check(b)
		stopA() // The primary is out of reach; the other standby agrees, which writes nothing.
		_, err := b.Drain(ctx, "tor0-agg0", false, false)
		if !errors.Is(err, ErrUnacknowledged) {
			t.Errorf("the primary is out of reach: %v", err)
		}
		stopB()
		stopC()
		for _, r := range []*running{a, b, c} {
			r.stop()
		}
		synctest.Wait()
	})
}

// TestHungPrimary has the primary hang, as if by SIGSTOP: its connections stay open, and it reads and writes nothing.
// The standby replaces it within seconds, and so a drain there is done.
func TestHungPrimary(t *testing.T) {
	hung := &hang{}
	inLabOf(t, func(l *lab) { l.hung = map[string]*hang{"a": hung} }, func(t *testing.T, l *lab) {
		p := &peers{t: t, lis: map[string]*bufconn.Listener{}}
		a := l.run(func(c *Config) { c.Own = 9; c.Dial = l.dialer("a"); p.join("b")(c) })
		waitIdle(a)
		b := l.run(func(c *Config) { c.Own = 1; p.join("a")(c) })
		stopA, stopB := p.serve("a", a), p.serve("b", b)
		waitIdle(b)
		time.Sleep(10 * time.Second)
		if s := b.state(); s.Switches[0].Primary {
			t.Fatal("the standby is primary while the primary works")
		}
		stopA() // it answers no peer
		hung.set(true)
		began := time.Now()
		if _, err := b.Drain(context.Background(), "tor0-agg1", false, false); err != nil {
			t.Errorf("a drain at the standby: %v", err)
		}
		took := time.Since(began)
		for _, s := range b.state().Switches {
			if !s.Primary {
				t.Errorf("after %v the standby is not primary of %s", took, s.Name)
			}
		}
		if took > 8*time.Second {
			t.Errorf("the drain took %v", took)
		}
		hung.set(false)
		time.Sleep(10 * time.Second)
		l.check(b)
		stopB()
		a.stop()
		b.stop()
	})
}
