package soft

import (
	"context"
	"errors"
	"testing"

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
	s := &Shell{poller: poller, over: make(chan struct{})}
	f := func(fabric.Time) { t.Error("it was called") }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Call(ctx, f); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	s.commands()
	close(s.over)
	if err := s.Call(t.Context(), f); !errors.Is(err, errEnded) {
		t.Errorf("queued behind the shell's end: %v", err)
	}
	s.commands()
}
