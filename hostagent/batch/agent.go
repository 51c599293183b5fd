package batch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/shell"
)

// ErrDestination is wrapped by errors about an address that is no host of the fabric.
var ErrDestination = errors.New("batch: no such host")

// Config sets up an [Agent].
type Config struct {
	// Agent is the core's configuration. Its StartJitter has no effect: pieces may be sent at once.
	Agent hostagent.Config
	// Labeller sets the labels of the queue pairs passed to [Agent.Add]. Nil: the caller labels.
	Labeller labeller.Labeller
	// Now and Report are as in [shell.Config].
	Now    func() time.Duration
	Report func([]hostagent.Failed)
}

// Message is a message that the caller, such as a collective library, wants to send.
type Message struct {
	ID    uint64     // chosen by the caller; not interpreted
	Dst   netip.Addr // IP address of the receiving host
	Bytes int64      // number of bytes of the message, at least 1
}

// Piece is a part of a message, or the whole message, to send on one queue pair.
type Piece struct {
	Key           hostagent.QP // identifies the piece in later calls
	Message       uint64       // ID of its message
	Dst           netip.Addr
	Offset, Bytes int64
	// QP is the queue pair on which to send it; empty without a labeller.
	QP labeller.QP
	// Label is the path label of the queue pair's packets. It is valid if Labelled is set: hosts under the same ToR
	// need no label.
	Label    fabric.Label
	Labelled bool
}

// Move is an earlier [Piece] whose queue pair continues on another path.
type Move struct {
	Key      hostagent.QP
	QP       labeller.QP // has the new label already; empty without a labeller
	From, To fabric.Label
	Reason   hostagent.Reason
}

// Work is the work of the caller: see [Agent.Take].
type Work struct {
	// Send is the pieces to send now, in this order.
	Send []Piece
	// Moved is pieces of earlier calls that have changed their path.
	Moved []Move
	// Err is the labeller's error if a label could not be set; the agent tries again.
	Err error
}

// Agent splits one host's messages into pieces and chooses a path for each, for a library that has its own queue pairs.
// Make one with [New].
type Agent struct {
	*shell.Shell
	labels labeller.Labeller

	// With the shell's lock:
	addr         map[fabric.NodeID]netip.Addr // in the caller's latest form
	pieces       map[hostagent.QP]*pendingPiece
	pools        map[fabric.NodeID]*pool
	work         Work
	unlabelled   map[*pooledQP]bool      // flipped, but not labelled yet
	unlabellable map[fabric.NodeID]error // hosts whose pieces wait because no idle queue pair could be labelled
}

// retry is the time after which Run calls the labeller again after a failure. Any call of the agent does so, too.
const retry = 10 * time.Millisecond

// pendingPiece is an unfinished piece.
type pendingPiece struct {
	Piece
	node     fabric.NodeID
	returned bool // returned to the caller
}

// New returns an agent, or an error in the configuration.
func New(c Config) (*Agent, error) {
	a := &Agent{
		labels: c.Labeller, addr: map[fabric.NodeID]netip.Addr{}, pieces: map[hostagent.QP]*pendingPiece{},
		pools: map[fabric.NodeID]*pool{}, unlabelled: map[*pooledQP]bool{}, unlabellable: map[fabric.NodeID]error{},
	}
	var err error
	a.Shell, err = shell.New(shell.Config{Agent: c.Agent, Now: c.Now, Report: c.Report}, a.carryOut)
	return a, err
}

// Run processes expired timers, and sets labels again that could not be set, until ctx ends. It returns ctx's error.
func (a *Agent) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.Shell.Run(ctx) })
	g.Go(func() error {
		tick := time.NewTicker(retry)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
			a.Locked(func() { a.work.Err = a.retryLabels() })
		}
	})
	return g.Wait()
}

func (a *Agent) host(addr netip.Addr) (fabric.NodeID, error) {
	h, ok := a.Host(addr)
	if !ok {
		return 0, fmt.Errorf("%w: %v is not the address of a host of the fabric", ErrDestination, addr)
	}
	return h, nil
}

// Add gives the agent connected queue pairs to send pieces on. Each must be idle, and known to the labeller if the
// labeller requires that.
func (a *Agent) Add(qps ...labeller.QP) error {
	return a.Do(func(*hostagent.Core, fabric.Time) error {
		var errs []error
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
			errs = append(errs, a.assignQPs(h))
		}
		return errors.Join(errs...)
	})
}

// Withdraw undoes [Agent.Add]. A queue pair in use is not used again once its piece is done.
func (a *Agent) Withdraw(qps ...labeller.QP) {
	a.Locked(func() {
		for _, q := range qps {
			q.Dst = q.Dst.Unmap()
			if h, err := a.host(q.Dst); err == nil {
				a.pool(h).withdraw(q)
			}
		}
	})
}

// Post splits messages that are sent together, such as a step of a collective, and chooses their paths; [Agent.Take]
// returns the pieces. If the error wraps [ErrDestination] or [hostagent.ErrFlow], no message was accepted; other errors
// are the labeller's.
func (a *Agent) Post(batch ...Message) error {
	flows := make([]hostagent.Flow, len(batch))
	for i, m := range batch {
		h, err := a.host(m.Dst)
		if err != nil {
			return fmt.Errorf("message %d of the batch: %w", i, err)
		}
		flows[i] = hostagent.Flow{ID: m.ID, Dst: h, Bytes: m.Bytes}
	}
	return a.Do(func(core *hostagent.Core, now fabric.Time) error {
		if err := core.Post(now, flows); err != nil {
			return err
		}
		for i, m := range batch {
			a.addr[flows[i].Dst] = m.Dst.Unmap()
		}
		return nil
	})
}

// Acked reports that so many more bytes of a piece are acknowledged. Acked, Done and Timeout ignore unknown pieces.
func (a *Agent) Acked(key hostagent.QP, bytes int64) error {
	return a.Do(func(core *hostagent.Core, now fabric.Time) error {
		core.Acked(now, key, bytes)
		return nil
	})
}

// Done reports that a piece is sent and acknowledged, or given up. Its queue pair is then idle.
func (a *Agent) Done(key hostagent.QP) error {
	var placed error
	err := a.Do(func(core *hostagent.Core, now fabric.Time) error {
		core.Done(now, key)
		e := a.pieces[key]
		if e == nil {
			return nil
		}
		delete(a.pieces, key)
		if a.labels != nil {
			a.release(e)
		}
		placed = a.assignQPs(e.node)
		return nil
	})
	return errors.Join(err, placed)
}

// Timeout reports that the retransmission timer of a piece's queue pair expired, or that its retries ran out.
func (a *Agent) Timeout(key hostagent.QP) error {
	return a.Do(func(core *hostagent.Core, now fabric.Time) error {
		core.Timeout(now, key)
		return nil
	})
}

// Take returns the pieces to send, and the path changes, since the last call. The slices belong to the caller.
func (a *Agent) Take() (w Work) {
	a.Locked(func() {
		w, a.work = a.work, Work{Err: a.work.Err}
		for _, p := range w.Send {
			if e := a.pieces[p.Key]; e != nil {
				e.returned = true
			}
		}
	})
	return w
}

// Waiting returns the number of pieces that wait for an idle queue pair.
func (a *Agent) Waiting() (n int) {
	a.Locked(func() {
		for _, p := range a.pools {
			n += len(p.queue)
		}
	})
	return n
}
