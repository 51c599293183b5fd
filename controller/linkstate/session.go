package linkstate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/openconfig/gnmi/proto/gnmi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/controller/backoff"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/loglimit"
)

// ErrStale is the error of a subscription that ended because the switch sent nothing for too long.
var ErrStale = errors.New("linkstate: the switch is silent")

// SessionConfig sets up a [Session].
type SessionConfig struct {
	Target string           // gNMI target name, as in [Subscription]
	Ports  int              // the switch's ports are 1 to Ports; for targets without wildcard support
	Names  *targets.PortMap // the switch's interfaces; nil: Ethernet1, ...
	// Heartbeat is the interval at which the switch repeats each state. 0: 5 s.
	Heartbeat time.Duration
	// StaleAfter is the longest silence allowed. 0: two and a half heartbeats.
	StaleAfter time.Duration
	// Sample is the interval for targets that do not report on change. 0: 500 ms.
	Sample time.Duration
	// OpenTimeout bounds connecting and the wait for the first message. 0: 5 s.
	OpenTimeout time.Duration
	Backoff     backoff.Policy
	// Chance returns random numbers from 0 to below 1 for jitter. Nil: the machine's.
	Chance func() float64
	Log    *slog.Logger // nil: silent

	// OnHealth is called for every change of health, with the error that caused it; OnChanges for changes of ports:
	// eight of a port at once, then the latest one per second or two. Both are called on the session's goroutine
	// and must not block.
	OnHealth  func(Health, error)
	OnChanges func([]Change)
}

// Session is the gNMI subscription to one switch, renewed whenever it breaks.
type Session struct {
	cfg           SessionConfig
	client        gnmi.GNMIClient
	monitor       *Monitor
	lastMessageAt time.Time // time of the last message
	health        Health
	request       int // index in requests
	answered      bool
	pace          pacer
	warn          *loglimit.Limiter
}

// requestForms are the forms of the request, best first. The next one is tried when the switch does not understand the
// request: many switches do not know port-speed, some report nothing on change, some accept no wildcard.
var requestForms = []struct{ speeds, sample, list bool }{
	{true, false, false}, {false, false, false}, {true, true, false}, {false, true, false},
	{true, false, true}, {false, false, true}, {true, true, true}, {false, true, true},
}

// refusalCodes are the codes by which a switch reports that it does not understand a request.
var refusalCodes = []codes.Code{codes.Unimplemented, codes.InvalidArgument, codes.NotFound}

// NewSession returns a session over a connection, which may be shared and which the session does not close.
func NewSession(cfg SessionConfig, conn grpc.ClientConnInterface) (*Session, error) {
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, 5*time.Second)
	cfg.StaleAfter = cmp.Or(cfg.StaleAfter, cfg.Heartbeat*5/2)
	cfg.Sample = cmp.Or(cfg.Sample, 500*time.Millisecond)
	cfg.OpenTimeout = cmp.Or(cfg.OpenTimeout, 5*time.Second)
	if cfg.Chance == nil {
		cfg.Chance = rand.Float64
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.StaleAfter <= cfg.Heartbeat {
		return nil, fmt.Errorf("linkstate: session: StaleAfter: %v is not above Heartbeat (%v)", cfg.StaleAfter, cfg.Heartbeat)
	}
	if err := cfg.Backoff.Validate(); err != nil {
		return nil, err
	}
	m, err := NewMonitor(fabric.Time(cfg.StaleAfter.Nanoseconds())*fabric.Nanosecond, cfg.Names)
	if err != nil {
		return nil, err
	}
	return &Session{cfg: cfg, client: gnmi.NewGNMIClient(conn), monitor: m,
		warn: loglimit.New(cfg.Log, time.Second)}, nil
}

// now returns the time on the monitor's clock, which restarts with every message: a fabric.Time ends after 106
// days, and a monitor compares with the last message only.
func (s *Session) now() fabric.Time {
	return fabric.Time(time.Since(s.lastMessageAt).Nanoseconds()) * fabric.Nanosecond
}

// Run keeps the subscription open until ctx ends, and returns ctx's error.
func (s *Session) Run(ctx context.Context) error {
	for failures := 0; ; {
		err := s.subscribe(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if s.answered {
			failures = 0
		}
		next := !s.answered && slices.Contains(refusalCodes, status.Code(errors.Unwrap(err)))
		if next {
			s.request = (s.request + 1) % len(requestForms)
		}
		if s.monitor.Health() != Stale {
			s.monitor.Disconnected()
		}
		s.report(err)
		if next && s.request != 0 {
			r := requestForms[s.request]
			s.cfg.Log.Info("trying another form of the request", "speeds", r.speeds, "sample", r.sample, "port_by_port", r.list, "err", err)
			continue
		}
		failures++
		wait := s.cfg.Backoff.Wait(failures, s.cfg.Chance())
		s.cfg.Log.Warn("subscription lost", "err", err, "retry_in", wait.Round(time.Millisecond))
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}

// Sampling reports whether the switch is asked for samples, because it does not report changes. Call it only where
// OnHealth is called.
func (s *Session) Sampling() bool { return requestForms[s.request].sample }

func (s *Session) report(err error) {
	if h := s.monitor.Health(); h != s.health {
		s.health = h
		if s.cfg.OnHealth != nil {
			s.cfg.OnHealth(h, err)
		}
	}
}

func (s *Session) subscription() Subscription {
	r := requestForms[s.request]
	sub := Subscription{
		Target: s.cfg.Target, Names: s.cfg.Names, Heartbeat: fabric.Time(s.cfg.Heartbeat.Nanoseconds()) * fabric.Nanosecond,
		Speeds: r.speeds, Encoding: gnmi.Encoding_JSON_IETF,
	}
	if r.sample {
		sub.Sample = fabric.Time(s.cfg.Sample.Nanoseconds()) * fabric.Nanosecond
	}
	for p := 1; r.list && p <= s.cfg.Ports; p++ {
		sub.Ports = append(sub.Ports, fabric.PortNo(p))
	}
	return sub
}

// errUnanswered ends a subscription that delivers nothing.
var errUnanswered = status.Error(codes.DeadlineExceeded, "no answer to the subscription")

// subscribe runs one subscription until it ends.
func (s *Session) subscribe(ctx context.Context) error {
	s.answered = false
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unanswered := time.AfterFunc(s.cfg.OpenTimeout, func() { cancel(errUnanswered) })
	defer unanswered.Stop()
	fail := func(what string, err error) error {
		if errors.Is(context.Cause(ctx), errUnanswered) {
			err = errUnanswered
		}
		return fmt.Errorf("linkstate: %s: %w", what, err)
	}
	request, err := s.subscription().Request()
	if err != nil {
		return err
	}
	stream, err := s.client.Subscribe(ctx, grpc.WaitForReady(true))
	if err != nil {
		return fail("subscribing", err)
	}
	if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
		return fail("subscribing", err)
	}
	messages := make(chan *gnmi.SubscribeResponse)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				err = status.Error(codes.Unavailable, "the switch closed the stream")
			}
			if err != nil {
				return fail("subscription", err)
			}
			unanswered.Stop()
			select {
			case messages <- m:
			case <-gctx.Done():
				return nil
			}
		}
	})
	g.Go(func() error {
		defer cancel(nil) // ends the stream, for the receiver
		return s.listen(gctx, messages)
	})
	return g.Wait()
}

// listen feeds the monitor.
func (s *Session) listen(ctx context.Context, messages <-chan *gnmi.SubscribeResponse) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	flush := time.NewTimer(time.Hour)
	defer flush.Stop()
	connected := false
	hand := func(changes []Change) {
		if len(changes) > 0 && s.cfg.OnChanges != nil {
			s.cfg.OnChanges(changes)
		}
	}
	for {
		if len(s.pace.waiting) > 0 {
			flush.Reset(time.Until(s.pace.due))
		}
		if due, ok := s.monitor.Deadline(); connected && ok {
			timer.Reset(max(time.Duration((due-s.now())/fabric.Nanosecond), time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			if !connected || !s.monitor.Tick(s.now()) {
				continue
			}
			return fmt.Errorf("%w: nothing received for %v", ErrStale, s.cfg.StaleAfter)
		case <-flush.C:
			hand(s.pace.flush(time.Now()))
		case m := <-messages:
			s.lastMessageAt = time.Now()
			if !connected {
				connected, s.answered = true, true
				s.monitor.Connected(s.now())
				s.report(nil)
			}
			changes, err := s.monitor.Receive(s.now(), m)
			if err != nil {
				s.warn.Warn("notification not understood", "err", err)
			}
			hand(s.pace.admit(s.lastMessageAt, changes))
			s.report(nil)
		}
	}
}
