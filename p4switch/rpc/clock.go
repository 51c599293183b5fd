package rpc

import (
	"context"
	"math"
	"sync"
	"time"
)

// TimedCore is a state machine with timers, without goroutine or clock.
type TimedCore interface {
	// Advance processes timers that have expired at now (ns since the Unix epoch).
	Advance(now int64)
	// NextDeadline returns when to call Advance next; ok is false if nothing is pending.
	NextDeadline() (next int64, ok bool)
}

// Clock calls a [TimedCore] when its timers expire.
type Clock struct {
	mu   sync.Locker
	now  func() int64
	core TimedCore
	wake chan struct{}
}

// NewClock returns a clock for core, whose calls mu serialises. now returns the time in ns since the Unix epoch.
func NewClock(mu sync.Locker, now func() int64, core TimedCore) *Clock {
	return &Clock{mu: mu, now: now, core: core, wake: make(chan struct{}, 1)}
}

// Run calls the core's Advance at its deadlines until ctx ends, and returns ctx's error.
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
		if wait, ok := c.runDue(); ok {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
	}
}

// runDue runs the timers that are due, and returns the time until the next deadline.
func (c *Clock) runDue() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.core.Advance(now)
	next, ok := c.core.NextDeadline()
	return max(time.Duration(next-now), 0), ok
}

// Kick makes Run reread the deadlines, after a call that may have changed them.
func (c *Clock) Kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// AddTime returns a+b without overflow: the time b ns after a. b is not negative.
func AddTime(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
