package owners

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/internal/accept"
)

// answerTimeout is the time for a request's answer after which an owner is disconnected. When it connects again, it
// shows the labels of its queue pairs.
const answerTimeout = 10 * time.Second

// Bounds of the pause before an owner is asked again for labels that it could not set.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// maxPerRequest is the largest number of queue pairs in one request.
const maxPerRequest = 4096

var errAnswerTimeout = fmt.Errorf("owners: the queue pairs' owner does not answer within %v", setPatience)

// owner is a process that has connected. One goroutine reads its messages, and one asks it for labels, one request
// at a time, as wanted at that time: no label is set after a later one.
type owner struct {
	conn net.Conn
	gone chan struct{} // closed when the stream has ended
	kick chan struct{} // there is work
	done chan error    // of the request in progress

	process accept.Peer

	// With the server's lock:
	announcedCount int // queue pairs that count against its limit
	seq            uint64
	busy           bool // the request of seq is not answered
	began          time.Time
	todo           map[labeller.QP]*announcedQP // may lack the wanted label
	failed         map[labeller.QP]*announcedQP // could not get the label
}

func newOwner(conn net.Conn) *owner {
	return &owner{
		process: accept.PeerOf(conn),
		conn:    conn, gone: make(chan struct{}), kick: make(chan struct{}, 1), done: make(chan error, 1),
		todo: map[labeller.QP]*announcedQP{}, failed: map[labeller.QP]*announcedQP{},
	}
}

// replaces reports whether o is the same process as another owner, connected again: the end of the other stream may
// be noticed later.
func (o *owner) replaces(other *owner) bool { return o.process.PID != 0 && o.process == other.process }

// queueCheck wakes the sender to check a queue pair. The server's lock is held.
func (o *owner) queueCheck(n labeller.QP, q *announcedQP) {
	o.todo[n] = q
	delete(o.failed, n)
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// answered processes an owner's answer to a request.
func (s *Server) answered(o *owner, m *message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !o.busy || m.Seq != o.seq {
		return fmt.Errorf("owners: an answer to %d, which was not asked", m.Seq)
	}
	o.busy = false
	var err error
	if m.Error != "" {
		err = errors.New(m.Error)
	}
	o.done <- err // its buffer is empty: one answer per request
	return nil
}

// send sends label requests to an owner until its stream ends.
func (s *Server) send(o *owner) {
	pause := firstPause
	again := time.NewTimer(pause)
	defer again.Stop()
	for {
		ask, seq := s.nextRequest(o)
		if len(ask) == 0 {
			select {
			case <-o.gone:
				return
			case <-o.kick:
			case <-again.C:
				pause = min(2*pause, maxPause)
				s.retry(o)
			}
			continue
		}
		o.conn.SetWriteDeadline(time.Now().Add(answerTimeout)) //nolint:errcheck // the write fails, too
		if err := (&message{Seq: seq, Set: ask}).write(o.conn); err != nil {
			s.disconnect(o, err)
			return
		}
		t := time.NewTimer(answerTimeout)
		var err error
		select {
		case <-o.gone:
			t.Stop()
			return
		case <-t.C:
			s.disconnect(o, fmt.Errorf("owners: no answer within %v", answerTimeout))
			return
		case err = <-o.done:
			t.Stop()
		}
		switch failures := s.endRequest(o, ask, seq, err); {
		case failures == 0:
			pause = firstPause
		case err != nil:
			again.Reset(pause)
		}
	}
}

// disconnect closes an owner's connection. Its reader does the rest.
func (s *Server) disconnect(o *owner, err error) {
	s.Log.Info("disconnecting an owner of queue pairs", "err", err)
	o.conn.Close() //nolint:errcheck // its reader sees it
}

// nextRequest starts a request for wanted labels; it returns none if there is nothing to request. Queue pairs that
// failed together are requested alone.
func (s *Server) nextRequest(o *owner) (ask []pair, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, q := range o.todo {
		if q.owner != o || !q.lacksLabel() {
			delete(o.todo, n)
			continue
		}
		if q.requestFailed && len(ask) > 0 {
			continue
		}
		ask = append(ask, pair{Dst: n.Dst, Num: n.Num, Label: q.wantedLabel})
		if q.requestFailed || len(ask) == maxPerRequest {
			break
		}
	}
	if len(ask) == 0 {
		return nil, 0
	}
	o.seq++
	o.busy, o.began = true, time.Now()
	for _, p := range ask {
		q := o.todo[p.qp()]
		delete(o.todo, p.qp())
		q.currentLabel, q.lastRequest = nil, o.seq // it has the old one, or the new one
	}
	return ask, o.seq
}

// endRequest ends a request and wakes the waiting callers. It returns the number of the owner's queue pairs that
// could not be labelled.
func (s *Server) endRequest(o *owner, ask []pair, seq uint64, err error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range ask {
		q := s.announced[p.qp()]
		if q == nil || q.owner != o {
			continue
		}
		if q.lastRequest != seq { // shown again meanwhile
			o.todo[p.qp()] = q
			continue
		}
		if err == nil {
			if q.currentLabel, q.requestFailed = p.Label, false; q.lacksLabel() {
				o.todo[p.qp()] = q
			}
			continue
		}
		if q.requestFailed = true; len(ask) > 1 || q.wantedLabel == nil || *q.wantedLabel != *p.Label {
			o.todo[p.qp()] = q
			continue
		}
		q.err = fmt.Errorf("owners: the queue pairs' owner: %w", err)
		o.failed[p.qp()] = q
	}
	s.wakeWaiters()
	return len(o.failed)
}

// retry requests again the labels that failed.
func (s *Server) retry(o *owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(o.todo, o.failed)
	clear(o.failed)
}

// wakeWaiters wakes the goroutines that wait for labels. The lock is held.
func (s *Server) wakeWaiters() {
	close(s.ended)
	s.ended = make(chan struct{})
}

// wait returns when each queue pair has its label, no longer needs it, or could not get it, or when patience has
// passed. It does not wait for an owner that has not answered a request for longer than patience.
func (s *Server) wait(as []labeller.Assignment) error {
	t := time.NewTimer(setPatience)
	defer t.Stop()
	for {
		s.mu.Lock()
		ended := s.ended
		var errs []error
		waits, late := false, false
		for _, a := range as {
			q := s.announced[a.QP]
			switch {
			case q == nil, q.owner == nil, q.wantedLabel == nil, *q.wantedLabel != a.Label, q.currentLabel != nil && *q.currentLabel == a.Label:
			case q.err != nil:
				errs = append(errs, q.err)
			case q.owner.busy && time.Since(q.owner.began) >= setPatience:
				late = true
			default:
				waits = true
			}
		}
		s.mu.Unlock()
		if late {
			errs = append(errs, errAnswerTimeout)
		}
		if !waits {
			return errors.Join(errs...)
		}
		select {
		case <-ended:
		case <-t.C:
			return errors.Join(append(errs, errAnswerTimeout)...)
		}
	}
}
