package daemon

import (
	"context"
	"errors"
	"sync"
)

// ErrStopped is returned by the methods of a daemon that has stopped.
var ErrStopped = errors.New("daemon: not running")

// inbox is the queue of requests to the daemon's goroutine. It is unlimited: senders must not block, and sessions
// bound their own work in progress.
type inbox struct {
	mu     sync.Mutex
	items  []func()
	closed bool
	ready  chan struct{}
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (b *inbox) post(f func()) bool {
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

func (b *inbox) takeAll() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = nil
	return items
}

// close refuses later requests.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.items = true, nil
}

// runInLoop calls f on the daemon's goroutine and waits for it.
func (d *Daemon) runInLoop(ctx context.Context, f func()) error {
	done := make(chan struct{})
	if !d.inbox.post(func() { f(); close(done) }) {
		return ErrStopped
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
