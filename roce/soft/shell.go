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

// Driven is a state machine that a [EventLoop] runs in the shell's goroutine: an [Engine] with the host's other logic.
type Driven interface {
	// Next writes the frame to send now into buf, and returns its length; ok is false if there is none.
	Next(now fabric.Time, buf []byte) (n int, ok bool)
	// Receive processes a received Ethernet frame, valid during the call.
	Receive(now fabric.Time, frame []byte)
	// Tick processes expired timers.
	Tick(now fabric.Time)
	// Wake returns when to call Next or Tick if nothing else happens; ok is false if no timer runs.
	Wake() (at fabric.Time, ok bool)
	// MaxFrame returns the size in bytes of the longest frame.
	MaxFrame() int
	// LineRate returns the highest rate at which to send, frame overheads included; 0: as fast as the link takes
	// frames.
	LineRate() fabric.Rate
}

// EventLoopConfig sets up a [EventLoop].
type EventLoopConfig struct {
	Port port.Port   // the port, which the shell closes
	Rate fabric.Rate // of the link, frame overheads included; 0: as fast as the port takes frames
	// Burst is how much sending a shell that woke late may catch up at once, as time at the link's rate. 0: 2 ms.
	Burst fabric.Time
	// Origin is the instant at which the clock passed to [Driven] shows 0. Run ends with an error 100 days later, since
	// a [fabric.Time] holds 106 days.
	Origin time.Time
}

// maxWait is how long a shell's clock may run: a fabric.Time has room for what is due later.
const maxWait = 100 * 24 * time.Hour

// errLong ends a shell whose clock has run for the longest time.
var errLong = fmt.Errorf("endpoint: the shell's clock has run for %v; start the host again", maxWait)

// A shell that has not seen its port empty for longer than pause takes as many frames as a port holds, before timers.
const (
	idlePause = 5 * fabric.Millisecond
	maxHeld   = 2048 // slots of the largest receive ring
)

// maxBatch is how many frames the shell takes or sends between two looks at
// everything else.
const maxBatch = 32

// EventLoop is the event loop of a host: it runs a [Driven] on a network port. Do is safe for concurrent use; call Run
// once.
type EventLoop struct {
	cfg    EventLoopConfig
	d      Driven
	poller *port.Poller

	mu       sync.Mutex
	queue    []func(now fabric.Time)
	ended    bool
	runEnded chan struct{} // closed when Run has ended

	// What follows belongs to Run's goroutine.
	running     []func(now fabric.Time)
	linkIdleAt  fabric.Time // when the link is idle
	size        int         // of a frame at most
	arena       []byte
	frames      [][]byte    // to be sent
	blocked     bool        // the port took less than it was offered
	portEmptyAt fabric.Time // when the port held nothing more that had arrived before
}

// NewEventLoop returns an event loop for d; call [EventLoop.Run] to start it.
func NewEventLoop(cfg EventLoopConfig, d Driven) (*EventLoop, error) {
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
	return &EventLoop{cfg: cfg, d: d, poller: poller, runEnded: make(chan struct{})}, nil
}

// Now returns the time since [EventLoopConfig].Origin. It is safe for concurrent use.
func (s *EventLoop) Now() fabric.Time {
	return fabric.Time(time.Since(s.cfg.Origin)) * fabric.Nanosecond
}

// Do has the shell call f in its goroutine, and does not wait for it. It returns false if Run has ended; f is then not
// called.
func (s *EventLoop) Do(f func(now fabric.Time)) bool {
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

// Call has the shell call f in its goroutine, and waits until f has returned. Do not call it in that goroutine. The
// error is ctx's, or says that the shell has ended; then f is never called, and what it uses may be freed.
func (s *EventLoop) Call(ctx context.Context, f func(now fabric.Time)) error {
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
	case <-s.runEnded:
		err = errEnded
	}
	if taken.CompareAndSwap(false, true) {
		return err
	}
	<-done
	return nil
}

// Watch makes the shell call [Driven].Wake whenever the file descriptor becomes readable, until Unwatch.
func (s *EventLoop) Watch(fd int) error { return s.poller.Watch(fd) }

// Unwatch ends what [EventLoop.Watch] began.
func (s *EventLoop) Unwatch(fd int) { s.poller.Unwatch(fd) }

// Run runs the event loop until ctx ends or something fails, and closes the port. It returns that error.
func (s *EventLoop) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.poller.Wake)
	err := s.loop(ctx)
	stop()
	s.mu.Lock()
	s.ended, s.queue = true, nil
	s.mu.Unlock()
	close(s.runEnded)
	if closed := s.cfg.Port.Close(); err == nil {
		err = closed
	}
	return err
}

func (s *EventLoop) loop(ctx context.Context) error {
	defer port.LockThread()()
	var events []port.Event
	for ctx.Err() == nil {
		if time.Since(s.cfg.Origin) > maxWait {
			return errLong
		}
		now := s.runCommands()
		more := s.receive(now) // before timers: what has arrived by now is no time-out's
		if at, ok := s.d.Wake(); ok && at <= now {
			s.d.Tick(now)
		}
		sending := s.transmit(now)
		wait := time.Duration(0)
		if !more && !sending {
			wait = s.idleTime()
		}
		var err error
		if events, err = s.poller.Wait(wait, events[:0]); err != nil {
			return fmt.Errorf("endpoint: %w", err)
		}
		for _, ev := range events {
			if ev.Out {
				s.blocked = false
			}
		}
	}
	return ctx.Err()
}

// receive hands over frames that have arrived. It reports whether there may be more. After a pause it hands over all
// that the port held before it looks at timers: a thread that was not scheduled finds the answers behind other frames.
func (s *EventLoop) receive(now fabric.Time) (more bool) {
	take := func(frame []byte) { s.d.Receive(now, frame) }
	more = s.cfg.Port.Receive(maxBatch, take) == maxBatch
	for taken := maxBatch; more && now-s.portEmptyAt > idlePause && taken < maxHeld; taken += maxBatch {
		more = s.cfg.Port.Receive(maxBatch, take) == maxBatch
	}
	if !more || now-s.portEmptyAt > idlePause {
		s.portEmptyAt = now
	}
	return more
}

// runCommands does what others asked for.
func (s *EventLoop) runCommands() fabric.Time {
	s.mu.Lock()
	s.running, s.queue = s.queue, s.running[:0]
	s.mu.Unlock()
	now := s.Now()
	for i, f := range s.running {
		f(now)
		s.running[i] = nil
	}
	return now
}

// transmit sends what the link has room for. It reports whether there is more to
// do at once.
func (s *EventLoop) transmit(now fabric.Time) bool {
	if s.blocked {
		return false
	}
	if s.linkIdleAt < now-s.cfg.Burst {
		s.linkIdleAt = now - s.cfg.Burst
	}
	size := s.d.MaxFrame()
	if s.size != size { // another endpoint; what the last one had to send is void
		s.size, s.arena, s.frames = size, make([]byte, maxBatch*size), s.frames[:0]
	}
	rate := s.sendRate()
	for len(s.frames) < maxBatch && (rate == 0 || s.linkIdleAt <= now) {
		i := len(s.frames)
		buf := s.arena[i*size : (i+1)*size]
		n, ok := s.d.Next(now, buf)
		if !ok {
			break
		}
		s.frames = append(s.frames, buf[:n])
		if rate != 0 {
			s.linkIdleAt += rate.TimeFor(int64(n + fabric.FrameOverhead))
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

// sendRate returns the lesser of the link's rate and the endpoint's; 0: neither has one.
func (s *EventLoop) sendRate() fabric.Rate {
	line := s.d.LineRate()
	if line == 0 || s.cfg.Rate != 0 && s.cfg.Rate < line {
		return s.cfg.Rate
	}
	return line
}

// idleTime returns how long there is nothing to do but to listen.
func (s *EventLoop) idleTime() time.Duration {
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
	if s.sendRate() != 0 {
		at = max(at, s.linkIdleAt)
	}
	if s.blocked {
		// Timers still run; what is due to be sent waits for the port.
		at = max(at, s.Now()+fabric.Millisecond)
	}
	return time.Duration(max(0, (at-s.Now()+fabric.Nanosecond-1)/fabric.Nanosecond))
}

// Close frees the shell's resources, after Run has returned.
func (s *EventLoop) Close() error { return s.poller.Close() }
