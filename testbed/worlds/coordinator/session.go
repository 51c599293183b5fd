package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// Session is a coordinator's connections to a set of hosts. It belongs to one goroutine.
type Session struct {
	hosts  []*Host // by rank
	events chan hostEvent
	ledger *ledger
	next   uint64 // number of the last message of Post
	hash   hash.Hash
	log    io.Writer // JSON lines of events; nil: none

	clocks  []*clock // of the hosts; none before the first run
	clockOf []*clock // by rank

	traced     bool // the run needs its events
	keptEvents []hostEvent
}

// hostEvent is an event and its rank.
type hostEvent struct {
	Rank int `json:"rank"`
	hostproto.Event
}

// Connect connects to hosts, by rank.
func Connect(ctx context.Context, sockets []string) (*Session, error) {
	s := &Session{events: make(chan hostEvent, 4096), ledger: newLedger(), hash: sha256.New()}
	for rank, path := range sockets {
		h, err := Dial(ctx, path, func(e hostproto.Event) { s.events <- hostEvent{rank, e} })
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.hosts = append(s.hosts, h)
		// A host closes a connection without messages.
		if _, err := h.Ask(ctx, hostproto.Request{Clock: true}); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Ended returns why the connection to a host has ended, or nil. After an error no run is possible.
func (s *Session) Ended() error {
	for _, h := range s.hosts {
		select {
		case <-h.Ended():
			return h.err
		default:
		}
	}
	return nil
}

// Close ends the connections.
func (s *Session) Close() error {
	done := make(chan struct{})
	go func() { // readers may wait for room
		for {
			select {
			case <-s.events:
			case <-done:
				return
			}
		}
	}()
	defer close(done)
	var errs []error
	for _, h := range s.hosts {
		errs = append(errs, h.Close())
	}
	return errors.Join(errs...)
}

// Log writes every event to w as a line of JSON; nil stops that.
func (s *Session) Log(w io.Writer) { s.log = w }

// ask sends each host its request, in parallel, and waits for all answers. It processes events meanwhile.
func (s *Session) ask(ctx context.Context, request func(rank int) hostproto.Request) ([]hostproto.Reply, error) {
	replies := make([]hostproto.Reply, len(s.hosts))
	return replies, s.processEventsDuring(func() error {
		var g errgroup.Group
		for rank, h := range s.hosts {
			g.Go(func() (err error) {
				replies[rank], err = h.Ask(ctx, request(rank))
				return err
			})
		}
		return g.Wait()
	})
}

// processEventsDuring processes events until f returns.
func (s *Session) processEventsDuring(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	for {
		select {
		case err := <-done:
			return err
		case e := <-s.events:
			s.take(e)
		}
	}
}

// Configure restarts all hosts with the same settings. Each host's rank changes the effect of the seed.
func (s *Session) Configure(ctx context.Context, set host.Settings) error {
	if set.Nonce == 0 {
		set.Nonce = rand.Uint64()
	}
	_, err := s.ask(ctx, func(int) hostproto.Request { return hostproto.Request{Configure: &set} })
	s.drain()
	s.ledger, s.hash = newLedger(), sha256.New()
	return err
}

// drain processes the waiting events.
func (s *Session) drain() {
	for {
		select {
		case e := <-s.events:
			s.take(e)
		default:
			return
		}
	}
}

// take records an event, at its time on the local clock.
func (s *Session) take(e hostEvent) {
	if s.clockOf != nil {
		c := s.clockOf[e.Rank]
		if e.At = c.here(e.At); e.First != 0 {
			e.First = c.here(e.First)
		}
	}
	line, err := json.Marshal(e)
	if err == nil {
		line = append(line, '\n')
		s.hash.Write(line) //nolint:errcheck // never fails
		if s.log != nil {
			s.log.Write(line) //nolint:errcheck // it is for the curious
		}
	}
	s.ledger.take(e)
	if s.traced {
		s.keptEvents = append(s.keptEvents, e)
	}
}

// Stats returns the counts of all hosts, by rank.
func (s *Session) Stats(ctx context.Context) ([]*hostproto.Stats, error) {
	replies, err := s.ask(ctx, func(int) hostproto.Request { return hostproto.Request{Stats: true} })
	if err != nil {
		return nil, err
	}
	out := make([]*hostproto.Stats, len(replies))
	for i, r := range replies {
		if r.Stats == nil {
			return nil, fmt.Errorf("coordinator: host %d: no counts in the answer", i)
		}
		out[i] = r.Stats
	}
	return out, nil
}
