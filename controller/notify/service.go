package notify

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/fabric/staterpc"
	"github.com/ethereal-fabric/ethereal/internal/certs"
)

// ServiceConfig sets up a [Service].
type ServiceConfig struct {
	Hosts int // number of the fabric's hosts; agents name a smaller number
	// Name returns a host's name, which the agent's certificate must have. Nil: names are not checked.
	Name func(host uint32) string
	// Heartbeat is the longest time without a message to an agent: then a heartbeat is sent. 0: 1 s.
	Heartbeat time.Duration
	// HelloTimeout bounds the wait for an agent's Hello. 0: 5 s.
	HelloTimeout time.Duration
	Log          *slog.Logger // nil: silent
	// OnReport receives an agent's report. It must not block. Nil: reports are dropped.
	OnReport func(host uint32, r *statepb.Report)
}

// Service sends link states to the hosts' agents over gRPC. It is safe for concurrent use. It keeps a position per
// agent; a slow agent's updates wait in its stream's flow control only.
type Service struct {
	staterpc.UnimplementedFabricStateServer
	cfg ServiceConfig

	mu         sync.Mutex
	hub        *Hub          // nil until Start
	changed    chan struct{} // closed and replaced at every update
	agents     map[uint32]*agent
	logLimit   *rateLimiter // limits log lines about agents
	suppressed int          // log lines left out since the last one
	streams    sync.WaitGroup
}

// agent is one open stream.
type agent struct {
	host         uint32
	addr         string
	since        time.Time
	watcher      *Watcher
	end          context.CancelCauseFunc
	reports      uint64
	queuedProbes []*statepb.ProbeRequest // not passed to the stream yet
}

// maxAsked is the largest number of probe requests that wait for an agent that does not read. They are useless
// later.
const maxAsked = 16

// Limits of agents' reports.
const (
	maxSuspicions = 1024 // maximum number of suspicions per agent report
	maxProbes     = 64
	maxFlips      = 64
	maxLargest    = 16
	reportEvery   = 10 * time.Millisecond
	reportBurst   = 32
)

// Limits of log lines about connecting and disconnecting agents, which may do so as often as they like.
const (
	logInterval = time.Second
	logBurst    = 256
)

// rateLimiter is a rate limit with a burst.
type rateLimiter struct {
	every time.Duration
	burst time.Duration // length of the burst, as time
	next  time.Time     // when the next event is due, without the burst
}

func newRateLimiter(every time.Duration, burst int) *rateLimiter {
	return &rateLimiter{every: every, burst: time.Duration(burst) * every}
}

// allow reports whether the next event may happen now, and then counts it.
func (p *rateLimiter) allow() bool {
	now := time.Now()
	if p.next.Before(now.Add(-p.burst)) {
		p.next = now.Add(-p.burst)
	}
	if p.next.Add(p.every).After(now) {
		return false
	}
	p.next = p.next.Add(p.every)
	return true
}

// wait returns when the next event may happen.
func (p *rateLimiter) wait(ctx context.Context) error {
	now := time.Now()
	if p.next.Before(now.Add(-p.burst)) {
		p.next = now.Add(-p.burst)
	}
	p.next = p.next.Add(p.every)
	if !p.next.After(now) {
		return nil
	}
	t := time.NewTimer(p.next.Sub(now))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// NewService returns a service whose agents wait until [Service.Start].
func NewService(cfg ServiceConfig) *Service {
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = time.Second
	}
	if cfg.HelloTimeout == 0 {
		cfg.HelloTimeout = 5 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{cfg: cfg, changed: make(chan struct{}), agents: map[uint32]*agent{}, logLimit: newRateLimiter(logInterval, logBurst)}
}

// Start gives the service the first link states. Before it, agents receive nothing: they may know more than a
// controller that has just started.
func (s *Service) Start(hub *Hub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hub = hub
	s.wakeStreams()
}

// Publish passes the core's next update to all agents, without waiting for them; see [Hub.Publish].
func (s *Service) Publish(u *statepb.Update) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hub == nil {
		return errors.New("notify: not started")
	}
	if err := s.hub.Publish(u); err != nil {
		return err
	}
	s.wakeStreams()
	return nil
}

// Ask passes probe requests to a host's connected agent. It returns false if there is none that accepts them.
func (s *Service) Ask(host uint32, ps ...*statepb.ProbeRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agents[host]
	if a == nil || len(a.queuedProbes)+len(ps) > maxAsked {
		return false
	}
	a.queuedProbes = append(a.queuedProbes, ps...)
	s.wakeStreams()
	return true
}

// wakeStreams wakes all streams. The lock is held.
func (s *Service) wakeStreams() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Wait returns when all streams have ended. Stop the gRPC server first.
func (s *Service) Wait() { s.streams.Wait() }

// Agent is the state of a connected agent.
type Agent struct {
	Host    uint32    `json:"host"`
	Addr    string    `json:"addr"`
	Since   time.Time `json:"since"`
	Behind  uint64    `json:"behind"` // updates not yet passed to its stream
	Reports uint64    `json:"reports"`
}

// Agents returns the connected agents, by host.
func (s *Service) Agents() []Agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Agent, 0, len(s.agents))
	for _, a := range s.agents {
		x := Agent{Host: a.host, Addr: a.addr, Since: a.since, Reports: a.reports}
		if a.watcher != nil {
			x.Behind = a.watcher.Behind()
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Agent) int { return int(int64(a.Host) - int64(b.Host)) })
	return out
}

// hello waits for an agent's first message.
func (s *Service) hello(ctx context.Context, messages <-chan *statepb.AgentMessage, ended <-chan error) (*statepb.Hello, error) {
	t := time.NewTimer(s.cfg.HelloTimeout)
	defer t.Stop()
	select {
	case <-t.C:
		return nil, status.Errorf(codes.DeadlineExceeded, "notify: no Hello within %v of opening the stream", s.cfg.HelloTimeout)
	case err := <-ended:
		return nil, err
	case m := <-messages:
		h := m.GetHello()
		if h == nil {
			return nil, status.Error(codes.InvalidArgument, "notify: the first message of a stream must be a Hello")
		}
		if uint64(h.GetHost()) >= uint64(s.cfg.Hosts) {
			return nil, status.Errorf(codes.InvalidArgument, "notify: no host %d; hosts are 0 to %d", h.GetHost(), s.cfg.Hosts-1)
		}
		if name := s.cfg.Name; name != nil && !certs.IsHost(ctx, name(h.GetHost())) {
			return nil, status.Errorf(codes.PermissionDenied, "notify: the certificate is not that of host %s, for which the agent wants to speak", name(h.GetHost()))
		}
		return h, nil
	}
}

// errReplaced ends a stream whose agent opened another one.
var errReplaced = status.Error(codes.Aborted, "notify: the host's agent opened another stream")

// Watch implements staterpc.FabricStateServer.
func (s *Service) Watch(stream grpc.BidiStreamingServer[statepb.AgentMessage, statepb.Update]) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	messages, ended := make(chan *statepb.AgentMessage), make(chan error, 1)
	// Receiving and sending each block on the network, and neither may delay the end of the stream: both goroutines
	// end with the stream's context, which ends when Watch returns.
	s.streams.Go(func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				return
			}
		}
	})
	hello, err := s.hello(ctx, messages, ended)
	if err != nil {
		return err
	}
	a := &agent{host: hello.GetHost(), since: time.Now(), end: cancel}
	if p, ok := peer.FromContext(ctx); ok {
		a.addr = p.Addr.String()
	}
	s.addAgent(a)
	defer s.removeAgent(a)
	pace := newRateLimiter(reportEvery, reportBurst)
	sent := make(chan error, 1)
	s.streams.Go(func() { sent <- s.send(ctx, a, hello, stream) })
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-sent:
			return err
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				ended = nil // the agent sends no more and goes on receiving
				continue
			}
			return err
		case m := <-messages:
			r := m.GetReport()
			if r == nil {
				return status.Error(codes.InvalidArgument, "notify: only reports may follow the Hello")
			}
			if err := checkReportSize(r); err != nil {
				return err
			}
			if err := pace.wait(ctx); err != nil {
				return context.Cause(ctx)
			}
			s.mu.Lock()
			a.reports++
			s.mu.Unlock()
			if s.cfg.OnReport != nil {
				s.cfg.OnReport(a.host, r)
			}
		}
	}
}

// checkReportSize returns an error for a report that is too large.
func checkReportSize(r *statepb.Report) error {
	for _, x := range []struct {
		what      string
		has, most int
	}{
		{"suspicions", len(r.GetSuspicions()), maxSuspicions}, {"probe results", len(r.GetProbes()), maxProbes},
		{"flips", len(r.GetFlips()), maxFlips}, {"destinations", len(r.GetLargest()), maxLargest},
	} {
		if x.has > x.most {
			return status.Errorf(codes.ResourceExhausted, "notify: a report of %d %s; it may have %d", x.has, x.what, x.most)
		}
	}
	return nil
}

func (s *Service) addAgent(a *agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.agents[a.host]; old != nil {
		old.end(errReplaced)
	}
	s.agents[a.host] = a
	s.logEvent("agent joined", a)
}

func (s *Service) removeAgent(a *agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agents[a.host] == a {
		delete(s.agents, a.host)
	}
	s.logEvent("agent left", a)
}

// logEvent logs a line about an agent, or counts it as left out. The lock is held.
func (s *Service) logEvent(what string, a *agent) {
	if !s.logLimit.allow() {
		s.suppressed++
		return
	}
	args := []any{"host", a.host, "addr", a.addr}
	if s.suppressed > 0 {
		args = append(args, "not_said_before", s.suppressed)
	}
	s.suppressed = 0
	s.cfg.Log.Info(what, args...)
}

// nextUpdate returns the agent's next update, a heartbeat if there is none and beat is set, or a channel to wait on.
func (s *Service) nextUpdate(a *agent, hello *statepb.Hello, beat bool) (*statepb.Update, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hub == nil {
		return nil, s.changed
	}
	if a.watcher == nil {
		a.watcher = s.hub.Watch(hello)
	}
	u, ok := a.watcher.Next()
	switch {
	case ok:
	case len(a.queuedProbes) > 0:
		u = s.hub.Heartbeat()
		u.Probes, a.queuedProbes = a.queuedProbes, nil
	case beat:
		u = s.hub.Heartbeat()
	}
	return u, s.changed
}

// send sends the agent all updates, one at a time, as fast as it reads them.
func (s *Service) send(ctx context.Context, a *agent, hello *statepb.Hello, stream grpc.BidiStreamingServer[statepb.AgentMessage, statepb.Update]) error {
	timer := time.NewTimer(s.cfg.Heartbeat)
	defer timer.Stop()
	for beat := false; ; {
		u, changed := s.nextUpdate(a, hello, beat)
		if u == nil {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-changed:
			case <-timer.C:
				beat = true
				timer.Reset(s.cfg.Heartbeat)
			}
			continue
		}
		if err := stream.Send(u); err != nil {
			return err
		}
		beat = false
		timer.Reset(s.cfg.Heartbeat)
	}
}
