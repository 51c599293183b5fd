package p4rt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/backoff"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// maxMessage is the largest answer accepted, in bytes: a switch may send all its
// tables in one.
const maxMessage = 64 << 20

// DialOptions returns the options of a connection for sessions, besides credentials: room for large answers, and a
// short back-off, since sessions have their own.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: 250 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
	}
}

// SessionConfig sets up a [Session].
type SessionConfig struct {
	DeviceID uint64
	// Own is the controller's own number, above 0 and unique among the switch's controllers. Of controllers that
	// start together, the one with the highest number is primary.
	Own      uint64
	Pipeline *Pipeline
	// BatchSize is the largest number of updates in one request. 0: 500.
	BatchSize int
	// OpenTimeout bounds connecting and the wait for the bid's answer. 0: 5 s.
	OpenTimeout time.Duration
	// CallTimeout bounds every other call. 0: 10 s.
	CallTimeout time.Duration
	// PushTimeout bounds pushing the pipeline, which is slow on hardware. 0: 60 s.
	PushTimeout time.Duration
	// KeepAlive is the interval at which the connection is checked while no other call is in progress, and the time
	// allowed for the answer. 0: 5 s.
	KeepAlive time.Duration
	Backoff   backoff.Policy
	// Chance returns random numbers from 0 to below 1 for jitter. Nil: the machine's.
	Chance func() float64
	Log    *slog.Logger // nil: silent

	// OnPhase is called for every change of phase, with the error that caused it. OnTables is called with the switch's
	// tables each time the session starts to accept writes; tenure is the number to pass to [Session.Write]. Both are
	// called on the session's goroutine and must not block.
	OnPhase  func(Phase, error)
	OnTables func(tenure uint64, h Tables)
	// OnPacket, if not nil, receives the switch's packet-ins. It is called on a goroutine of the session and must
	// not block.
	OnPacket func(PacketIn)
}

func (c SessionConfig) withDefaults() SessionConfig {
	c.OpenTimeout = cmp.Or(c.OpenTimeout, 5*time.Second)
	c.CallTimeout = cmp.Or(c.CallTimeout, 10*time.Second)
	c.PushTimeout = cmp.Or(c.PushTimeout, time.Minute)
	c.KeepAlive = cmp.Or(c.KeepAlive, 5*time.Second)
	if c.BatchSize == 0 {
		c.BatchSize = 500
	}
	if c.Chance == nil {
		c.Chance = rand.Float64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Session is the controller's P4Runtime connection to one switch: it becomes primary, installs the program, reads and
// writes tables. Run does the work; the other methods are safe for concurrent use.
type Session struct {
	cfg    SessionConfig
	client p4.P4RuntimeClient
	life   *Lifecycle // owned by Run

	mu       sync.Mutex
	queue    []task
	tenure   uint64             // number of read-backs
	serving  bool               // tasks of the tenure are accepted
	primary  bool               // as of the last arbitration update
	stopCall context.CancelFunc // of the call in progress; nil: none
	wake     chan struct{}      // signals a task

	sending sync.Mutex // a stream takes one message at a time
	stream  p4.P4Runtime_StreamChannelClient
}

type task struct {
	tenure  uint64
	updates []controller.Update
	stray   []*p4.Entity
	packets []*p4.StreamMessageRequest // sent after the updates
	reread  bool                       // instead of writing
	done    func(error)
}

// NewSession returns a session over a connection, which may be shared and which
// the session does not close.
func NewSession(cfg SessionConfig, conn grpc.ClientConnInterface) (*Session, error) {
	cfg = cfg.withDefaults()
	switch {
	case cfg.Own == 0:
		return nil, errors.New("p4rt: session: Own: the election id must be above 0")
	case cfg.Pipeline == nil:
		return nil, errors.New("p4rt: session: Pipeline: missing")
	}
	if err := cfg.Backoff.Validate(); err != nil {
		return nil, err
	}
	return &Session{
		cfg: cfg, client: cfg.Pipeline.Client(conn),
		life: NewLifecycle(cfg.Own, cfg.Backoff, cfg.Chance), wake: make(chan struct{}, 1),
	}, nil
}

// Write queues updates behind those queued before. It calls done when the switch has carried them out, or with the
// error. Stray entities are deleted first. If the session does not serve the tenure, now or when the updates' turn
// comes, nothing is written and done receives [ErrNotServing]. done is called once, without a lock held, possibly
// before Write returns.
func (s *Session) Write(tenure uint64, updates []controller.Update, stray []*p4.Entity, done func(error)) {
	s.mu.Lock()
	ok := s.serving && tenure == s.tenure
	if ok {
		s.queue = append(s.queue, task{tenure: tenure, updates: updates, stray: stray, done: done})
	}
	s.mu.Unlock()
	if !ok {
		done(ErrNotServing)
		return
	}
	s.wakeLoop()
}

// NotifyPort queues a notification of the data plane about a port, behind the updates queued before: see
// [Schema.PortEvent]. It is dropped if the session does not serve the tenure.
func (s *Session) NotifyPort(tenure uint64, port fabric.PortNo, up bool, epoch uint32) error {
	m, err := s.cfg.Pipeline.schema.PortEvent(port, up, epoch)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.serving && tenure == s.tenure {
		s.queue = append(s.queue, task{tenure: tenure, packets: []*p4.StreamMessageRequest{m}, done: func(err error) {
			if err != nil {
				s.cfg.Log.Warn("the data plane was not notified of a port", "port", port, "up", up, "err", err)
			}
		}})
	}
	s.mu.Unlock()
	s.wakeLoop()
	return nil
}

// Reread makes the session read the switch's tables after the waiting updates; then a new tenure begins.
func (s *Session) Reread() {
	s.mu.Lock()
	if s.serving {
		s.queue = append(s.queue, task{tenure: s.tenure, reread: true, done: func(error) {}})
	}
	s.mu.Unlock()
	s.wakeLoop()
}

// Send makes the switch send a frame through a port. It returns [ErrNotServing] unless the session is primary and
// the program is in place.
func (s *Session) Send(port fabric.PortNo, frame []byte) error {
	s.mu.Lock()
	serving := s.serving
	s.mu.Unlock()
	if !serving {
		return ErrNotServing
	}
	m, err := s.cfg.Pipeline.schema.PacketOut(port, frame)
	if err != nil {
		return err
	}
	return s.send(m)
}

// send sends a message on the stream.
func (s *Session) send(m *p4.StreamMessageRequest) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.stream == nil {
		return ErrNotServing
	}
	return s.stream.Send(m)
}

// setStream sets the stream on which messages are sent; nil: none.
func (s *Session) setStream(stream p4.P4Runtime_StreamChannelClient) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.stream = stream
}

func (s *Session) wakeLoop() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run keeps the session open until ctx ends, and returns ctx's error. The switch then keeps its tables and forwards on.
func (s *Session) Run(ctx context.Context) error {
	defer s.stopServing()
	for {
		if err := s.sleep(ctx); err != nil {
			return err
		}
		if s.life.Tick(time.Now()) != Open {
			continue
		}
		s.report(nil)
		err := s.serve(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.life.StreamEnded(time.Now(), status.Code(rootStatus(err)))
		s.stopServing()
		due, _ := s.life.Due()
		s.cfg.Log.Warn("session lost", "err", err, "retry_in", time.Until(due).Round(time.Millisecond))
		s.report(err)
	}
}

// rootStatus returns the gRPC status inside an error.
func rootStatus(err error) error {
	var st interface{ GRPCStatus() *status.Status }
	if errors.As(err, &st) {
		return st.GRPCStatus().Err()
	}
	return err
}

func (s *Session) sleep(ctx context.Context) error {
	due, _ := s.life.Due()
	t := time.NewTimer(time.Until(due))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (s *Session) report(err error) {
	if s.cfg.OnPhase != nil {
		s.cfg.OnPhase(s.life.Phase(), err)
	}
}

// stopServing stops serving and refuses the waiting tasks.
func (s *Session) stopServing() {
	s.mu.Lock()
	s.serving, s.primary = false, false
	s.mu.Unlock()
	s.refuseTasks()
}

// setPrimary records who is primary as soon as the stream reports it: a call in progress that needs the primary
// role is cancelled.
func (s *Session) setPrimary(primary bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.primary = primary
	if !primary {
		s.serving = false
		if s.stopCall != nil {
			s.stopCall()
		}
	}
}

// call makes a call that needs the primary role.
func (s *Session) call(ctx context.Context, timeout time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s.mu.Lock()
	if !s.primary {
		s.mu.Unlock()
		return errDemoted
	}
	s.stopCall = cancel
	s.mu.Unlock()
	err := f(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopCall = nil
	if err != nil && !s.primary {
		return fmt.Errorf("%w: %w", errDemoted, err)
	}
	return err
}

// calling reports whether a call is in progress, which has its own timeout.
func (s *Session) calling() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopCall != nil
}

// errDemoted is the error of a call that was cancelled because another controller became primary: the stream stays
// open.
var errDemoted = errors.New("p4rt: no longer primary")

func (s *Session) writer() Writer {
	return Writer{DeviceID: s.cfg.DeviceID, ElectionID: s.life.Bid().Proto(), BatchSize: s.cfg.BatchSize}
}

// write carries out a task.
func (s *Session) write(ctx context.Context, t task) error {
	w := s.writer()
	if len(t.stray) > 0 {
		req := DeleteRequest(w, t.stray)
		err := s.call(ctx, s.cfg.CallTimeout, func(ctx context.Context) error {
			_, err := s.client.Write(ctx, req)
			return err
		})
		if err != nil {
			return fmt.Errorf("p4rt: deleting stray entities: %w", err)
		}
	}
	batches, err := s.cfg.Pipeline.schema.WriteRequests(w, t.updates)
	if err != nil {
		return err
	}
	for _, b := range batches {
		err := s.call(ctx, s.cfg.CallTimeout, func(ctx context.Context) error {
			_, err := s.client.Write(ctx, b.Request)
			return err
		})
		if err != nil {
			return fmt.Errorf("p4rt: writing: %w", attributeErrors(err, b.Updates))
		}
	}
	for _, m := range t.packets {
		err := s.call(ctx, s.cfg.CallTimeout, func(ctx context.Context) error { return s.sendWithin(ctx, m) })
		if err != nil {
			return fmt.Errorf("p4rt: packet-out: %w", err)
		}
	}
	return nil
}

// sendWithin sends a message on the stream before ctx ends. A switch that does not read blocks a message for as
// long as the stream is open.
func (s *Session) sendWithin(ctx context.Context, m *p4.StreamMessageRequest) error {
	said := make(chan error, 1)
	go func() { said <- s.send(m) }()
	select {
	case err := <-said:
		return err
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// streamLost reports whether an error means that the stream is broken, rather than that the switch refused the request.
func streamLost(err error) bool {
	switch status.Code(rootStatus(err)) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.PermissionDenied, codes.Unauthenticated:
		return true
	}
	return false
}
