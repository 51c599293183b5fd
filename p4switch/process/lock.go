package process

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// lock protects the data path. Packets pass under it, and the control side takes it for a bounded time to change
// the switch. Forwarding has priority: it takes the lock by spinning, since a sleeping goroutine waits for its
// processor behind all of the control side's work.
type lock struct {
	mu      sync.Mutex
	wanted  atomic.Bool  // forwarding waits
	waiting atomic.Int32 // others wait
	held    time.Time    // since when the control side holds it
	longest time.Duration
	leaving func() // called before the control side releases the lock; nil: none
}

// How long to spin for the lock before sleeping, and how long forwarding lets others have it.
const (
	spinTime  = 5 * time.Millisecond
	yieldTime = 20 * time.Microsecond
)

// lockForForwarding takes the lock for forwarding.
func (l *lock) lockForForwarding() {
	if l.mu.TryLock() {
		return
	}
	l.wanted.Store(true)
	defer l.wanted.Store(false)
	if runtime.GOMAXPROCS(0) > 1 {
		for start := time.Now(); time.Since(start) < spinTime; {
			if l.mu.TryLock() {
				return
			}
		}
	}
	l.mu.Lock()
}

// unlockAfterForwarding releases the lock after forwarding.
func (l *lock) unlockAfterForwarding() { l.mu.Unlock() }

// yield lets a waiting goroutine have the lock; forwarding has left it.
func (l *lock) yield() {
	n := l.waiting.Load()
	if n == 0 {
		return
	}
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.Gosched()
		return
	}
	for start := time.Now(); time.Since(start) < yieldTime && l.waiting.Load() >= n; {
	}
}

// Lock implements sync.Locker, for the control side.
func (l *lock) Lock() {
	l.waiting.Add(1)
	for l.wanted.Load() || !l.mu.TryLock() {
		runtime.Gosched()
	}
	l.waiting.Add(-1)
	l.held = time.Now()
}

// Yield lets packets pass in the midst of the control side's work.
func (l *lock) Yield() {
	l.unlock()
	l.Lock()
}

// Unlock implements sync.Locker.
func (l *lock) Unlock() {
	if l.leaving != nil {
		l.leaving()
	}
	l.unlock()
}

func (l *lock) unlock() {
	l.longest = max(l.longest, time.Since(l.held))
	l.mu.Unlock()
}
