package daemon

import (
	"context"
	"errors"
	"sync"
)

// ErrStopped is returned by the methods of a daemon that does not run any more.
var ErrStopped = errors.New("daemon: not running")

// inbox is what others ask of the daemon's goroutine. It takes everything: those
// who put must not block, and what they put is bounded by what sessions have
// under way.
type inbox struct {
	mu     sync.Mutex
	items  []func()
	closed bool
	ready  chan struct{}
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (b *inbox) put(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.items = append(b.items, f)
	select {
	case b.ready <- struct{}{}:
	default:
	}
	return true
}

func (b *inbox) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = nil
	return items
}

// close refuses what comes later.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.items = true, nil
}

// ask has f called on the daemon's goroutine and waits until it was.
func (d *Daemon) ask(ctx context.Context, f func()) error {
	done := make(chan struct{})
	if !d.inbox.put(func() { f(); close(done) }) {
		return ErrStopped
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
