package soft

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// Driven is what a [Shell] drives, in its own goroutine: an [Engine], and
// whatever decides along with it.
type Driven interface {
	// Next writes the frame to send now into buf; ok is false when there is none.
	Next(now fabric.Time, buf []byte) (n int, ok bool)
	// Receive takes a frame, valid during the call.
	Receive(now fabric.Time, frame []byte)
	// Tick processes expired timers.
	Tick(now fabric.Time)
	// Wake returns when Next or Tick is to be called if nothing else happens; ok
	// is false when neither is.
	Wake() (at fabric.Time, ok bool)
	// MaxFrame returns the size in bytes of the longest frame.
	MaxFrame() int
	// LineRate returns the rate at which it sends at most, frame overheads included;
	// 0: as fast as the link goes.
	LineRate() fabric.Rate
}

// ShellConfig sets up a [Shell].
type ShellConfig struct {
	Port port.Port   // the shell's from now on, and closed by it
	Rate fabric.Rate // of the link, frame overheads included; 0: as fast as the port takes
	// Burst is for how much time a shell that woke late may catch up. 0: 2 ms.
	Burst fabric.Time
	// Origin is when the clock that Driven sees was 0. A shell ends with an error when
	// that was 100 days ago: a fabric.Time ends after 106.
	Origin time.Time
}

// longest is how long a shell's clock may run: a fabric.Time has room for what is due later.
const longest = 100 * 24 * time.Hour

// errLong ends a shell whose clock has run for the longest time.
var errLong = fmt.Errorf("endpoint: the shell's clock has run for %v; start the host again", longest)

// maxBatch is how many frames the shell takes or sends between two looks at
// everything else.
const maxBatch = 32

// Shell drives a [Driven] on a port; see the package comment. Do is safe for
// concurrent use; Run is called once.
type Shell struct {
	cfg    ShellConfig
	d      Driven
	poller *port.Poller

	mu    sync.Mutex
	queue []func(now fabric.Time)
	ended bool
	over  chan struct{} // closed when Run has ended

	// What follows belongs to Run's goroutine.
	run     []func(now fabric.Time)
	free    fabric.Time // when the link is idle
	size    int         // of a frame at most
	arena   []byte
	frames  [][]byte // to be sent
	blocked bool     // the port took less than it was offered
}

// NewShell returns a shell that drives d.
func NewShell(cfg ShellConfig, d Driven) (*Shell, error) {
	if cfg.Burst == 0 {
		cfg.Burst = 2 * fabric.Millisecond
	}
	poller, err := port.NewPoller()
	if err != nil {
		return nil, err
	}
	if err := poller.Add(cfg.Port, 0); err != nil {
		poller.Close() //nolint:errcheck // the first error is reported
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	return &Shell{cfg: cfg, d: d, poller: poller, over: make(chan struct{})}, nil
}

// Now returns the time on the shell's clock. It may be called from anywhere.
func (s *Shell) Now() fabric.Time {
	return fabric.Time(time.Since(s.cfg.Origin)) * fabric.Nanosecond
}

// Do makes the shell call f in its goroutine, and does not wait for it. After Run has ended f is not called; Do then returns
// false.
func (s *Shell) Do(f func(now fabric.Time)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.queue = append(s.queue, f)
	s.poller.Wake()
	return true
}

// errEnded is why nothing is called any more.
var errEnded = errors.New("endpoint: the shell has ended")

// Call is Do, and waits until f has returned. It must not be called in the
// shell's goroutine. The error is ctx's, or says that the shell has ended; f was
// not called then, and will not be: what it uses may be freed.
func (s *Shell) Call(ctx context.Context, f func(now fabric.Time)) error {
	var taken atomic.Bool // by the shell, which calls f, or by the caller, who gives it up
	done := make(chan struct{})
	if !s.Do(func(now fabric.Time) {
		if taken.CompareAndSwap(false, true) {
			f(now)
			close(done)
		}
	}) {
		return errEnded
	}
	var err error
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.over:
		err = errEnded
	}
	if taken.CompareAndSwap(false, true) {
		return err
	}
	<-done
	return nil
}

// Watch makes every write to a descriptor wake the shell, until Unwatch. The shell then calls [Driven].Wake.
func (s *Shell) Watch(fd int) error { return s.poller.Watch(fd) }

// Unwatch undoes Watch.
func (s *Shell) Unwatch(fd int) { s.poller.Unwatch(fd) }

// Run drives the endpoint until ctx ends, and closes the port. It returns ctx's
// error or what failed.
func (s *Shell) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.poller.Wake)
	err := s.loop(ctx)
	stop()
	s.mu.Lock()
	s.ended, s.queue = true, nil
	s.mu.Unlock()
	close(s.over)
	if closed := s.cfg.Port.Close(); err == nil {
		err = closed
	}
	return err
}

func (s *Shell) loop(ctx context.Context) error {
	defer port.LockThread()()
	var events []port.Event
	more := true // the port may hold frames
	for ctx.Err() == nil {
		if time.Since(s.cfg.Origin) > longest {
			return errLong
		}
		now := s.commands()
		if more {
			more = s.cfg.Port.Receive(maxBatch, func(frame []byte) { s.d.Receive(s.Now(), frame) }) == maxBatch
			now = s.Now()
		}
		if at, ok := s.d.Wake(); ok && at <= now {
			s.d.Tick(now)
		}
		sending := s.transmit(now)
		wait := time.Duration(0)
		if !more && !sending {
			wait = s.idle()
		}
		var err error
		if events, err = s.poller.Wait(wait, events[:0]); err != nil {
			return fmt.Errorf("endpoint: %w", err)
		}
		for _, ev := range events {
			more = more || ev.In
			if ev.Out {
				s.blocked = false
			}
		}
	}
	return ctx.Err()
}

// commands does what others asked for.
func (s *Shell) commands() fabric.Time {
	s.mu.Lock()
	s.run, s.queue = s.queue, s.run[:0]
	s.mu.Unlock()
	now := s.Now()
	for i, f := range s.run {
		f(now)
		s.run[i] = nil
	}
	return now
}

// transmit sends what the link has room for. It reports whether there is more to
// do at once.
func (s *Shell) transmit(now fabric.Time) bool {
	if s.blocked {
		return false
	}
	if s.free < now-s.cfg.Burst {
		s.free = now - s.cfg.Burst
	}
	size := s.d.MaxFrame()
	if s.size != size { // another endpoint; what the last one had to send is void
		s.size, s.arena, s.frames = size, make([]byte, maxBatch*size), s.frames[:0]
	}
	rate := s.rate()
	for len(s.frames) < maxBatch && (rate == 0 || s.free <= now) {
		i := len(s.frames)
		buf := s.arena[i*size : (i+1)*size]
		n, ok := s.d.Next(now, buf)
		if !ok {
			break
		}
		s.frames = append(s.frames, buf[:n])
		if rate != 0 {
			s.free += rate.TimeFor(int64(n + fabric.FrameOverhead))
		}
	}
	if len(s.frames) == 0 {
		return false
	}
	k := s.cfg.Port.Send(s.frames)
	if s.blocked = k < len(s.frames); s.blocked {
		// The rest stays at the arena's front, in order.
		for i, f := range s.frames[k:] {
			s.frames[i] = append(s.arena[i*size:i*size], f...)
		}
		s.frames = s.frames[:len(s.frames)-k]
		return false
	}
	full := len(s.frames) == maxBatch
	s.frames = s.frames[:0]
	return full
}

// rate returns the lesser of the link's rate and the endpoint's; 0: neither has one.
func (s *Shell) rate() fabric.Rate {
	line := s.d.LineRate()
	if line == 0 || s.cfg.Rate != 0 && s.cfg.Rate < line {
		return s.cfg.Rate
	}
	return line
}

// idle returns how long there is nothing to do but to listen.
func (s *Shell) idle() time.Duration {
	s.mu.Lock()
	pending := len(s.queue) > 0
	s.mu.Unlock()
	if pending {
		return 0
	}
	at, ok := s.d.Wake()
	if !ok {
		return -1
	}
	if s.rate() != 0 {
		at = max(at, s.free)
	}
	if s.blocked {
		// Timers still run; what is due to be sent waits for the port.
		at = max(at, s.Now()+fabric.Millisecond)
	}
	return time.Duration(max(0, (at-s.Now()+fabric.Nanosecond-1)/fabric.Nanosecond))
}

// Close frees the shell, after Run has returned.
func (s *Shell) Close() error { return s.poller.Close() }
