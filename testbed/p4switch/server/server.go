package server

import (
	"context"
	"sync"
	"time"

	gnmi "github.com/openconfig/gnmi/proto/gnmi"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
)

// Server serves a core and its gNMI side over gRPC. It is safe for concurrent
// use: every call into them is made under one lock, which is not the one that
// packets take: see [Config.DataPath].
type Server struct {
	p4.UnimplementedP4RuntimeServer

	mu   sync.Locker
	core *Core // nil: not served
	gn   *GNMI // nil: not served
	wake chan struct{}
}

// NewServer makes a server. mu guards core and gn. Either may be nil, and its service
// is then not there: a sidecar serves gNMI beside a switch that has P4Runtime.
func NewServer(mu sync.Locker, core *Core, gn *GNMI) *Server {
	s := &Server{mu: mu, core: core, gn: gn, wake: make(chan struct{}, 1)}
	if core != nil {
		core.OnDeadline(s.kick)
	}
	return s
}

// Register adds the services to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	if s.core != nil {
		p4.RegisterP4RuntimeServer(r, s)
	}
	if s.gn != nil {
		gnmi.RegisterGNMIServer(r, gnmiServer{Server: s})
	}
}

// Run does what time brings: digest and idle timeouts, samples, heartbeats.
// It returns when ctx ends, with ctx's error.
func (s *Server) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		case <-timer.C:
		}
		if wait, ok := s.advance(); ok {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
	}
}

// advance does what is due and returns the time until more is.
func (s *Server) advance() (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var now, next int64
	ok := false
	if s.core != nil {
		now = s.core.cfg.Now()
		s.core.Advance(now)
		next, ok = s.core.NextDeadline()
	}
	if s.gn != nil {
		now = s.gn.cfg.Now()
		s.gn.Advance(now)
		if t, has := s.gn.NextDeadline(); has && (!ok || t < next) {
			next, ok = t, true
		}
	}
	return max(time.Duration(next-now), 0), ok
}

// kick makes Run look at the deadlines again.
func (s *Server) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// outbox is a bounded queue between a core, which must not block, and a
// stream's writer.
type outbox[T any] struct {
	mu     sync.Mutex
	msgs   []T
	bytes  int // of msgs
	closed bool
	full   bool // an offer was refused since the last take
	ready  chan struct{}

	size func(T) int
	most int // bytes
}

func newOutbox[T any](size func(T) int, most int) *outbox[T] {
	return &outbox[T]{ready: make(chan struct{}, 1), size: size, most: most}
}

// offer takes m unless limit messages, or too many bytes, wait already. The bytes
// of a message that is alone do not count.
func (o *outbox[T]) offer(m T, limit int) bool {
	n := o.size(m)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.msgs) >= limit || len(o.msgs) > 0 && o.bytes+n > o.most {
		o.full = true
		return false
	}
	o.msgs = append(o.msgs, m)
	o.bytes += n
	o.signal()
	return true
}

func (o *outbox[T]) signal() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// close ends run once all that was taken is sent.
func (o *outbox[T]) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.signal()
}

// run sends what is offered until the box is closed and empty, sending
// fails, or ctx ends. room is called when a full box has been emptied.
func (o *outbox[T]) run(ctx context.Context, send func(T) error, room func()) error {
	for {
		o.mu.Lock()
		msgs, closed, full := o.msgs, o.closed, o.full
		o.msgs, o.bytes, o.full = nil, 0, false
		o.mu.Unlock()
		for _, m := range msgs {
			if err := send(m); err != nil {
				return err
			}
		}
		if full && !closed {
			room()
			continue
		}
		if len(msgs) > 0 {
			continue
		}
		if closed {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.ready:
		}
	}
}
