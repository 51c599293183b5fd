package batch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
)

// ErrDestination is wrapped when an address is not that of one of the fabric's
// hosts.
var ErrDestination = errors.New("batch: no such host")

// Config says for whom an [Agent] decides.
type Config struct {
	// Agent is the core's configuration. Its StartJitter is of no use here:
	// a piece is given at once.
	Agent hostagent.Config
	// Labeller labels the queue pairs that are lent. Nil: the caller labels.
	Labeller labeller.Labeller
	// HostOf finds the host that has an address. Nil: the fabric's own plan,
	// [fabric.Fabric.HostByAddr].
	HostOf func(netip.Addr) (fabric.NodeID, bool)
	// Now is the clock, in time since some fixed point. Nil: the monotonic
	// clock.
	Now func() time.Duration
}

// Message is what the caller wants to send.
type Message struct {
	ID    uint64     // the caller's; not interpreted
	Dst   netip.Addr // of a host
	Bytes int64      // at least 1
}

// Piece is a part of a message, or all of it, to be sent on one queue pair.
type Piece struct {
	Key           hostagent.QP // names the piece in calls back
	Message       uint64       // its ID
	Dst           netip.Addr
	Offset, Bytes int64
	// QP is the queue pair to send it on; none without a labeller.
	QP labeller.QP
	// Label is what the queue pair's packets carry. It is of no meaning unless
	// Labelled: destinations under the own ToR need none.
	Label    fabric.Label
	Labelled bool
}

// Move is a piece that goes on by another path.
type Move struct {
	Key      hostagent.QP
	QP       labeller.QP // has the new label already; none without a labeller
	From, To fabric.Label
	Reason   hostagent.Reason
}

// Work is what there is to do.
type Work struct {
	// Send are pieces to be sent, in order.
	Send []Piece
	// Moved are pieces given before that changed their paths since.
	Moved []Move
}

// Agent splits, labels and moves one host's messages. Make one with [New].
type Agent struct {
	hostOf func(netip.Addr) (fabric.NodeID, bool)
	now    func() time.Duration
	labels labeller.Labeller
	wake   chan struct{} // the deadline may have changed

	mu     sync.Mutex
	core   *hostagent.Core
	addr   map[fabric.NodeID]netip.Addr // as the caller wrote it last
	pieces map[hostagent.QP]*entry
	pools  map[fabric.NodeID]*pool
	work   Work
}

// entry is a piece that is not done.
type entry struct {
	Piece
	node  fabric.NodeID
	given bool // to the caller
}

// New returns an agent, or what is wrong with the configuration.
func New(c Config) (*Agent, error) {
	core, err := hostagent.New(c.Agent)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		hostOf: c.HostOf, now: c.Now, labels: c.Labeller, core: core, wake: make(chan struct{}, 1),
		addr: map[fabric.NodeID]netip.Addr{}, pieces: map[hostagent.QP]*entry{}, pools: map[fabric.NodeID]*pool{},
	}
	if a.hostOf == nil {
		a.hostOf = c.Agent.Fabric.HostByAddr
	}
	if a.now == nil {
		start := time.Now()
		a.now = func() time.Duration { return time.Since(start) }
	}
	return a, nil
}

func (a *Agent) time() fabric.Time { return fabric.Time(a.now().Nanoseconds()) * fabric.Nanosecond }

func (a *Agent) host(addr netip.Addr) (fabric.NodeID, error) {
	h, ok := a.hostOf(addr.Unmap())
	if !ok {
		return 0, fmt.Errorf("%w: %v is the address of none in the fabric", ErrDestination, addr)
	}
	return h, nil
}

// Add lends connected queue pairs. Each must be idle, and known to the labeller
// if that wants to know them.
func (a *Agent) Add(qps ...labeller.QP) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range qps {
		if err := q.Validate(); err != nil {
			return err
		}
		h, err := a.host(q.Dst)
		if err != nil {
			return err
		}
		q.Dst = q.Dst.Unmap()
		if err := a.pool(h).add(q); err != nil {
			return err
		}
		if err := a.place(h); err != nil {
			return err
		}
	}
	return nil
}

// Withdraw takes queue pairs back. One that a piece is on is not used again
// after the piece is done.
func (a *Agent) Withdraw(qps ...labeller.QP) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range qps {
		q.Dst = q.Dst.Unmap()
		if h, err := a.host(q.Dst); err == nil {
			a.pool(h).withdraw(q)
		}
	}
}

// Post splits and labels what is sent together: a step of a collective, or the
// messages of one batching window. On an error that wraps [ErrDestination] or
// hostagent.ErrFlow nothing was taken; another is the labeller's.
func (a *Agent) Post(batch ...Message) error {
	flows := make([]hostagent.Flow, len(batch))
	for i, m := range batch {
		h, err := a.host(m.Dst)
		if err != nil {
			return fmt.Errorf("message %d of the batch: %w", i, err)
		}
		flows[i] = hostagent.Flow{ID: m.ID, Dst: h, Bytes: m.Bytes}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.core.Post(a.time(), flows); err != nil {
		return err
	}
	for i, m := range batch {
		a.addr[flows[i].Dst] = m.Dst.Unmap()
	}
	return a.settle()
}

// Acked says that bytes more of a piece are acknowledged. Unknown pieces are
// ignored, here and below.
func (a *Agent) Acked(key hostagent.QP, bytes int64) error {
	return a.do(func(now fabric.Time) { a.core.Acked(now, key, bytes) })
}

// Done says that a piece has been sent and acknowledged, or given up. Its queue
// pair is idle from now on.
func (a *Agent) Done(key hostagent.QP) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.core.Done(a.time(), key)
	e := a.pieces[key]
	if e == nil {
		return a.settle()
	}
	delete(a.pieces, key)
	if a.labels != nil {
		a.pool(e.node).release(e)
	}
	return errors.Join(a.settle(), a.place(e.node))
}

// Timeout says that a piece's retransmission timer expired, or that its queue
// pair's retries ran out.
func (a *Agent) Timeout(key hostagent.QP) error {
	return a.do(func(now fabric.Time) { a.core.Timeout(now, key) })
}

// Quench takes a switch's word: the UDP payload of a datagram to
// hostagent.QuenchPort, and its source address. Forged and useless ones change
// nothing.
func (a *Agent) Quench(payload []byte, src netip.Addr) (hostagent.Verdict, error) {
	q, err := hostagent.ParseQuench(payload, src)
	if err != nil {
		return 0, err
	}
	var v hostagent.Verdict
	err = a.do(func(now fabric.Time) { v = a.core.Quench(now, q) })
	return v, err
}

// Update takes a controller's word.
func (a *Agent) Update(u *statepb.Update) error {
	return a.do(func(now fabric.Time) { a.core.Update(now, u) })
}

// do lets the core hear something and does what follows from it.
func (a *Agent) do(f func(fabric.Time)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(a.time())
	return a.settle()
}

// Take returns what has become due since the last call. Its slices are the
// caller's.
func (a *Agent) Take() Work {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.work
	a.work = Work{}
	for _, p := range w.Send {
		if e := a.pieces[p.Key]; e != nil {
			e.given = true
		}
	}
	return w
}

// Waiting returns how many pieces wait for a queue pair.
func (a *Agent) Waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, p := range a.pools {
		n += len(p.queue)
	}
	return n
}

// Stats returns the core's counts.
func (a *Agent) Stats() hostagent.Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.core.Stats()
}

// Run does what becomes due by time, such as the return to a path whose failure
// is forgotten, until ctx ends. It returns ctx's error, or the labeller's.
func (a *Agent) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			if err := a.do(a.core.Tick); err != nil {
				return err
			}
		case <-a.wake:
		}
		a.mu.Lock()
		at, ok := a.core.Deadline()
		now := a.time()
		a.mu.Unlock()
		timer.Stop()
		if ok {
			timer.Reset(max(0, time.Duration((at-now)/fabric.Nanosecond)+1))
		}
	}
}
