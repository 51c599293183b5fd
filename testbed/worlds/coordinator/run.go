package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/recording"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// ErrUnsupported is wrapped if a scenario requires something that is impossible outside virtual time.
var ErrUnsupported = errors.New("coordinator: not possible outside of virtual time")

// Options of [Session.Run]. The zero value suffices for a fabric without cuts and counters.
type Options struct {
	// Counters reads the counters of all switches, by NodeID - Hosts. Nil: no link loads.
	Counters func(ctx context.Context) ([]deployment.Counted, error)
	Clock    func() int64 // returns CLOCK_MONOTONIC in ns
	// Unshaped: hosts keep the fabric's rate, but links between switches are not limited, and there is no bound.
	Unshaped bool
	// Lead is the minimum time before the collective's start at which the hosts are notified; 0: 50 ms.
	Lead time.Duration
	// Acts are the run's events on this fabric, in any order.
	Acts []deployment.Act
	// Did receives every act after it was carried out, with its start and end in ns of CLOCK_MONOTONIC. May be nil.
	Did func(act deployment.Act, began, done int64)
	// Started receives the time of the start, in ns of CLOCK_MONOTONIC, before it comes. May be nil.
	Started func(at int64)
	// Recorder receives the run's messages after the run. May be nil.
	Recorder *recording.Recorder
	// Progress is called at intervals with the time since the start. May be nil.
	Progress func(since fabric.Time)
}

// Settings returns a run's settings of its hosts.
func Settings(run scenario.Run) (host.Settings, error) {
	if err := run.Ready(); err != nil {
		return host.Settings{}, err
	}
	if err := run.Fabric.SinglePlane("a world with its own hosts"); err != nil {
		return host.Settings{}, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if run.Lateness().Any() {
		return host.Settings{}, fmt.Errorf("%w: start_skew and stragglers are the virtual world's: remove the keys, or leave out --world", ErrUnsupported)
	}
	s := run.Scenario
	if r := s.Host.Receiver.For(run.Scheme.Name); r != transport.GoBackN {
		return host.Settings{}, fmt.Errorf("%w: %s has receivers of %v; write host.receiver: go-back-n, or use another scheme",
			ErrUnsupported, run.Scheme, r)
	}
	spec, err := run.Scheme.Spec()
	switch {
	case err != nil:
		return host.Settings{}, err
	case spec.Adapted(run.Scheme.Params):
		return host.Settings{}, fmt.Errorf("%w: %s has more than its authors gave it; leave out opponents, or --world", ErrUnsupported, run.Scheme)
	case spec.Source(run.Scheme.Params).Adaptive:
		return host.Settings{}, fmt.Errorf("%w: %s needs switches that know their queues; use --world virtual", ErrUnsupported, run.Scheme)
	case spec.InSwitches():
		return host.Settings{}, fmt.Errorf("%w: %s balances in the switches, and the controller does not set that up", ErrUnsupported, run.Scheme)
	}
	hosts, err := run.Hosts()
	if err != nil {
		return host.Settings{}, err
	}
	hosts.Rate = run.Fabric.Spec().HostLink.Rate
	hosts.NoQuench, hosts.NoUpdates = !run.Notifier.Quench(), !run.Notifier.GNMI()
	hosts.NoReports = !spec.SharesSuspicion(run.Scheme.Params)
	return hosts, nil
}

// sessionRun is one run in progress.
type sessionRun struct {
	s     *Session
	run   scenario.Run
	opt   Options
	start int64
	job   *collective.Job // nil: beside a program
	cuts  []report.Event
	cutAt int64 // the first cut; 0: none yet
	cut   map[fabric.LinkID]bool
	// happened are the executed events of the run, at their actual times.
	happened []scenario.LinkEvent
	// notices report the executed acts.
	notices  chan actResult
	actsDone int // number of acts
}

// actResult is an executed act.
type actResult struct {
	deployment.Act
	began, done int64
	err         error
}

// Run carries out one run on the session's hosts. If ctx ends early it returns the partial result, marked as
// interrupted, with ctx's error.
func (s *Session) Run(ctx context.Context, run scenario.Run, opt Options) (*report.Result, error) {
	if len(run.Events) > 0 && len(opt.Acts) == 0 {
		return nil, fmt.Errorf("%w: links cannot be cut here", ErrUnsupported)
	}
	if run.Scenario.Host.Completion == scenario.OnAck {
		return nil, fmt.Errorf("%w: host.completion: ack, as no host learns of another's acknowledgements; use arrival", ErrUnsupported)
	}
	if len(s.hosts) != run.Fabric.Hosts() {
		return nil, fmt.Errorf("coordinator: %d hosts for a fabric of %d", len(s.hosts), run.Fabric.Hosts())
	}
	if opt.Lead == 0 {
		opt.Lead = 50 * time.Millisecond
	}
	began := time.Now()
	r := &sessionRun{s: s, run: run, opt: opt, cut: map[fabric.LinkID]bool{}, notices: make(chan actResult, len(opt.Acts))}
	s.traced, s.keptEvents = opt.Recorder != nil, nil
	before, err := r.prepare(ctx)
	if err != nil {
		return nil, err
	}
	end, finished, err := r.drive(ctx, nil)
	if err != nil && !errors.Is(err, context.Cause(ctx)) {
		return nil, err
	}
	interrupted := err
	// Packets in flight arrive or are lost within a time-out.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.awaitQuiet(late, 20*time.Millisecond); err != nil {
		return nil, err
	}
	if finished {
		if err := s.ledger.check(); err != nil {
			return nil, err
		}
	} else if err := errors.Join(s.ledger.faults...); err != nil {
		return nil, err
	}
	result, err := r.measure(late, before, end, finished, interrupted != nil)
	if err != nil {
		return nil, err
	}
	r.trace()
	result.WallMS = float64(time.Since(began).Microseconds()) / 1000
	return result, interrupted
}

// leadFactor is the factor by which the start's lead exceeds the time in which all hosts answered: a busy machine
// is slow.
const leadFactor = 10

// prepare prepares the hosts and sets the time of the start.
func (r *sessionRun) prepare(ctx context.Context) (before []deployment.Counted, err error) {
	set, err := Settings(r.run)
	if err != nil {
		return nil, err
	}
	if err := r.s.Configure(ctx, set); err != nil {
		return nil, err
	}
	spec := r.run.CollectiveSpec()
	if r.job, err = collective.New(spec); err != nil {
		return nil, err
	}
	job := hostproto.Job{Spec: spec, Key: rand.Uint32() | 1}
	asked := r.opt.Clock()
	if _, err := r.s.ask(ctx, func(int) hostproto.Request { return hostproto.Request{Job: &job} }); err != nil {
		return nil, err
	}
	lead := max(int64(r.opt.Lead), leadFactor*(r.opt.Clock()-asked))
	if before, err = r.count(ctx); err != nil {
		return nil, err
	}
	if err := r.s.readClocks(ctx, r.opt.Clock); err != nil {
		return nil, err
	}
	r.start = r.opt.Clock() + lead
	if r.opt.Started != nil {
		r.opt.Started(r.start)
	}
	_, err = r.s.ask(ctx, func(rank int) hostproto.Request {
		return hostproto.Request{Job: &hostproto.Job{At: r.start + r.s.clockOf[rank].before.ahead}}
	})
	if err == nil && r.opt.Clock() > r.start {
		err = fmt.Errorf("coordinator: the hosts took more than %v to receive the start; the machine is too busy", time.Duration(lead))
	}
	return before, err
}

// drive listens until the last rank is done, the deadline has passed, or ctx ends. end is that time, unless the run
// finished. With a program it listens until that has ended.
func (r *sessionRun) drive(ctx context.Context, ended <-chan error) (end int64, finished bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.playEvents(ctx)
	}()
	defer func() { cancel(); <-done; r.take() }()
	var late <-chan time.Time
	if ended == nil {
		deadline := r.start + int64(r.run.Scenario.Deadline/fabric.Nanosecond)
		timer := time.NewTimer(time.Duration(deadline - r.opt.Clock()))
		defer timer.Stop()
		late = timer.C
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ended != nil || len(r.s.ledger.done) < len(r.s.hosts) {
		select {
		case err := <-ended:
			return r.opt.Clock(), err == nil, err
		case <-ctx.Done():
			return r.opt.Clock(), false, context.Cause(ctx)
		case <-late:
			return r.opt.Clock(), false, nil
		case e := <-r.s.events:
			r.s.take(e)
			if len(r.s.ledger.faults) > 0 {
				return 0, false, errors.Join(r.s.ledger.faults...)
			}
		case n := <-r.notices:
			if err := r.notice(n); err != nil {
				return 0, false, err
			}
		case <-tick.C:
			if r.opt.Progress != nil {
				r.opt.Progress(max(0, fabric.Time(r.opt.Clock()-r.start)*fabric.Nanosecond))
			}
			if err := r.s.Ended(); err != nil {
				return 0, false, fmt.Errorf("%w: the host ended during the run", err)
			}
		}
	}
	return 0, true, nil // measure computes the time
}

// take processes the remaining notices.
func (r *sessionRun) take() {
	for {
		select {
		case n := <-r.notices:
			r.notice(n) //nolint:errcheck // the run is over
		default:
			return
		}
	}
}

func (r *sessionRun) notice(n actResult) error {
	if n.err != nil {
		return fmt.Errorf("%s %s: %w", n.Name, n.Where, n.err)
	}
	r.actsDone++
	if r.opt.Did != nil {
		r.opt.Did(n.Act, n.began, n.done)
	}
	if n.Timeline != "" {
		r.cuts = append(r.cuts, report.Event{Time: r.micros(n.began), Kind: n.Timeline, Where: n.Where, Text: n.Text})
	}
	for _, e := range n.Links {
		at := n.done // until then at most, the link carries packets
		if e.Up {
			at = n.began
		}
		e.At = fabric.Time(at-r.start) * fabric.Nanosecond
		r.happened = append(r.happened, e)
		r.cut[e.Link] = r.cut[e.Link] || e.Cuts()
		if !e.Up && r.cutAt == 0 {
			r.cutAt = n.began
		}
	}
	return nil
}

// playEvents carries out the acts at their times.
func (r *sessionRun) playEvents(ctx context.Context) {
	acts := slices.Clone(r.opt.Acts)
	slices.SortStableFunc(acts, func(a, b deployment.Act) int { return cmp.Compare(a.At, b.At) })
	for _, a := range acts {
		wait := time.Duration(r.start + int64(a.At/fabric.Nanosecond) - r.opt.Clock())
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		n := actResult{Act: a, began: r.opt.Clock()}
		// An act that has begun is completed even if the run ends: otherwise it is unknown what to undo.
		if n.err = a.Do(context.WithoutCancel(ctx)); errors.Is(n.err, deployment.ErrChanged) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		n.done = r.opt.Clock()
		r.notices <- n
	}
}

// awaitQuiet waits until no event has arrived for the time quiet.
func (s *Session) awaitQuiet(ctx context.Context, quiet time.Duration) error {
	t := time.NewTimer(quiet)
	defer t.Stop()
	for {
		select {
		case e := <-s.events:
			s.take(e)
			t.Reset(quiet)
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
