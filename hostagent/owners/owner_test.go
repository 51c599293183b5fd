package owners

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
)

// process is one that owns queue pairs: it joins the agent, again whenever the stream ends, and labels what it is asked
// for.
type process struct {
	socket string
	labels labeller.Labeller

	mu      sync.Mutex
	conn    net.Conn // nil: not joined
	own     map[labeller.QP]*fabric.Label
	changed chan struct{} // closed when a label is set
}

func newProcess(socket string, labels labeller.Labeller) *process {
	return &process{socket: socket, labels: labels, own: map[labeller.QP]*fabric.Label{}, changed: make(chan struct{})}
}

func pairs(qps []labeller.QP) []pair {
	out := make([]pair, len(qps))
	for i, q := range qps {
		out[i] = pair{Dst: q.Dst, Num: q.Num}
	}
	return out
}

// show has the agent give queue pairs paths.
func (o *process) show(qps ...labeller.QP) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range qps {
		o.own[q] = nil
	}
	o.send(&message{Show: pairs(qps)})
}

func (o *process) forget(qps ...labeller.QP) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range qps {
		delete(o.own, q)
	}
	o.send(&message{Forget: pairs(qps)})
}

func (o *process) timeout(qps ...labeller.QP) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.send(&message{Timeout: pairs(qps)})
}

// send is called with the lock held. What cannot be sent is lost with the stream: the next one begins with everything.
func (o *process) send(m *message) {
	if o.conn != nil && m.write(o.conn) != nil {
		o.conn.Close()
	}
}

// wait returns the label of a queue pair that was shown, once the agent has given it one.
func (o *process) wait(ctx context.Context, q labeller.QP) (fabric.Label, error) {
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
			return 0, fmt.Errorf("%v has no label: %w", q, ctx.Err())
		}
	}
}

// run joins until ctx ends, and returns its error.
func (o *process) run(ctx context.Context) error {
	for {
		o.join(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// join does one stream.
func (o *process) join(ctx context.Context) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", o.socket)
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	o.mu.Lock()
	o.conn = conn
	m := &message{}
	for q, l := range o.own {
		m.Show = append(m.Show, pair{q.Dst, q.Num, l})
	}
	if len(m.Show) > 0 {
		o.send(m)
	}
	o.mu.Unlock()
	lines(conn, o.take)
	o.mu.Lock()
	o.conn = nil
	o.mu.Unlock()
}

// take does what the agent asks for. A queue pair that the device does not know yet gets its label later.
func (o *process) take(m *message) error {
	if m.Seq == 0 || len(m.Set) == 0 {
		return errors.New("the agent asks for nothing")
	}
	answer := &message{Seq: m.Seq}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range m.Set {
		if err := o.labels.Set(labeller.Assignment{QP: p.qp(), Label: *p.Label}); err != nil && !errors.Is(err, labeller.ErrUnknownQP) {
			answer.Error = err.Error()
		} else if _, ok := o.own[p.qp()]; ok {
			o.own[p.qp()] = p.Label
		}
	}
	close(o.changed)
	o.changed = make(chan struct{})
	o.send(answer)
	return nil
}
