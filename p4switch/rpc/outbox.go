package rpc

import (
	"context"
	"sync"
)

// Outbox is a bounded queue of messages between a core, which must not block, and the goroutine that writes to a
// stream.
type Outbox[T any] struct {
	mu     sync.Mutex
	msgs   []T
	bytes  int // of msgs
	closed bool
	full   bool // an offer was refused since the last take
	ready  chan struct{}

	size func(T) int
	most int // bytes
}

// NewOutbox returns a queue for at most most bytes; size returns a message's bytes.
func NewOutbox[T any](size func(T) int, most int) *Outbox[T] {
	return &Outbox[T]{ready: make(chan struct{}, 1), size: size, most: most}
}

// Offer queues m, and returns false if limit messages, or too many bytes, are waiting. If none is waiting, a message of
// any size is accepted.
func (o *Outbox[T]) Offer(m T, limit int) bool {
	n := o.size(m)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.msgs) >= limit || len(o.msgs) > 0 && o.bytes+n > o.most {
		o.full = true
		return false
	}
	o.msgs = append(o.msgs, m)
	o.bytes += n
	o.signal()
	return true
}

func (o *Outbox[T]) signal() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// Close ends Run once everything queued is sent.
func (o *Outbox[T]) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.signal()
}

// Run sends queued messages until the queue is closed and empty, sending fails, or ctx ends. It calls room when a queue
// that was full is empty.
func (o *Outbox[T]) Run(ctx context.Context, send func(T) error, room func()) error {
	for {
		o.mu.Lock()
		msgs, closed, full := o.msgs, o.closed, o.full
		o.msgs, o.bytes, o.full = nil, 0, false
		o.mu.Unlock()
		for _, m := range msgs {
			if err := send(m); err != nil {
				return err
			}
		}
		if full && !closed {
			room()
			continue
		}
		if len(msgs) > 0 {
			continue
		}
		if closed {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.ready:
		}
	}
}
