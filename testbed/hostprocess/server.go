package hostprocess

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/accept"
	"github.com/ethereal-fabric/ethereal/internal/loglimit"
	"github.com/ethereal-fabric/ethereal/roce/soft"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// maxRequest is the maximum length of a line from a coordinator, in bytes.
const maxRequest = 16 << 20

// maxUnsent is the largest number of unsent events for a coordinator that does not read.
const maxUnsent = 1 << 20

// Server lets a coordinator control a rank over a socket. The rank calls Notify, in the shell's goroutine; Run is
// called once.
type Server struct {
	rank  *Rank
	shell *soft.EventLoop
	log   *slog.Logger
	// Controller returns the controller that the rank follows; nil: none.
	Controller func() string
	// PortLost returns the frames that the port lost; nil: none.
	PortLost func() uint64
	// Clock reads the clock of the rank's times.
	Clock func() hostproto.Clock

	mu   sync.Mutex
	peer *peer // the coordinator, nil: none
}

// peer is a connected coordinator.
type peer struct {
	conn   net.Conn
	mu     sync.Mutex
	unsent []hostproto.Reply
	more   chan struct{}
}

// NewServer returns a server; [Server.Attach] gives it the rank to control.
func NewServer(log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{log: log}
}

// Attach sets the rank and the shell that the server serves.
func (s *Server) Attach(r *Rank, shell *soft.EventLoop) { s.rank, s.shell = r, shell }

// Notify sends an event to the coordinator, if there is one. It does not block.
func (s *Server) Notify(e hostproto.Event) {
	s.mu.Lock()
	p := s.peer
	s.mu.Unlock()
	if p != nil {
		p.put(hostproto.Reply{Event: &e})
	}
}

func (p *peer) put(r hostproto.Reply) {
	p.mu.Lock()
	if len(p.unsent) < maxUnsent {
		p.unsent = append(p.unsent, r)
	}
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// Run serves coordinators, one at a time, until ctx ends. It closes the listener.
func (s *Server) Run(ctx context.Context, lis net.Listener) error {
	defer s.replace(nil)
	left := loglimit.New(s.log, time.Second)
	return accept.Serve(ctx, lis, accept.Options{Most: maxCoordinators, Log: s.log}, func(ctx context.Context, conn net.Conn) {
		p := &peer{conn: conn, more: make(chan struct{}, 1)}
		if err := s.serve(ctx, p); err != nil && ctx.Err() == nil {
			left.Warn("coordinator left", "err", err)
		}
	})
}

// maxCoordinators is the largest number of open connections: one coordinator, and clients that ask for the clock.
const maxCoordinators = 64

// replace makes p the coordinator and ends the previous one.
func (s *Server) replace(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peer == p {
		return
	}
	if s.peer != nil {
		s.peer.conn.Close() //nolint:errcheck // its reader sees it
	}
	s.peer = p
}

func (s *Server) serve(ctx context.Context, p *peer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { p.conn.Close() }) //nolint:errcheck // the reader sees it
	defer stop()
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel()
	writer.Go(func() {
		defer cancel()
		if err := p.write(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("coordinator does not read", "err", err)
		}
	})
	lines := bufio.NewScanner(p.conn)
	lines.Buffer(nil, maxRequest)
	for lines.Scan() {
		if err := accept.ClearDeadline(p.conn); err != nil {
			return err
		}
		var q hostproto.Request
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&q); err != nil {
			p.put(hostproto.Reply{Seq: q.Seq, Error: fmt.Sprintf("host: bad request: %v", err)})
			continue
		}
		if q.Clock { // at once: the coordinator measures the delay
			now := s.Clock()
			p.put(hostproto.Reply{Seq: q.Seq, Clock: &now})
			continue
		}
		if q.Probe == nil {
			s.replace(p)
		}
		r := hostproto.Reply{Seq: q.Seq}
		err := s.shell.Call(ctx, func(now fabric.Time) {
			if q.Probe != nil {
				s.rank.ProbePath(now, *q.Probe, func(x hostproto.Probed) { p.put(hostproto.Reply{Seq: q.Seq, Probed: &x}) })
				return
			}
			if err := s.do(now, &q, &r); err != nil {
				r.Error = err.Error()
			}
			p.put(r) // in order with the events
		})
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

// do carries out a request, in the shell's goroutine.
func (s *Server) do(now fabric.Time, q *hostproto.Request, r *hostproto.Reply) error {
	switch {
	case q.Configure != nil:
		return s.rank.Configure(now, *q.Configure)
	case q.Job != nil && q.Job.Key != 0:
		return s.rank.Prepare(*q.Job)
	case q.Job != nil:
		return s.rank.Start(q.Job.At)
	case len(q.Expect) > 0:
		return s.rank.Expect(q.Expect)
	case len(q.Post) > 0:
		return s.rank.Post(now, q.Post)
	case q.Stats:
		r.Stats = s.rank.Stats()
		r.Stats.CPU, r.Stats.RSS = processUsage()
		if s.Controller != nil {
			r.Stats.Controller = s.Controller()
		}
		if s.PortLost != nil {
			r.Stats.PortLost = s.PortLost()
		}
	default:
		return errors.New("host: an empty request")
	}
	return nil
}

// write writes the waiting replies until ctx ends.
func (p *peer) write(ctx context.Context) error {
	w := bufio.NewWriterSize(p.conn, 64<<10)
	enc := json.NewEncoder(w)
	var batch []hostproto.Reply
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.more:
		}
		p.mu.Lock()
		batch, p.unsent = p.unsent, batch[:0]
		p.mu.Unlock()
		for i := range batch {
			if err := enc.Encode(&batch[i]); err != nil {
				return err
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
}
