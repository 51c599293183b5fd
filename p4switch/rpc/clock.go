package rpc

import (
	"context"
	"math"
	"sync"
	"time"
)

// Timed is a core driven by time: it has neither goroutine nor clock.
type Timed interface {
	// Advance does what is due at now (ns since the Unix epoch).
	Advance(now int64)
	// NextDeadline returns when to call Advance next; ok is false if nothing is pending.
	NextDeadline() (next int64, ok bool)
}

// Clock calls a core at its deadlines.
type Clock struct {
	mu   sync.Locker
	now  func() int64
	core Timed
	wake chan struct{}
}

// NewClock makes a clock for core, which mu guards. now is the time in ns since
// the Unix epoch.
func NewClock(mu sync.Locker, now func() int64, core Timed) *Clock {
	return &Clock{mu: mu, now: now, core: core, wake: make(chan struct{}, 1)}
}

// Run calls the core at its deadlines. It returns when ctx ends, with ctx's error.
func (c *Clock) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.wake:
		case <-timer.C:
		}
		if wait, ok := c.advance(); ok {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
	}
}

// advance does what is due and returns the time until the next deadline.
func (c *Clock) advance() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.core.Advance(now)
	next, ok := c.core.NextDeadline()
	return max(time.Duration(next-now), 0), ok
}

// Kick makes Run check the deadlines again.
func (c *Clock) Kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// After returns a+b without overflow: the time b ns after a. b is not negative.
func After(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
