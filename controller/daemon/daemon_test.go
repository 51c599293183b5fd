package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// inLab runs f in fake time with a fat-tree of four-port switches.
func inLab(t *testing.T, f func(t *testing.T, l *lab)) {
	t.Helper()
	inLabOf(t, nil, f)
}

// inLabOf is inLab, of switches that set up has changed before they start.
func inLabOf(t *testing.T, setup func(*lab), f func(t *testing.T, l *lab)) {
	t.Helper()
	if _, err := loadProgram(); err != nil {
		t.Fatal(err)
	}
	if _, err := loadPipeline(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLabOf(t, fatTree(t, 4), false, setup)
		l.fake = true
		defer l.close()
		f(t, l)
	})
}

// waitIdle waits until nothing more happens.
func waitIdle(r *running) Status {
	r.t.Helper()
	s := r.untilReady()
	synctest.Wait()
	return s
}

func TestRestart(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.link("agg0-core1", false)
		l.link("tor2-agg3", false)
		r := l.run(nil)
		if s := waitIdle(r); s.Epoch != 2 || len(s.NotUp) != 2 {
			t.Errorf("epoch %d, links not up %+v", s.Epoch, s.NotUp)
		}
		l.check(r)
		if n, pushes := l.wrote(); n == 0 || pushes != len(l.switches) {
			t.Errorf("%d updates, %d pipelines", n, pushes)
		}
		r.stop()
		r = l.run(nil)
		waitIdle(r)
		if n, pushes := l.wrote(); n != 0 || pushes != 0 {
			t.Errorf("after the restart %d updates, %d pipelines, want none", n, pushes)
		}
		l.check(r)
		r.stop()
	})
}

// TestPortSpeed has a switch report that a port runs slower: the link is listed with what it carries and stays in use,
// no table changes, and the event log leads another core to the same state.
func TestPortSpeed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		var events bytes.Buffer
		r := l.run(func(c *Config) { c.Events = eventlog.New(&events) })
		waitIdle(r)
		l.wrote()
		id := l.link("tor0-agg1", true)
		end, full := l.f.Link(id).B, l.f.Link(id).Rate
		for i, rate := range []fabric.Rate{full / 4, full, full / 2} {
			l.speed(end, rate)
			synctest.Wait()
			want := []LinkStatus{}
			if rate < full {
				want = append(want, LinkStatus{Name: "tor0-agg1", Up: true, Carries: rate})
			}
			if s := waitIdle(r); s.Epoch != uint64(i+1) || !slices.Equal(s.NotUp, want) {
				t.Errorf("at %v: epoch %d, links not up %+v; want %d, %+v", rate, s.Epoch, s.NotUp, i+1, want)
			}
		}
		if n, _ := l.wrote(); n > 0 {
			t.Errorf("%d updates of tables", n)
		}
		l.check(r)
		r.stop()
		core, err := eventlog.Replay(&events, func() (*controller.Core, error) { return controller.New(l.config().Core) }, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := core.LinkReport(id).Rate; got != full/2 || core.Epoch() != 3 {
			t.Errorf("replayed: %v, epoch %d; want %v, 3", got, core.Epoch(), full/2)
		}
	})
}

func TestLinkDown(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		var events bytes.Buffer
		r := l.run(func(c *Config) { c.Events = eventlog.New(&events) })
		waitIdle(r)
		l.wrote()
		// One end is enough.
		id := l.link("tor0-agg1", true)
		l.port(l.f.Link(id).B, false)
		synctest.Wait()
		s := waitIdle(r)
		if len(s.NotUp) != 1 || s.NotUp[0].Name != "tor0-agg1" || !s.NotUp[0].DownB || s.NotUp[0].DownA {
			t.Errorf("links not up: %+v", s.NotUp)
		}
		l.check(r)
		down, _ := l.wrote()
		// Up only when both are.
		l.port(l.f.Link(id).A, false)
		synctest.Wait()
		l.port(l.f.Link(id).B, true)
		synctest.Wait()
		if s := waitIdle(r); len(s.NotUp) != 1 || s.Epoch != 1 {
			t.Errorf("epoch %d, links not up: %+v", s.Epoch, s.NotUp)
		}
		l.port(l.f.Link(id).A, true)
		synctest.Wait()
		if s := waitIdle(r); len(s.NotUp) != 0 || s.Epoch != 2 {
			t.Errorf("epoch %d, links not up: %+v", s.Epoch, s.NotUp)
		}
		l.check(r)
		up, _ := l.wrote()
		if down == 0 || up == 0 || down > 100 || up > 100 {
			t.Errorf("%d updates for the failure, %d for its end", down, up)
		}
		r.stop()

		// The log, replayed, leads to the same state.
		core, err := controller.New(l.config().Core)
		if err != nil {
			t.Fatal(err)
		}
		ports := 0
		for dec := json.NewDecoder(&events); dec.More(); {
			var rec eventlog.Record
			if err := dec.Decode(&rec); err != nil {
				t.Fatal(err)
			}
			if rec.Kind != "port" {
				continue
			}
			ports++
			node, err := l.f.NodeByName(rec.Switch)
			if err != nil {
				t.Fatal(err)
			}
			if err := core.PortState(0, node, fabric.PortNo(rec.Port), *rec.Up); err != nil {
				t.Fatal(err)
			}
		}
		if ports < 4 || core.Epoch() != 2 {
			t.Errorf("%d port events lead to epoch %d, want 2", ports, core.Epoch())
		}
	})
}

// TestSwitchDies distinguishes a dead switch from one whose management died.
func TestSwitchDies(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		r := l.run(nil)
		waitIdle(r)
		l.wrote()
		verdict := func() Verdict {
			for _, s := range r.state().Switches {
				if s.Name == "agg0" {
					return s.Verdict
				}
			}
			return NotKnown
		}
		l.switches["agg0"].down()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s := r.state(); len(s.NotUp) != 0 || verdict() != CutOff {
			t.Errorf("management died: %v, links not up %+v", verdict(), s.NotUp)
		}
		if n, _ := l.wrote(); n != 0 {
			t.Errorf("%d updates because a session died", n)
		}
		for _, name := range []string{"tor0-agg0", "tor1-agg0", "agg0-core0", "agg0-core1"} {
			id, err := l.f.LinkByName(name)
			if err != nil {
				t.Fatal(err)
			}
			if e := l.f.Link(id); l.f.Name(e.A.Node) == "agg0" {
				l.port(e.B, false)
			} else {
				l.port(e.A, false)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s := r.state(); len(s.NotUp) != 4 || verdict() != Dead {
			t.Errorf("the switch died: %v, links not up %+v", verdict(), s.NotUp)
		}
		// It boots, empty.
		l.switches["agg0"].boot(nil)
		l.switches["agg0"].up()
		for _, name := range []string{"tor0-agg0", "tor1-agg0", "agg0-core0", "agg0-core1"} {
			l.link(name, true)
		}
		time.Sleep(10 * time.Second)
		if s := waitIdle(r); len(s.NotUp) != 0 || verdict() != Alive {
			t.Errorf("the switch booted: %v, links not up %+v", verdict(), s.NotUp)
		}
		l.check(r)
		r.stop()
	})
}

// TestHotStandby kills the primary during a failure it has not learned of.
func TestHotStandby(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		a := l.run(func(c *Config) { c.Own = 2 })
		waitIdle(a)
		b := l.run(nil)
		waitIdle(b)
		for _, s := range b.state().Switches {
			if s.Primary {
				t.Errorf("the standby is primary of %s", s.Name)
			}
		}
		l.check(a)
		l.wrote()
		a.stop()
		l.link("agg1-core2", false)
		s := b.until("taken over", func(s Status) bool {
			for _, x := range s.Switches {
				if !x.Synced {
					return false
				}
			}
			return s.Epoch == 1 && !s.Busy
		})
		synctest.Wait()
		l.check(b)
		if n, pushes := l.wrote(); pushes != 0 || n == 0 || n > 100 {
			t.Errorf("the take-over cost %d updates and %d pipelines; %+v", n, pushes, s.Last)
		}
		b.stop()
	})
}

// TestSlowSwitch has a switch that does not answer writes: the others are not
// held up by more than the stage's time.
func TestSlowSwitch(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		r := l.run(nil)
		waitIdle(r)
		slow := l.switches["agg0"]
		release := make(chan struct{})
		slow.mu.Lock()
		slow.fault = func(*p4.WriteRequest) error { <-release; return nil }
		slow.mu.Unlock()
		began := time.Now()
		l.link("tor0-agg0", false)
		l.link("tor4-agg5", false)
		s := r.until("written", func(s Status) bool { return s.Epoch == 2 && !s.Busy })
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("others waited %v; %+v", d, s.Last)
		}
		slow.mu.Lock()
		slow.fault = nil
		slow.mu.Unlock()
		close(release)
		time.Sleep(30 * time.Second)
		waitIdle(r)
		l.check(r)
		r.stop()
	})
}

// TestRefusals has a switch fail some updates at random.
func TestRefusals(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		r := l.run(nil)
		waitIdle(r)
		var n atomic.Int64
		for _, s := range l.switches {
			s.mu.Lock()
			s.fault = func(*p4.WriteRequest) error {
				if n.Add(1)%3 == 0 {
					return status.Error(codes.ResourceExhausted, "not now")
				}
				return nil
			}
			s.mu.Unlock()
		}
		for _, name := range []string{"tor0-agg0", "agg0-core0", "tor3-agg3", "agg7-core3"} {
			l.link(name, false)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		for _, s := range l.switches {
			s.mu.Lock()
			s.fault = nil
			s.mu.Unlock()
		}
		time.Sleep(30 * time.Second)
		if s := waitIdle(r); s.Refusals == 0 {
			t.Error("nothing was refused")
		}
		l.check(r)
		r.stop()
	})
}

func TestDrainSwitch(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		state := filepath.Join(t.TempDir(), "drained.json")
		r := l.run(func(c *Config) { c.StateFile = state })
		waitIdle(r)
		links, err := r.Drain(context.Background(), "agg0", false, false)
		if err != nil || len(links) != 4 {
			t.Fatalf("drained %v, %v", links, err)
		}
		synctest.Wait()
		l.check(r)
		if _, err := r.Drain(context.Background(), "tor0-agg1", false, false); !errors.Is(err, rollout.ErrSevers) {
			t.Errorf("the last uplink: %v", err)
		}
		for _, name := range []string{"tor0", "h0-tor0", "x"} {
			if _, err := r.Drain(context.Background(), name, false, false); err == nil {
				t.Errorf("%s was drained", name)
			}
		}
		l.wrote()
		r.stop()
		// A restart remembers.
		r = l.run(func(c *Config) { c.StateFile = state })
		if s := waitIdle(r); len(s.NotUp) != 4 {
			t.Errorf("links not up: %+v", s.NotUp)
		}
		if n, _ := l.wrote(); n != 0 {
			t.Errorf("%d updates after the restart", n)
		}
		if _, err := r.Drain(context.Background(), "agg0", true, false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		l.check(r)
		if s := r.state(); len(s.NotUp) != 0 {
			t.Errorf("links not up: %+v", s.NotUp)
		}
		r.stop()
	})
}

// TestFlaps has a link flap for a minute.
func TestFlaps(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		r := l.run(nil)
		waitIdle(r)
		for range 60 {
			l.link("tor0-agg0", false)
			time.Sleep(500 * time.Millisecond)
			l.link("tor0-agg0", true)
			time.Sleep(500 * time.Millisecond)
		}
		s := waitIdle(r)
		if s.Epoch > 7 || len(s.NotUp) != 1 || !s.NotUp[0].Flapping {
			t.Errorf("epoch %d after 60 flaps; links not up %+v", s.Epoch, s.NotUp)
		}
		time.Sleep(61 * time.Second)
		if s := waitIdle(r); len(s.NotUp) != 0 {
			t.Errorf("links not up a minute later: %+v", s.NotUp)
		}
		l.check(r)
		r.stop()
	})
}

func TestJudge(t *testing.T) {
	up, down, mute := Witness{true, true}, Witness{true, false}, Witness{false, true}
	for _, tt := range []struct {
		ws   []Witness
		want Verdict
	}{
		{nil, NotKnown},
		{[]Witness{mute, mute}, NotKnown},
		{[]Witness{down, mute}, Dead},
		{[]Witness{down, up, down}, CutOff},
	} {
		if got := JudgeSwitch(tt.ws); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.ws, got, tt.want)
		}
	}
}
