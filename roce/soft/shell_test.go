package soft

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// TestCallGivenUp: what a caller has given up is never called, since what it would use may be freed; and one who waits
// for a shell that ends learns that.
func TestCallGivenUp(t *testing.T) {
	poller, err := port.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer poller.Close() //nolint:errcheck // it was only used here
	s := &EventLoop{poller: poller, runEnded: make(chan struct{})}
	f := func(fabric.Time) { t.Error("it was called") }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Call(ctx, f); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	s.runCommands()
	close(s.runEnded)
	if err := s.Call(t.Context(), f); !errors.Is(err, errEnded) {
		t.Errorf("queued behind the shell's end: %v", err)
	}
	s.runCommands()
}

// full is a port that holds frames.
type full struct {
	port.Port
	frames int
}

func (p *full) Attach(poller *port.Poller, id int) error { return nil }
func (p *full) Close() error                             { return nil }
func (p *full) Receive(limit int, f func([]byte)) int {
	n := min(limit, p.frames)
	for range n {
		f(nil)
	}
	p.frames -= n
	return n
}

// late is a driven part whose timer has expired. It ends the shell when it is to process that.
type late struct {
	received int
	ticked   fabric.Time
	end      func()
}

func (d *late) Next(fabric.Time, []byte) (int, bool) { return 0, false }
func (d *late) Receive(fabric.Time, []byte)          { d.received++ }
func (d *late) Wake() (fabric.Time, bool)            { return 1, true }
func (d *late) MaxFrame() int                        { return 64 }
func (d *late) LineRate() fabric.Rate                { return 0 }
func (d *late) Tick(now fabric.Time) {
	d.ticked = now
	d.end()
}

// TestArrivedBeforeTimers: a shell that was not scheduled takes what has arrived meanwhile before it processes timers,
// and no report of the port that there is something is needed.
func TestArrivedBeforeTimers(t *testing.T) {
	const frames = 3*maxBatch + 5
	ctx, cancel := context.WithCancel(t.Context())
	d := &late{end: cancel}
	s, err := NewEventLoop(EventLoopConfig{Port: &full{frames: frames}, Origin: time.Now().Add(-time.Hour)}, d)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing is lost
	if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if d.received != frames || d.ticked < 3600*fabric.Second {
		t.Errorf("%d frames received before timers, at %v; want %d", d.received, d.ticked, frames)
	}
}
