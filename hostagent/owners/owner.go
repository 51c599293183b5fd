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
)

// Config says how an [Owner] joins.
type Config struct {
	Socket string // the agent's
	// Labels labels the process's queue pairs. One that it does not know yet
	// (labeller.ErrUnknownQP) is labelled by who brings it to RTR, with what
	// [Owner.Wait] returns.
	Labels labeller.Labeller
	Retry  time.Duration // between attempts to join; 0: 100 ms
	Log    *slog.Logger  // nil: silent
}

// Owner is the end of a process that has queue pairs. It is safe for concurrent
// use.
type Owner struct {
	cfg Config

	mu      sync.Mutex
	conn    net.Conn // nil: not joined
	own     map[labeller.QP]*fabric.Label
	changed chan struct{} // closed when a label is set
}

// New returns an owner without queue pairs. Run joins the agent.
func New(c Config) *Owner {
	if c.Retry == 0 {
		c.Retry = 100 * time.Millisecond
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Owner{cfg: c, own: map[labeller.QP]*fabric.Label{}, changed: make(chan struct{})}
}

// Show has the agent give queue pairs paths.
func (o *Owner) Show(qps ...labeller.QP) error {
	for _, q := range qps {
		if err := q.Validate(); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range qps {
		if _, ok := o.own[q]; !ok {
			o.own[q] = nil
		}
	}
	o.send(&message{Show: pairs(qps)})
	return nil
}

// Forget says that queue pairs are no more.
func (o *Owner) Forget(qps ...labeller.QP) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range qps {
		delete(o.own, q)
	}
	o.send(&message{Forget: pairs(qps)})
}

// Timeout says that queue pairs' retransmission timers expired, or their retries
// ran out.
func (o *Owner) Timeout(qps ...labeller.QP) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.send(&message{Timeout: pairs(qps)})
}

// say is called with the lock held. What cannot be said is lost with the stream:
// the next one begins with everything.
func (o *Owner) send(m *message) {
	if o.conn == nil {
		return
	}
	o.conn.SetWriteDeadline(time.Now().Add(time.Second)) //nolint:errcheck // the write fails, too
	if err := m.write(o.conn); err != nil {
		o.conn.Close() //nolint:errcheck // its reader sees it
	}
}

// Wait returns the label of a queue pair that was shown, once the agent has given
// it one. The error is ctx's.
func (o *Owner) Wait(ctx context.Context, q labeller.QP) (fabric.Label, error) {
	for {
		o.mu.Lock()
		l, changed := o.own[q], o.changed
		o.mu.Unlock()
		if l != nil {
			return *l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("owners: %v has no label yet: %w", q, ctx.Err())
		}
	}
}

// Run joins the agent, again whenever the stream ends, and labels what it asks for,
// until ctx ends. It returns ctx's error.
func (o *Owner) Run(ctx context.Context) error {
	for {
		err := o.join(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		o.cfg.Log.Info("no agent", "err", err, "again_in", o.cfg.Retry)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(o.cfg.Retry):
		}
	}
}

// showAtOnce is how many queue pairs one message shows.
const showAtOnce = 4096

// join does one stream.
func (o *Owner) join(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", o.cfg.Socket)
	if err != nil {
		return err
	}
	defer conn.Close()                                     //nolint:errcheck // nothing is left to say
	end := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // the reader sees it
	defer end()
	o.mu.Lock()
	o.conn = conn
	m := &message{}
	for q, l := range o.own {
		if m.Show = append(m.Show, pair{q.Dst, q.Num, l}); len(m.Show) == showAtOnce {
			o.send(m)
			m = &message{}
		}
	}
	if len(m.Show) > 0 {
		o.send(m)
	}
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.conn = nil
		o.mu.Unlock()
	}()
	return lines(conn, o.take)
}

// take does what the agent asks for.
func (o *Owner) take(m *message) error {
	if m.Seq == 0 || len(m.Set) == 0 {
		return errors.New("owners: the agent asks for nothing")
	}
	var errs []error
	var done []pair
	for _, p := range m.Set {
		err := o.cfg.Labels.Set(labeller.Assignment{QP: p.qp(), Label: *p.Label})
		if err == nil || errors.Is(err, labeller.ErrUnknownQP) {
			done = append(done, p)
			continue
		}
		errs = append(errs, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range done {
		if _, ok := o.own[p.qp()]; ok {
			o.own[p.qp()] = p.Label
		}
	}
	close(o.changed)
	o.changed = make(chan struct{})
	answer := &message{Seq: m.Seq}
	if err := errors.Join(errs...); err != nil {
		answer.Error = err.Error()
	}
	o.send(answer)
	return nil
}
