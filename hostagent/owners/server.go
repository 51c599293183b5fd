package owners

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/internal/accept"
	"github.com/ethereal-fabric/ethereal/internal/loglimit"
)

// setPatience is the time for which Set waits for owners to label queue pairs. Requests continue after it.
const setPatience = 200 * time.Millisecond

// maxAnnounced bounds the queue pairs of all owners, maxOwned those of one: an RNIC has at most 2^18, and no known
// program needs more than 2^16.
const (
	maxAnnounced = 1 << 18
	maxOwned     = 1 << 16
)

// maxTimeouts bounds the time-outs that OnTimeout has not received. Further ones are dropped: a queue pair whose
// path is dead times out again.
const maxTimeouts = 4096

// Server is the agent's end of the protocol by which programs (owners) announce their queue pairs and get labels for
// them. It is a [labeller.Discoverer], safe for concurrent use.
type Server struct {
	// OnTimeout is called when an owner reports a time-out of its queue pair; may be nil. It may label queue pairs. Set
	// it before Run.
	OnTimeout func(labeller.QP)
	// Log receives owners' connections and errors; nil: not logged.
	Log *slog.Logger

	wake     chan struct{}
	timeouts chan labeller.QP

	refused *loglimit.Limiter

	mu        sync.Mutex
	announced map[labeller.QP]*announcedQP
	ended     chan struct{} // closed when a request ends
}

var _ labeller.Discoverer = (*Server)(nil)

// announcedQP is a queue pair that an owner has announced.
type announcedQP struct {
	owner         *owner        // nil: its stream has ended
	announcedBy   *owner        // the last owner that showed it, against whose limit it counts
	currentLabel  *fabric.Label // its label; nil: unknown
	wantedLabel   *fabric.Label // the wanted label; nil: not decided
	lastRequest   uint64        // the last request for it since it was shown
	requestFailed bool          // a request for it has failed
	err           error         // why it could not get want
}

// lacksLabel reports whether a queue pair may not have its wanted label yet.
func (q *announcedQP) lacksLabel() bool {
	return q.wantedLabel != nil && (q.currentLabel == nil || *q.currentLabel != *q.wantedLabel)
}

// NewServer returns a server without queue pairs; [Server.Run] serves owners.
func NewServer() *Server {
	return &Server{
		wake: make(chan struct{}, 1), timeouts: make(chan labeller.QP, maxTimeouts),
		announced: map[labeller.QP]*announcedQP{}, ended: make(chan struct{}),
		refused: loglimit.New(slog.New(slog.DiscardHandler), time.Second),
	}
}

// Wake returns a channel that signals that owners have announced queue pairs.
func (s *Server) Wake() <-chan struct{} { return s.wake }

// Run serves owners until ctx ends. It closes the listener, and returns the error of ctx or of the listener.
func (s *Server) Run(ctx context.Context, lis net.Listener) error {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Not on the goroutine that reads from the owner: OnTimeout waits for answers.
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case q := <-s.timeouts:
				s.OnTimeout(q)
			}
		}
	})
	s.refused = loglimit.New(s.Log, time.Second)
	// A program without queue pairs sends nothing, so silence is allowed.
	return accept.Serve(ctx, lis, accept.Options{Silence: -1, Log: s.Log}, func(_ context.Context, conn net.Conn) {
		o := newOwner(conn)
		wg.Go(func() { s.send(o) })
		err := lines(conn, func(m *message) error { return s.handleMessage(o, m) })
		conn.Close() //nolint:errcheck // nothing is left to say
		s.ownerLeft(o)
		s.Log.Info("an owner of queue pairs left", "err", err)
	})
}

func (s *Server) ownerLeft(o *owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.announced {
		if q.owner == o {
			q.owner = nil
		}
	}
	close(o.gone)
	s.wakeWaiters()
}

// handleMessage processes an owner's message.
func (s *Server) handleMessage(o *owner, m *message) error {
	if m.Seq != 0 {
		return s.answered(o, m)
	}
	if len(m.Set) > 0 {
		return errors.New("owners: an owner may not set labels")
	}
	s.mu.Lock()
	for _, p := range m.Show {
		q := s.announced[p.qp()]
		switch {
		case q != nil && q.owner != nil && q.owner != o && !o.replaces(q.owner):
			s.refused.Warn("a program shows another program's queue pair: refused", "qp", p.qp())
			continue
		case q != nil && q.announcedBy == o:
		case o.announcedCount >= maxOwned:
			s.mu.Unlock()
			return fmt.Errorf("owners: more than %d queue pairs of one program", maxOwned)
		case q == nil && len(s.announced) >= maxAnnounced:
			s.mu.Unlock()
			return fmt.Errorf("owners: more than %d queue pairs of all programs", maxAnnounced)
		}
		if q == nil {
			q = &announcedQP{}
			s.announced[p.qp()] = q
		}
		if q.announcedBy != o {
			if q.announcedBy != nil {
				q.announcedBy.announcedCount--
			}
			q.announcedBy = o
			o.announcedCount++
		}
		q.owner, q.currentLabel, q.lastRequest, q.err = o, p.Label, 0, nil
		if q.lacksLabel() { // decided while its owner was disconnected
			o.queueCheck(p.qp(), q)
		}
	}
	for _, p := range m.Forget {
		if q := s.announced[p.qp()]; q != nil && q.owner == o {
			q.owner = nil
		}
	}
	for _, p := range m.Timeout {
		if q := s.announced[p.qp()]; q == nil || q.owner != o || s.OnTimeout == nil {
			continue
		}
		select {
		case s.timeouts <- p.qp():
		default:
		}
	}
	s.mu.Unlock()
	if len(m.Show) > 0 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// Set labels queue pairs from their next packet on, for [labeller.Labeller]. The error wraps [labeller.ErrUnknownQP]
// for a queue pair that no owner has announced. If the owner is disconnected, the queue pair is labelled when it
// connects again. After another error the request is repeated, until the label is set, replaced or cleared.
func (s *Server) Set(as ...labeller.Assignment) error {
	s.mu.Lock()
	for _, a := range as {
		q := s.announced[a.QP]
		if err := a.Validate(); err != nil || q == nil {
			s.mu.Unlock()
			if err == nil {
				err = fmt.Errorf("%w: owners: %v was not shown", labeller.ErrUnknownQP, a.QP)
			}
			return err
		}
	}
	for _, a := range as {
		q := s.announced[a.QP]
		if q.wantedLabel, q.err = &a.Label, nil; q.owner != nil && q.lacksLabel() {
			q.owner.queueCheck(a.QP, q)
		}
	}
	s.mu.Unlock()
	return s.wait(as)
}

// Clear removes the labels of queue pairs, for [labeller.Labeller]. A queue pair keeps its last label, as in hardware,
// but this agent no longer manages it.
func (s *Server) Clear(qps ...labeller.QP) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range qps {
		if q := s.announced[n]; q != nil {
			if q.wantedLabel = nil; q.owner == nil {
				q.announcedBy.announcedCount--
				delete(s.announced, n)
			}
		}
	}
	return nil
}

// Assignments returns the labels in force, for [labeller.Labeller].
func (s *Server) Assignments() ([]labeller.Assignment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var as []labeller.Assignment
	for n, q := range s.announced {
		if q.wantedLabel != nil {
			as = append(as, labeller.Assignment{QP: n, Label: *q.wantedLabel})
		}
	}
	labeller.Sort(as)
	return as, nil
}

// Unlabelled returns the queue pairs that owners have announced and that have no label yet, for
// [labeller.Discoverer].
func (s *Server) Unlabelled() ([]labeller.Seen, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []labeller.Seen
	for n, q := range s.announced {
		if q.owner != nil && q.wantedLabel == nil {
			out = append(out, labeller.Seen{QP: n, Label: q.currentLabel})
		}
	}
	labeller.SortSeen(out)
	return out, nil
}

// Unused returns the queue pairs that were forgotten, or whose owner is disconnected, for [labeller.Discoverer].
func (s *Server) Unused() ([]labeller.QP, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []labeller.QP
	for n, q := range s.announced {
		if q.owner == nil {
			out = append(out, n)
		}
	}
	return out, nil
}

// Counters always fails, with an error that wraps labeller.ErrUnsupported.
func (s *Server) Counters() (labeller.Counters, error) {
	return labeller.Counters{}, fmt.Errorf("%w: owners: packets are counted where they are sent", labeller.ErrUnsupported)
}

// Close does nothing: queue pairs keep their labels.
func (s *Server) Close() error { return nil }
