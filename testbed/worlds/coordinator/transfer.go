package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// Transfer is a message from one host to another.
type Transfer struct {
	Src, Dst int
	Bytes    int64
}

// Post makes hosts send messages, one batch per host, to memory that the receivers first allocate. The IDs are the
// session's.
func (s *Session) Post(ctx context.Context, ts ...Transfer) error {
	in, out := map[int][]hostproto.Inbound{}, map[int][]hostproto.Outbound{}
	for _, t := range ts {
		s.next++
		id, key := s.next<<8|0xff, uint32(s.next)
		in[t.Dst] = append(in[t.Dst], hostproto.Inbound{ID: id, Key: key, Bytes: t.Bytes})
		out[t.Src] = append(out[t.Src], hostproto.Outbound{ID: id, Dst: t.Dst, Bytes: t.Bytes, Key: key})
	}
	for rank, m := range in {
		if err := s.askOne(ctx, rank, hostproto.Request{Expect: m}); err != nil {
			return err
		}
	}
	for rank, m := range out {
		if err := s.askOne(ctx, rank, hostproto.Request{Post: m}); err != nil {
			return err
		}
	}
	return nil
}

// askOne sends a request to one host and waits for the answer. It processes events meanwhile.
func (s *Session) askOne(ctx context.Context, rank int, q hostproto.Request) error {
	return s.processEventsDuring(func() error {
		_, err := s.hosts[rank].Ask(ctx, q)
		return err
	})
}

// ErrTimeout is wrapped if something did not happen in time.
var ErrTimeout = errors.New("coordinator: not in time")

// RunUntil processes the hosts' events until ok returns true, a host reports a fault, or the time limit is over.
func (s *Session) RunUntil(ctx context.Context, limit time.Duration, what string, ok func() bool) error {
	t := time.NewTimer(limit)
	defer t.Stop()
	for {
		if len(s.ledger.faults) > 0 {
			return errors.Join(s.ledger.faults...)
		}
		if ok() {
			return nil
		}
		select {
		case e := <-s.events:
			s.take(e)
		case <-t.C:
			return fmt.Errorf("%w: %s: %v", ErrTimeout, what, limit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// RunFor processes the hosts' events for a time.
func (s *Session) RunFor(ctx context.Context, d time.Duration) error {
	err := s.RunUntil(ctx, d, "", func() bool { return false })
	if errors.Is(err, ErrTimeout) {
		return nil
	}
	return err
}

// OpenMessages returns the number of messages that were posted but are not both received and acknowledged.
func (s *Session) OpenMessages() int { return s.ledger.open }

// Flip is a change of a queue pair's path. Times are ns of CLOCK_MONOTONIC.
type Flip struct {
	Rank     int
	QP       uint32
	From, To uint16
	Reason   string
	At       int64 // when the agent decided it
	First    int64 // of the first data packet on the new path; 0: there was none
}

// TakeFlips returns the flips since the last call.
func (s *Session) TakeFlips() []Flip {
	var out []Flip
	for _, h := range s.ledger.flips {
		out = append(out, Flip{h.Rank, h.QP, h.From, h.To, h.Reason, h.At, h.First})
	}
	s.ledger.flips = nil
	return out
}

// Check returns an error if a message was lost, arrived twice or with other bytes, or a host reported a fault.
func (s *Session) Check() error { return s.ledger.check() }
