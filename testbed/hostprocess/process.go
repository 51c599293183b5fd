package hostprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/roce/soft"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// ProcessConfig sets up a [Process].
type ProcessConfig struct {
	Fabric *fabric.Fabric
	Host   fabric.NodeID
	Port   port.Port    // the port, which the process closes
	Rate   fabric.Rate  // of the host's link; 0: the fabric's
	Listen net.Listener // listener for coordinators, closed by the process; nil: none
	// Device makes the device that sends other programs' messages by this host, and Serve serves them until ctx
	// ends; nil: none.
	Device func(r *Rank) Device
	Serve  func(ctx context.Context, s *soft.EventLoop) error
	// Settings are the initial settings.
	Settings host.Settings

	Controllers []string
	Dial        func(addr string) (*grpc.ClientConn, error)
	Known       *statepb.Update // link states known before the start, as in [daemon.WatchConfig]
	// OnUpdate stores the state of links, a snapshot, when it has changed; it is called again after an error. Nil:
	// not stored.
	OnUpdate func(*statepb.Update) error

	EventLog io.Writer // receives the log of the core's calls: see Config; nil: none
	Log      *slog.Logger

	Clock func() hostproto.Clock // the clock of the host's times; nil: this machine's
}

// Process is a running host: network endpoint, agent, control socket, connections to controllers. Its methods are safe
// for concurrent use.
type Process struct {
	cfg     ProcessConfig
	rank    *Rank
	shell   *soft.EventLoop
	server  *Server
	watcher *daemon.Watcher
	known   chan *statepb.Update // the latest snapshot for OnUpdate, which may be slow
}

// NewProcess returns a host. After an error the caller keeps the port and the listener.
func NewProcess(cfg ProcessConfig) (*Process, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Rate == 0 {
		cfg.Rate = cfg.Fabric.Link(cfg.Fabric.Node(cfg.Host).Link(1)).Rate
	}
	if cfg.Settings.Rate == 0 {
		cfg.Settings.Rate = cfg.Rate
	}
	if cfg.Clock == nil {
		name := monotonic.Name()
		cfg.Clock = func() hostproto.Clock { return hostproto.Clock{Of: name, Now: monotonic.Now()} }
	}
	p := &Process{cfg: cfg, server: NewServer(cfg.Log), known: make(chan *statepb.Update, 1)}
	p.server.Clock = cfg.Clock
	started, origin := time.Now(), cfg.Clock().Now
	var err error
	p.rank, err = New(Config{
		Fabric: cfg.Fabric, Host: cfg.Host, Origin: origin, Notify: p.server.Notify, EventLog: cfg.EventLog, Log: cfg.Log,
		Payload: cfg.Settings.Payload,
		Report: func(failed []hostagent.Failed, at int64) {
			if p.watcher != nil {
				p.watcher.Report(daemon.Suspicions(failed, at))
			}
		},
		Flipped: func(fs ...hostagent.Flip) {
			if p.watcher != nil {
				p.watcher.Flipped(fs...)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if cfg.Device != nil {
		p.rank.device = cfg.Device(p.rank)
	}
	if err := p.rank.Configure(0, cfg.Settings); err != nil {
		return nil, err
	}
	if p.shell, err = soft.NewEventLoop(soft.EventLoopConfig{Port: cfg.Port, Rate: cfg.Rate, Origin: started}, p.rank); err != nil {
		return nil, err
	}
	p.server.Attach(p.rank, p.shell)
	p.server.PortLost = func() uint64 { return cfg.Port.Counters().InLost }
	p.watcher, err = daemon.NewWatcher(daemon.WatchConfig{
		Host: cfg.Host, Links: cfg.Fabric.Links(), Controllers: cfg.Controllers, Dial: cfg.Dial, Known: cfg.Known, Log: cfg.Log,
		Probe: func(ps []*statepb.ProbeRequest, done func([]*statepb.ProbeResult)) {
			p.shell.Do(func(now fabric.Time) {
				for _, x := range ps {
					p.rank.Probe(now, x, func(r *statepb.ProbeResult) { done([]*statepb.ProbeResult{r}) })
				}
			})
		},
		Apply: func(u *statepb.Update) {
			p.shell.Do(func(now fabric.Time) {
				p.rank.Update(now, u)
				if cfg.OnUpdate == nil || u.GetHeartbeat() {
					return
				}
				select { // replaces one that was not taken
				case <-p.known:
				default:
				}
				p.known <- p.rank.last
			})
		},
	})
	if err != nil {
		return nil, errors.Join(err, p.shell.Close())
	}
	p.server.Controller = func() string {
		for _, c := range p.watcher.Controllers() {
			if c.Followed {
				return c.Addr
			}
		}
		return ""
	}
	if cfg.Known != nil {
		p.rank.Update(0, cfg.Known)
	}
	return p, nil
}

// Run runs the host until ctx ends and returns ctx's error, or the first failure.
func (p *Process) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.shell.Run(ctx) })
	if p.cfg.Listen != nil {
		g.Go(func() error { return p.server.Run(ctx, p.cfg.Listen) })
	}
	if p.cfg.Serve != nil {
		g.Go(func() error { return p.cfg.Serve(ctx, p.shell) })
	}
	g.Go(func() error { return p.watcher.Run(ctx) })
	g.Go(func() error { return p.reportLargest(ctx) })
	g.Go(func() error { return p.followLinks(ctx) })
	return errors.Join(g.Wait(), p.shell.Close())
}

// retryInterval is the pause before [ProcessConfig.OnUpdate] is called again after an error.
const retryInterval = time.Second

// followLinks passes the state of links to OnUpdate until ctx ends.
func (p *Process) followLinks(ctx context.Context) error {
	var last *statepb.Update
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case last = <-p.known:
		case <-again:
		}
		again = nil
		if p.cfg.OnUpdate(last) != nil {
			again = time.After(retryInterval)
		}
	}
}

// reportLargest reports to controllers the host's largest destinations, until ctx ends.
func (p *Process) reportLargest(ctx context.Context) error {
	every := time.NewTicker(daemon.LargestEvery)
	defer every.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
		var sent []uint64
		if err := p.shell.Call(ctx, func(fabric.Time) { sent = p.rank.engine.TakeSent() }); err != nil {
			return err
		}
		now := time.Now()
		if r := daemon.Largest(sent, now.Sub(last)); r != nil {
			p.watcher.Report(r)
		}
		last = now
	}
}

// Controllers returns the states of the controllers.
func (p *Process) Controllers() []daemon.Controller { return p.watcher.Controllers() }

// Stats returns the host's counts. The error is ctx's, or means that the host has ended.
func (p *Process) Stats(ctx context.Context) (*hostproto.Stats, error) {
	var s *hostproto.Stats
	if err := p.shell.Call(ctx, func(fabric.Time) { s = p.rank.Stats() }); err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	s.CPU, s.RSS = processUsage()
	s.Controller = p.server.Controller()
	s.PortLost = p.cfg.Port.Counters().InLost
	return s, nil
}
