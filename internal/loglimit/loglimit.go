// Package loglimit limits the rate of log lines, so that a repeated cause cannot fill a disk.
package loglimit

import (
	"log/slog"
	"sync"
	"time"
)

// Limiter logs the first warning of an interval, with the number of warnings that it left out in the previous one.
// It is safe for concurrent use.
type Limiter struct {
	log   *slog.Logger
	every time.Duration

	mu      sync.Mutex
	next    time.Time
	skipped int
}

// New returns a limiter that logs at most one warning in an interval.
func New(log *slog.Logger, every time.Duration) *Limiter { return &Limiter{log: log, every: every} }

// Warn logs a warning, or counts it as left out.
func (l *Limiter) Warn(msg string, args ...any) {
	l.mu.Lock()
	now := time.Now()
	if now.Before(l.next) {
		l.skipped++
		l.mu.Unlock()
		return
	}
	skipped := l.skipped
	l.next, l.skipped = now.Add(l.every), 0
	l.mu.Unlock()
	if skipped > 0 {
		args = append(args, "not_logged_before", skipped)
	}
	l.log.Warn(msg, args...)
}
