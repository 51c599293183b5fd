package shell

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// Config sets up a [Shell].
type Config struct {
	// Agent is the core's configuration.
	Agent hostagent.Config
	// Now is the clock: the time since a fixed point. Nil: the monotonic clock.
	Now func() time.Duration
	// Report is called, with the lock held, with paths that timed out though no link on them was known to be dead. It
	// must not block. Nil: not reported.
	Report func([]hostagent.Failed)
}

// Shell gives a [hostagent.Core] a lock and a clock, so that several goroutines can use it. Make one with [New].
type Shell struct {
	cfg      Config
	carryOut func(hostagent.Ready) error
	wake     chan struct{} // the deadline may have changed

	mu   sync.Mutex
	core *hostagent.Core
	zero time.Duration // of the core's clock
}

// New returns a shell, or an error in the core's configuration. carryOut opens and moves queue pairs as the core
// decides; it is called with the lock held.
func New(c Config, carryOut func(hostagent.Ready) error) (*Shell, error) {
	core, err := hostagent.New(c.Agent)
	if err != nil {
		return nil, err
	}
	if c.Now == nil {
		start := time.Now()
		c.Now = func() time.Duration { return time.Since(start) }
	}
	return &Shell{cfg: c, carryOut: carryOut, wake: make(chan struct{}, 1), core: core, zero: c.Now()}, nil
}

// Host returns the host that has an IP address of the fabric.
func (s *Shell) Host(addr netip.Addr) (fabric.NodeID, bool) {
	return s.cfg.Agent.Fabric.HostByAddr(addr.Unmap())
}

// Clock returns the time on the shell's clock: see [Config].Now.
func (s *Shell) Clock() time.Duration { return s.cfg.Now() }

// Locked calls f with the shell's lock held.
func (s *Shell) Locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Do calls f with the core, with the lock held, and then has the core's decisions carried out. If f returns an error,
// Do returns it and carries out nothing.
func (s *Shell) Do(f func(core *hostagent.Core, now fabric.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := f(s.core, s.now()); err != nil {
		return err
	}
	ready := s.core.Ready()
	if len(ready.Failed) > 0 && s.cfg.Report != nil {
		s.cfg.Report(ready.Failed)
	}
	err := s.carryOut(ready)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return err
}

const (
	day     = 24 * time.Hour
	maxTime = 50 * day // of a fabric.Time, with room for later times
)

// now returns the core's time, with the lock held. Its zero moves every day: see [hostagent.Core.Rebase].
func (s *Shell) now() fabric.Time {
	at := s.cfg.Now()
	if long := at - s.zero; long > day {
		s.core.Rebase(fabricTime(min(long, maxTime)))
		s.zero = at
	}
	return fabricTime(at - s.zero)
}

func fabricTime(t time.Duration) fabric.Time { return fabric.Time(t.Nanoseconds()) * fabric.Nanosecond }

// Update processes a controller's report of link states. When it returns, queue pairs on dead paths have other labels.
func (s *Shell) Update(u *statepb.Update) error {
	return s.Do(func(core *hostagent.Core, now fabric.Time) error {
		core.Update(now, u)
		return nil
	})
}

// Quench processes the UDP payload of a source quench or notice, received from address src. Forged and useless ones
// change nothing.
func (s *Shell) Quench(payload []byte, src netip.Addr) (hostagent.Verdict, error) {
	q, err := frame.ParseQuench(payload, src)
	if err != nil {
		return 0, err
	}
	var v hostagent.Verdict
	err = s.Do(func(core *hostagent.Core, now fabric.Time) error {
		v = core.Quench(now, q)
		return nil
	})
	return v, err
}

// Stats returns the core's counts so far.
func (s *Shell) Stats() hostagent.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Stats()
}

// Run processes the core's timers, such as the return to a path whose failure was long ago, until ctx ends. It returns
// ctx's error. An error of carryOut is not repeated: the caller has to try again itself.
func (s *Shell) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			s.Do(func(core *hostagent.Core, now fabric.Time) error { //nolint:errcheck // see above
				core.Tick(now)
				return nil
			})
		case <-s.wake:
		}
		s.mu.Lock()
		at, ok := s.core.Deadline()
		due := s.zero + time.Duration(at/fabric.Nanosecond)
		s.mu.Unlock()
		timer.Stop()
		if ok {
			timer.Reset(max(0, due-s.cfg.Now()+1))
		}
	}
}
