package host

import (
	"errors"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
)

// ErrEnded is returned by [Endpoint].Open for a message that has ended since it was posted.
var ErrEnded = errors.New("host: the message has ended")

// Endpoint is the interface on which a core opens queue pairs. [transport.Endpoint] is one.
type Endpoint interface {
	// Open opens a queue pair. The message's Address is the offset of the queue pair's bytes in it. A message without
	// bytes is a probe.
	Open(now fabric.Time, m transport.Message) error
	// Resend and then Relabel move a queue pair off a dead path; Relabel alone moves
	// one off a path that works.
	Resend(qp transport.QP) error
	// Restart and then Relabel move a queue pair off a slow path; it continues as a new one would.
	Restart(qp transport.QP) error
	Relabel(qp transport.QP, l fabric.Label) error
	// Hold makes a queue pair send nothing before a time.
	Hold(qp transport.QP, until fabric.Time) error
	// Close ends a queue pair, which may have ended already.
	Close(qp transport.QP) error
	// Ask sends a path probe, as [transport.Endpoint.Ask] does.
	Ask(dst fabric.NodeID, l fabric.Label, question uint32) error
}

// Shell is what a core requires of its environment. Its methods may call [Core.Post], and nothing else of the core.
type Shell interface {
	// Alarm requests a call of [Core.Tick] at a time. A shell that asks [Core.Deadline] before it sleeps needs no
	// alarms.
	Alarm(at fabric.Time)
	// Wake reports that the endpoint may have something to send.
	Wake(now fabric.Time)
	// Flipped reports that a queue pair was moved to another path.
	Flipped(now fabric.Time, f hostagent.Flip)
	// Sent reports that all of a message is acknowledged.
	Sent(now fabric.Time, message uint64)
	// PathsFailed reports paths that timed out though no link on them was known to be dead. The slice is valid
	// during the call.
	PathsFailed(now fabric.Time, failed []hostagent.Failed)
	// Probed reports the result of a controller's probe.
	Probed(now fabric.Time, r ProbeResult)
	// Fault reports a violated contract, such as an endpoint that fails to open a queue pair.
	Fault(now fabric.Time, err error)
}

// Config sets up a [Core].
type Config struct {
	balance.Config
	Scheme string
	Params map[string]string `json:",omitempty"`
	// BatchWindow is how long messages are gathered into a batch.
	BatchWindow fabric.Time `json:",omitempty"`
	// ResendOnFlip makes a queue pair that leaves a dead path retransmit its packets in flight at once.
	ResendOnFlip bool `json:",omitempty"`
	Log          *Log `json:"-"` // nil: no log
}

// Inputs is the calls by which a host reports events to its core.
type Inputs interface {
	// Post adds a message to the batching window.
	Post(now fabric.Time, m hostagent.Flow)
	// Abandon ends a message that another host sends from now on: its queue pairs are closed, and [Shell.Sent] is not
	// called for it.
	Abandon(now fabric.Time, message uint64)
	// Forget ends a message some of whose queue pairs were refused. [Shell.Sent] may still be called for it.
	Forget(message uint64)

	// Tick processes expired timers; see [Core.Deadline].
	Tick(now fabric.Time)

	// Received carries out the requests caused by the packet that the endpoint has just received.
	Received(now fabric.Time)
	// Acked, Done, Timeout and Refuse process the endpoint's reports about a queue pair: payload bytes are newly
	// acknowledged; all of it is acknowledged; a retransmission timer expired; its message was permanently refused.
	// Refuse returns the message; ok is false for a probe and for an unknown queue pair.
	Acked(now fabric.Time, qp transport.QP, bytes int64)
	Done(now fabric.Time, qp transport.QP)
	Timeout(now fabric.Time, qp transport.QP)
	Refuse(now fabric.Time, qp transport.QP) (message uint64, ok bool)
	// The endpoint calls the next three only if the scheme uses them; see [Settings.Endpoint].
	transport.Balancer
	transport.PathLosses
	transport.PathWatcher

	// Quench processes a source quench. The verdict is for statistics.
	Quench(now fabric.Time, q frame.Quench) hostagent.Verdict
	// Update processes a controller's notification.
	Update(now fabric.Time, u *statepb.Update)
	// Probe sends a controller's probe. Above the limits, or to a host that does not exist, nothing is sent, and the
	// result reports that. While the agent is absent there is no result.
	Probe(now fabric.Time, r ProbeRequest)

	// AgentEnded reports that the agent has ended.
	AgentEnded(now fabric.Time)
	// AgentRestarted reports that the agent runs again. u is a snapshot of the states of all links, or nil. The agent
	// then splits the messages posted meanwhile.
	AgentRestarted(now fabric.Time, u *statepb.Update)
}

// Core is a host at run time: it gathers messages into batches, and executes the load balancer's decisions. See the
// package comment.
type Core struct {
	Inputs // the logic's, logged if there is a log
	logic  *logic
}

// New returns a core without an endpoint (see [Core.Attach]), or an error in c.
func New(c Config) (*Core, error) {
	s, err := newScheme(c)
	if err != nil {
		return nil, err
	}
	l := &logic{
		cfg: c, scheme: s, tickAt: never,
		qps: map[transport.QP]queuePair{}, sending: map[uint64]int32{}, asked: openProbes{open: map[transport.QP]*probe{}},
	}
	if c.Log == nil {
		return &Core{l, l}, nil
	}
	return &Core{&loggedCore{l, c.Log}, l}, nil
}

// Attach sets the core's endpoint and shell. Call it first.
func (c *Core) Attach(e Endpoint, s Shell) {
	if l := c.logic.cfg.Log; l != nil {
		l.start(c.logic.cfg)
		e, s = &loggedEndpoint{e, l}, &loggedShell{s, l}
	}
	c.logic.endpoint, c.logic.shell = e, s
}

// Scheme returns the balancer, for tasks outside the core: labels of ACKs, and counts.
func (c *Core) Scheme() balance.Host { return c.logic.scheme.Host }

// PerPacket reports whether the scheme chooses the path of every packet: the core must then be the endpoint's
// [transport.Balancer].
func (c *Core) PerPacket() bool { return c.logic.scheme.packets != nil }

// Deadline returns when to call Tick next; ok is false if no timer runs.
func (c *Core) Deadline() (at fabric.Time, ok bool) { return c.logic.deadline() }

// OpenQPs returns the number of open queue pairs, without probes.
func (c *Core) OpenQPs() int { return c.logic.inUse() }

// SendingMessages returns the number of messages with open queue pairs.
func (c *Core) SendingMessages() int { return len(c.logic.sending) }

// PeakQPs returns the largest number of queue pairs open at once, without probes.
func (c *Core) PeakQPs() int { return c.logic.peak }

// OpenProbes returns the number of open probes of the scheme and of controllers.
func (c *Core) OpenProbes() int { return c.logic.probes + len(c.logic.asked.open) }
