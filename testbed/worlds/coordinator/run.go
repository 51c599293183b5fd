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
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/recording"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Links cuts and restores links. Its methods return when it is done, and when it
// was, in ns of CLOCK_MONOTONIC.
type Links interface {
	// Lose makes a link swallow both directions, without anybody noticing, or
	// carry again.
	Lose(ctx context.Context, id fabric.LinkID, lost bool) (at int64, err error)
	// Tell makes both ends of a link notice that it is down, or up.
	Tell(ctx context.Context, id fabric.LinkID, up bool) (at int64, err error)
}

// Impairer is a [Links] that can do more than cut.
type Impairer interface {
	// Impair makes one way of a link, or both, lose a share of its packets (1:
	// all) without anybody noticing, or, where loss is 0, carry a rate from then
	// on. Lose(id, false) ends it.
	Impair(ctx context.Context, id fabric.LinkID, way scenario.Direction, loss float64, rate fabric.Rate) (at int64, err error)
}

// Act is something done to a fabric during a run.
type Act struct {
	At fabric.Time
	// Event stands on the timeline, at the time that Do returns, unless its Kind
	// is empty.
	Event report.Event
	// Cut lists the links that the act takes down.
	Cut []fabric.LinkID
	// Do does it, and returns when that was, in ns of CLOCK_MONOTONIC. An error
	// ends the run.
	Do func(ctx context.Context) (at int64, err error)

	link *scenario.LinkEvent // what it does to a link, of the run's events
}

// ErrUnsupported is wrapped when a scenario asks for what hosts or links outside
// of virtual time cannot do.
var ErrUnsupported = errors.New("coordinator: not possible outside of virtual time")

// Options of [Session.Run]. The zero value will do for a fabric in which nothing
// is cut or counted.
type Options struct {
	Links Links // nil: a run with events is refused
	// Counters reads what all switches have counted, by NodeID - Hosts. Nil: no link loads.
	Counters func(ctx context.Context) ([]deployment.Counted, error)
	Clock    func() int64 // CLOCK_MONOTONIC in ns
	// Unshaped: hosts keep to the fabric's rate, but links between switches are as fast
	// as they go, and no bound.
	Unshaped bool
	// Lead is how long before the collective begins the hosts are told; 0: 50 ms.
	Lead time.Duration
	// Send makes messages go by SEND instead of by RDMA WRITE.
	Send bool
	// Acts are done during the run, besides its events, in any order.
	Acts []Act
	// Started is told the moment of the start, in ns of CLOCK_MONOTONIC, before
	// it comes. Nil: nobody.
	Started func(at int64)
	// Recorder takes the run's messages when it is over. Nil: nobody.
	Recorder *recording.Recorder
	// Progress is called now and then with the time since the start. Nil: nobody.
	Progress func(since fabric.Time)
}

// Settings returns what a run asks of its hosts.
func Settings(run scenario.Run) (hostproto.Settings, error) {
	if err := run.Ready(); err != nil {
		return hostproto.Settings{}, err
	}
	if err := run.Fabric.SinglePlane("a world with hosts of its own"); err != nil {
		return hostproto.Settings{}, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if run.Lateness().Any() {
		return hostproto.Settings{}, fmt.Errorf("%w: start_skew and stragglers are the virtual world's: remove the keys, or leave out --world", ErrUnsupported)
	}
	s := run.Scenario
	if r := s.Host.Receiver.For(run.Scheme.Name); r != endpoint.GoBackN {
		return hostproto.Settings{}, fmt.Errorf("%w: %s has receivers of %v; write host.receiver: go-back-n, or use another scheme",
			ErrUnsupported, run.Scheme, r)
	}
	spec, err := run.Scheme.Spec()
	switch {
	case err != nil:
		return hostproto.Settings{}, err
	case spec.InSwitches():
		return hostproto.Settings{}, fmt.Errorf("%w: %s balances in the switches, and the controller does not set that up", ErrUnsupported, run.Scheme)
	}
	hosts, err := run.Hosts()
	if err != nil {
		return hostproto.Settings{}, err
	}
	hosts.Rate = run.Fabric.Spec().HostLink.Rate
	return hostproto.Settings{
		Settings: hosts,
		NoQuench: !run.Notifier.Quench(), NoUpdates: !run.Notifier.GNMI(),
		NoReports: !spec.SharesSuspicion(run.Scheme.Params),
	}, nil
}

// live is one run under way.
type live struct {
	s     *Session
	run   scenario.Run
	opt   Options
	start int64
	job   *collective.Job
	cuts  []report.Event
	cutAt int64 // the first; 0: none yet
	cut   map[fabric.LinkID]bool
	// happened are the run's events that were carried out, at the times at which they were.
	happened []scenario.LinkEvent
	// notices take what the goroutine of events has done.
	notices chan notice
}

// notice is something that was done to a link.
type notice struct {
	event report.Event
	at    int64
	cut   []fabric.LinkID
	link  *scenario.LinkEvent
	err   error
}

// Run carries out one run on the session's hosts. When ctx ends early it returns
// what is known so far, marked as interrupted, with ctx's error.
func (s *Session) Run(ctx context.Context, run scenario.Run, opt Options) (*report.Result, error) {
	if len(run.Events) > 0 && opt.Links == nil {
		return nil, fmt.Errorf("%w: nobody can cut links here", ErrUnsupported)
	}
	if _, ok := opt.Links.(Impairer); !ok && slices.ContainsFunc(run.Events, impairs) {
		return nil, fmt.Errorf("%w here: a link that is gray, degraded or cut in one direction", ErrUnsupported)
	}
	if run.Scenario.Host.Completion == scenario.OnAck {
		return nil, fmt.Errorf("%w: host.completion: ack, as no host hears of another's acknowledgements; use arrival", ErrUnsupported)
	}
	if len(s.hosts) != run.Fabric.Hosts() {
		return nil, fmt.Errorf("coordinator: %d hosts for a fabric of %d", len(s.hosts), run.Fabric.Hosts())
	}
	if opt.Lead == 0 {
		opt.Lead = 50 * time.Millisecond
	}
	began := time.Now()
	r := &live{s: s, run: run, opt: opt, cut: map[fabric.LinkID]bool{}, notices: make(chan notice, 2*len(run.Events)+len(opt.Acts))}
	s.traced, s.kept = opt.Recorder != nil, nil
	before, err := r.prepare(ctx)
	if err != nil {
		return nil, err
	}
	end, finished, err := r.drive(ctx)
	if err != nil && !errors.Is(err, context.Cause(ctx)) {
		return nil, err
	}
	interrupted := err
	// What is still on its way arrives or is lost within a time-out.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.rest(late, 20*time.Millisecond); err != nil {
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

// prepare gets hosts ready and sets the moment of the start.
func (r *live) prepare(ctx context.Context) (before []deployment.Counted, err error) {
	set, err := Settings(r.run)
	if err != nil {
		return nil, err
	}
	set.Send = r.opt.Send
	if err := r.s.Configure(ctx, set); err != nil {
		return nil, err
	}
	spec := r.run.CollectiveSpec()
	if r.job, err = collective.New(spec); err != nil {
		return nil, err
	}
	job := hostproto.Job{Spec: spec, Key: rand.Uint32() | 1}
	if _, err := r.s.ask(ctx, func(int) hostproto.Request { return hostproto.Request{Job: &job} }); err != nil {
		return nil, err
	}
	if before, err = r.count(ctx); err != nil {
		return nil, err
	}
	if err := r.s.readClocks(ctx, r.opt.Clock); err != nil {
		return nil, err
	}
	r.start = r.opt.Clock() + int64(r.opt.Lead)
	if r.opt.Started != nil {
		r.opt.Started(r.start)
	}
	_, err = r.s.ask(ctx, func(rank int) hostproto.Request {
		return hostproto.Request{Job: &hostproto.Job{At: r.start + r.s.clockOf[rank].before.ahead}}
	})
	if err == nil && r.opt.Clock() > r.start {
		err = fmt.Errorf("coordinator: the hosts took more than %v to hear of the start; the machine is too busy", r.opt.Lead)
	}
	return before, err
}

// drive listens until the last rank is done, the deadline is over, or ctx ends: end is when, unless it finished.
func (r *live) drive(ctx context.Context) (end int64, finished bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.playEvents(ctx)
	}()
	defer func() { cancel(); <-done; r.take() }()
	deadline := r.start + int64(r.run.Scenario.Deadline/fabric.Nanosecond)
	timer := time.NewTimer(time.Duration(deadline - r.opt.Clock()))
	defer timer.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(r.s.ledger.done) < len(r.s.hosts) {
		select {
		case <-ctx.Done():
			return r.opt.Clock(), false, context.Cause(ctx)
		case <-timer.C:
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
	return 0, true, nil // measure knows when
}

// take takes notices that are left.
func (r *live) take() {
	for {
		select {
		case n := <-r.notices:
			r.notice(n) //nolint:errcheck // the run is over
		default:
			return
		}
	}
}

func (r *live) notice(n notice) error {
	if n.err != nil {
		return n.err
	}
	n.event.Time = float64(n.at-r.start) / 1000
	if n.event.Kind != "" {
		r.cuts = append(r.cuts, n.event)
	}
	if n.link != nil {
		e := *n.link
		e.At = fabric.Time(n.at-r.start) * fabric.Nanosecond
		r.happened = append(r.happened, e)
	}
	for _, l := range n.cut {
		r.cut[l] = true
	}
	if len(n.cut) > 0 && r.cutAt == 0 {
		r.cutAt = n.at
	}
	return nil
}

// impairs reports whether an event takes an [Impairer].
func impairs(e scenario.LinkEvent) bool {
	return !e.Up && (e.Loss > 0 || e.Rate > 0 || e.Direction != scenario.BothWays)
}

// step is one thing to be done to a link.
type step struct {
	scenario.LinkEvent
	at   fabric.Time
	tell bool // make the ends notice; else make it lose, or carry again
}

// steps returns what is to be done, in order of time. Under time-outs alone
// nobody notices.
func steps(run scenario.Run) []step {
	var out []step
	insert := func(s step) {
		i := len(out)
		for i > 0 && out[i-1].at > s.at {
			i--
		}
		out = append(out[:i], append([]step{s}, out[i:]...)...)
	}
	for _, e := range run.Events {
		insert(step{e, e.At, false})
		if run.Notifier != scenario.NotifyTimeout && !e.Silent {
			insert(step{e, e.At + e.Detection, true})
		}
	}
	return out
}

// acts returns what is to be done in a run, in order of time.
func (r *live) acts() []Act {
	lost := map[fabric.LinkID]bool{}
	out := slices.Clone(r.opt.Acts)
	for _, s := range steps(r.run) {
		a := Act{At: s.at, Event: report.Event{Where: r.run.Fabric.LinkName(s.Link)}}
		if s.tell {
			a.Event.Kind, a.Event.Text = report.KindDetect, upDown(s.Up)
			a.Do = func(ctx context.Context) (int64, error) {
				if lost[s.Link] == s.Up {
					return 0, errChanged
				}
				return r.opt.Links.Tell(ctx, s.Link, s.Up)
			}
			out = append(out, a)
			continue
		}
		if a.Event.Kind = report.KindRestore; !s.Up {
			a.Event.Kind, a.Cut = report.KindCut, []fabric.LinkID{s.Link}
		}
		a.link = &s.LinkEvent
		a.Do = func(ctx context.Context) (int64, error) {
			lost[s.Link] = s.Cuts()
			return r.opt.Links.Lose(ctx, s.Link, !s.Up)
		}
		if impairs(s.LinkEvent) {
			loss := float64(s.Loss)
			switch {
			case s.Cuts():
				loss, a.Event.Text = 1, string(s.Direction)+"ward only"
			case s.Loss > 0:
				a.Event.Text = fmt.Sprintf("loses %v of the packets %s", s.Loss, s.Direction)
			default:
				a.Event.Text = fmt.Sprintf("degraded to %v %s", s.Rate, s.Direction)
			}
			a.Do = func(ctx context.Context) (int64, error) {
				lost[s.Link] = s.Cuts()
				return r.opt.Links.(Impairer).Impair(ctx, s.Link, s.Direction, loss, s.Rate) //nolint:forcetypeassert // Run has looked
			}
		}
		out = append(out, a)
	}
	slices.SortStableFunc(out, func(a, b Act) int { return cmp.Compare(a.At, b.At) })
	return out
}

// errChanged says that a link has changed again before its ends were to notice.
var errChanged = errors.New("coordinator: the link has changed again since")

// playEvents does what is to be done to the fabric when it is time.
func (r *live) playEvents(ctx context.Context) {
	for _, a := range r.acts() {
		wait := time.Duration(r.start + int64(a.At/fabric.Nanosecond) - r.opt.Clock())
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		n := notice{event: a.Event, cut: a.Cut, link: a.link}
		if n.at, n.err = a.Do(ctx); errors.Is(n.err, errChanged) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		r.notices <- n
	}
}

func upDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

// rest waits until nothing has been heard for a while.
func (s *Session) rest(ctx context.Context, quiet time.Duration) error {
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
