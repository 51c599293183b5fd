//go:build !linux

package port

import (
	"errors"
	"sync"
	"time"
)

// Poller waits for ports. It is edge-triggered: a port that was reported
// ready is not reported again before Receive found it empty, or Send full.
type Poller struct {
	wake chan struct{}

	mu   sync.Mutex
	soft []Event
}

// NewPoller makes a poller without ports.
func NewPoller() (*Poller, error) { return &Poller{wake: make(chan struct{}, 1)}, nil }

// Add watches a port. Its events carry id.
func (p *Poller) Add(port Port, id int) error { return port.Attach(p, id) }

func (p *Poller) Notify(ev Event) {
	p.mu.Lock()
	p.soft = mergeEvent(p.soft, ev)
	p.mu.Unlock()
	p.Wake()
}

// Wake makes a Wait, the current or the next, return. It may be called from
// any goroutine.
func (p *Poller) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Wait returns when a port is ready, Wake was called, or the timeout is over;
// a negative timeout never is; now and then also without a cause. The events
// are appended to out.
func (p *Poller) Wait(timeout time.Duration, out []Event) ([]Event, error) {
	var over <-chan time.Time
	if timeout >= 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-p.wake:
	case <-over:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out = append(out, p.soft...)
	p.soft = p.soft[:0]
	return out, nil
}

// Watch returns an error: it needs Linux.
func (p *Poller) Watch(int) error { return errors.ErrUnsupported }

// Unwatch does nothing.
func (p *Poller) Unwatch(int) {}

// Pause sleeps for d whatever happens.
func (p *Poller) Pause(d time.Duration) { time.Sleep(d) }

// Pending reports whether Wake was called and Wait has not seen it.
func (p *Poller) Pending() bool { return len(p.wake) > 0 }

// LockThread does nothing.
func LockThread() (unlock func()) { return func() {} }

// Realtime returns an error: it needs Linux.
func Realtime(int) error { return errors.ErrUnsupported }

// Close frees the poller. Its ports stay open.
func (p *Poller) Close() error { return nil }
