package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/fabric/staterpc"
)

// ErrConfig is wrapped by errors about configurations and state files.
var ErrConfig = errors.New("hostagent daemon: bad config")

// WatchConfig sets up a [Watcher].
type WatchConfig struct {
	Host fabric.NodeID
	// Links is the number of links of the fabric. Notifications about other links, which only a broken or hostile
	// controller sends, are dropped, so that a controller's state in memory and on disk is bounded.
	Links int
	// Controllers are gRPC targets: HOST:PORT or unix:PATH.
	Controllers []string
	// Dial returns a gRPC connection to an address. It must not block.
	Dial func(addr string) (*grpc.ClientConn, error)
	// Apply is called with every update for the agent, in order, by one goroutine at a time. It must not call the
	// watcher.
	Apply func(*statepb.Update)
	// Known is the snapshot of link states from before a restart; nil: none.
	Known *statepb.Update
	// Probe sends the path probes that a controller requests, and passes their results to done, once, from any
	// goroutine. It must not block, nor call the watcher. Nil: controllers get the answer that no probe was sent.
	Probe func(asked []*statepb.ProbeRequest, done func([]*statepb.ProbeResult))

	// Silence is how long a controller may send neither a message nor a heartbeat before it counts as lost. 0: 5 s.
	Silence time.Duration
	// Retry is the pause after the first failed attempt to reach a controller. It doubles up to RetryMost. 0: 100 ms,
	// and 5 s for RetryMost.
	Retry, RetryMost time.Duration
	Log              *slog.Logger // nil: silent
}

// Watcher keeps gRPC streams to all controllers, and passes on the updates of the one it follows. See the package
// comment.
type Watcher struct {
	cfg   WatchConfig
	flips flips

	mu      sync.Mutex
	streams []*controllerStream
	active  *controllerStream // the followed one; nil: none yet, or none is left
}

// controllerStream is the connection to one controller.
type controllerStream struct {
	addr         string
	view         *statepb.Update // a snapshot of its reports; nil: none
	unknownLinks bool            // it has named links that do not exist
	open         bool            // its stream is open and has delivered something
	since        time.Time       // time of the stream's first message
	updates      uint64
	err          string // the error that ended the stream
	outgoing     chan *statepb.Report
}

// Controller is the state of the agent's connection to one controller.
type Controller struct {
	Addr     string    `json:"addr"`
	Followed bool      `json:"followed"`
	Open     bool      `json:"open"`
	Since    time.Time `json:"since,omitzero"`
	Instance string    `json:"instance,omitempty"`
	Epoch    uint64    `json:"epoch"`
	Updates  uint64    `json:"updates"` // received messages, without heartbeats
	Error    string    `json:"error,omitempty"`
}

// NewWatcher returns a watcher, or an error that wraps [ErrConfig].
func NewWatcher(cfg WatchConfig) (*Watcher, error) {
	if cfg.Dial == nil || cfg.Apply == nil {
		return nil, fmt.Errorf("%w: Dial or Apply is missing", ErrConfig)
	}
	if cfg.Links <= 0 {
		return nil, fmt.Errorf("%w: Links: %d; it is the fabric's number of links", ErrConfig, cfg.Links)
	}
	def := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	def(&cfg.Silence, 5*time.Second)
	def(&cfg.Retry, 100*time.Millisecond)
	def(&cfg.RetryMost, 5*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{cfg: cfg}
	for i, addr := range cfg.Controllers {
		if addr == "" || slices.Contains(cfg.Controllers[:i], addr) {
			return nil, fmt.Errorf("%w: Controllers: %q is empty or named twice", ErrConfig, addr)
		}
		s := &controllerStream{addr: addr, outgoing: make(chan *statepb.Report, maxWaiting)}
		if cfg.Known != nil && cfg.Known.GetInstance() != "" {
			s.view = cfg.Known // a controller of that instance continues from there
		}
		w.streams = append(w.streams, s)
	}
	return w, nil
}

// Controllers returns the states of the connections, in the order of [WatchConfig].Controllers.
func (w *Watcher) Controllers() []Controller {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Controller, 0, len(w.streams))
	for _, s := range w.streams {
		out = append(out, Controller{
			Addr: s.addr, Followed: s == w.active, Open: s.open, Since: s.since, Instance: s.view.GetInstance(),
			Epoch: s.view.GetEpoch(), Updates: s.updates, Error: s.err,
		})
	}
	return out
}

// Run receives updates from the controllers until ctx ends, and returns ctx's error.
func (w *Watcher) Run(ctx context.Context) error {
	// Wait ends the group's context, so without controllers ctx itself is needed.
	g, inner := errgroup.WithContext(ctx)
	for _, s := range w.streams {
		g.Go(func() error { return w.maintain(inner, s) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	<-ctx.Done() // there are no controllers
	return ctx.Err()
}

// maintain keeps a stream open to one controller.
func (w *Watcher) maintain(ctx context.Context, s *controllerStream) error {
	conn, err := w.cfg.Dial(s.addr)
	if err != nil {
		return fmt.Errorf("hostagent daemon: controller %s: %w", s.addr, err)
	}
	defer conn.Close() //nolint:errcheck // nothing is left to send
	client := staterpc.NewFabricStateClient(conn)
	pause := w.cfg.Retry
	for {
		received, err := w.listen(ctx, s, client)
		w.streamLost(s, err)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if received {
			pause = w.cfg.Retry
		}
		w.cfg.Log.Info("no updates from controller", "addr", s.addr, "err", err, "again_in", pause)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, w.cfg.RetryMost)
	}
}

// errSilent ends a stream that has been silent for too long.
var errSilent = errors.New("hostagent daemon: the controller is silent")

// listen opens a stream and processes its messages until it breaks.
func (w *Watcher) listen(ctx context.Context, s *controllerStream, client staterpc.FabricStateClient) (received bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(w.cfg.Silence, func() { cancel(errSilent) })
	defer silence.Stop()
	why := func(err error) error {
		if context.Cause(ctx) == errSilent { //nolint:errorlint // it is that very value
			return errSilent
		}
		return err
	}
	stream, err := client.Watch(ctx)
	if err != nil {
		return false, why(err)
	}
	w.mu.Lock()
	hello := &statepb.Hello{Host: uint32(w.cfg.Host), Instance: s.view.GetInstance(), LastEpoch: s.view.GetEpoch()}
	w.mu.Unlock()
	if err := stream.Send(&statepb.AgentMessage{Message: &statepb.AgentMessage_Hello{Hello: hello}}); err != nil {
		return false, why(err)
	}
	var speaker sync.WaitGroup
	speaker.Go(func() {
		if err := s.sendReports(ctx, stream); err != nil {
			cancel(err)
		}
	})
	defer speaker.Wait()
	defer cancel(nil) // before the wait for the sending goroutine
	for {
		u, err := stream.Recv()
		if err != nil {
			return received, why(err)
		}
		silence.Reset(w.cfg.Silence)
		received = true
		w.receive(s, u)
		w.probesAsked(s, u.GetProbes())
	}
}

// receive processes a controller's update.
func (w *Watcher) receive(s *controllerStream, u *statepb.Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if foreign := w.drop(u); foreign > 0 && !s.unknownLinks {
		s.unknownLinks = true // logged once
		w.cfg.Log.Warn("controller names links that do not exist; does it control another fabric?", "addr", s.addr, "links", foreign)
	}
	if !s.open {
		s.open, s.since, s.err = true, time.Now(), ""
		w.cfg.Log.Info("first update from controller", "addr", s.addr, "instance", u.GetInstance())
	}
	if !u.GetHeartbeat() {
		s.view = Merge(s.view, u)
		s.updates++
	}
	switch {
	case s == w.active:
		w.cfg.Apply(u)
	case w.active == nil && s.view != nil:
		w.follow(s)
	}
}

// drop removes states of unknown links from an update, and returns their number.
func (w *Watcher) drop(u *statepb.Update) int {
	before := len(u.GetLinks()) + len(u.GetSuspects())
	u.Links = slices.DeleteFunc(u.Links, func(l *statepb.LinkState) bool { return int64(l.GetLink()) >= int64(w.cfg.Links) })
	u.Suspects = slices.DeleteFunc(u.Suspects, func(l *statepb.Suspect) bool { return int64(l.GetLink()) >= int64(w.cfg.Links) })
	return before - len(u.Links) - len(u.Suspects)
}

// follow makes s the followed controller. w.mu is held.
func (w *Watcher) follow(s *controllerStream) {
	w.active = s
	w.cfg.Log.Info("following controller", "addr", s.addr, "instance", s.view.GetInstance(), "epoch", s.view.GetEpoch())
	w.cfg.Apply(s.view)
}

// streamLost records that a controller's stream broke, and follows another one if it was the followed one.
func (w *Watcher) streamLost(s *controllerStream, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.open = false
	if err != nil {
		s.err = err.Error()
	}
	if s != w.active {
		return
	}
	w.active = nil
	for _, other := range w.streams {
		if other.open && other.view != nil {
			w.follow(other)
			return
		}
	}
}
