package host

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
)

const never = fabric.Time(math.MaxInt64)

// ErrEnded is returned by [Endpoint].Open for a message that has ended since it was posted.
var ErrEnded = errors.New("host: the message has ended")

// Endpoint is where a core opens its queue pairs. [transport.Endpoint] is one.
type Endpoint interface {
	// Open opens a queue pair. A message's Address is the place of the queue pair's bytes in it. A message without
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
	// Ask sends a path probe.
	Ask(dst fabric.NodeID, l fabric.Label, question uint32) error
}

// Shell is the core's environment. Its methods may call [Core.Post], and nothing else of the core.
type Shell interface {
	// Alarm requests a call of [Core.Tick] at a time. A shell that asks [Core.Deadline] before it sleeps needs no
	// alarms.
	Alarm(at fabric.Time)
	// Wake reports that the endpoint may have something to send.
	Wake(now fabric.Time)
	// Flipped reports that a queue pair was moved.
	Flipped(now fabric.Time, f hostagent.Flip)
	// Sent reports that all of a message is acknowledged.
	Sent(now fabric.Time, message uint64)
	// PathsFailed reports paths that timed out though no link on them was known to be dead. The slice is valid
	// during the call.
	PathsFailed(now fabric.Time, failed []hostagent.Failed)
	// Probed reports the result of a controller's probe.
	Probed(now fabric.Time, r ProbeResult)
	// Fault reports that a part broke its contract.
	Fault(now fabric.Time, err error)
}

// Config sets up a [Core].
type Config struct {
	balance.Config
	Scheme string
	Params map[string]string `json:",omitempty"`
	// BatchWindow is the time for which messages are gathered into a batch.
	BatchWindow fabric.Time `json:",omitempty"`
	// ResendOnFlip makes a queue pair that leaves a dead path retransmit its packets in flight at once.
	ResendOnFlip bool `json:",omitempty"`
	Log          *Log `json:"-"` // nil: no log
}

// Core is a host at run time; see the package comment.
type Core struct {
	cfg      Config
	scheme   balance.Host
	packets  balance.PacketHost   // the scheme if it labels every packet, otherwise nil
	holder   balance.Holder       // the scheme if it holds queue pairs, otherwise nil
	ender    balance.Ender        // the scheme if it ends probes, otherwise nil
	losses   balance.LossHost     // the scheme if it uses losses, otherwise nil
	asks     asker                // the scheme if acknowledgements and marks can cause requests, otherwise nil
	lostBy   balance.PathLossHost // the scheme if it uses lost packets' labels, otherwise nil
	endpoint Endpoint
	shell    Shell
	log      *Log

	batch     []hostagent.Flow // posted in the open batching window
	gathering bool             // a window is open
	windowEnd fabric.Time
	tickAt    fabric.Time // when the scheme's tick is due

	qps     map[transport.QP]queuePair
	sending map[uint64]int32 // by message: number of open queue pairs
	probes  int              // number of the scheme's probes among the queue pairs
	peak    int              // largest number of queue pairs at once, without probes
	asked   asked

	away bool // the agent is absent
}

type asker interface {
	// Pending reports whether Ready has anything.
	Pending() bool
}

// queuePair is an open queue pair of the scheme's.
type queuePair struct {
	message uint64
	probe   bool
}

// New returns a core without an endpoint (see [Core.Attach]), or an error in c.
func New(c Config) (*Core, error) {
	spec, err := balance.Find(c.Scheme)
	if err != nil {
		return nil, err
	}
	h := &Core{
		cfg: c, tickAt: never, log: c.Log,
		qps: map[transport.QP]queuePair{}, sending: map[uint64]int32{}, asked: asked{open: map[transport.QP]*probe{}},
	}
	if h.scheme, err = spec.New(c.Params, c.Config); err != nil {
		return nil, err
	}
	h.packets, _ = h.scheme.(balance.PacketHost)
	h.losses, _ = h.scheme.(balance.LossHost)
	h.asks, _ = h.scheme.(asker)
	h.lostBy, _ = h.scheme.(balance.PathLossHost)
	h.ender, _ = h.scheme.(balance.Ender)
	if spec.Holds {
		h.holder = h.scheme.(balance.Holder)
	}
	return h, nil
}

// Attach sets the core's endpoint and shell. Call it first.
func (c *Core) Attach(e Endpoint, s Shell) {
	c.endpoint, c.shell = e, s
	if c.log != nil {
		c.log.start(c.cfg)
		c.endpoint, c.shell = &loggedEndpoint{e, c.log}, &loggedShell{s, c.log}
	}
}

// Scheme returns the balancer, for tasks outside the core: labels of ACKs, and counts.
func (c *Core) Scheme() balance.Host { return c.scheme }

// PerPacket reports whether the scheme labels every packet: the core must then be the endpoint's balancer.
func (c *Core) PerPacket() bool { return c.packets != nil }

// Post adds a message to the batching window.
func (c *Core) Post(now fabric.Time, m hostagent.Flow) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "post", Message: m.ID, Dst: m.Dst, Bytes: m.Bytes})
	}
	c.batch = append(c.batch, m)
	if !c.gathering {
		c.gathering, c.windowEnd = true, now+c.cfg.BatchWindow
		c.shell.Alarm(c.windowEnd)
	}
}

// closeWindow makes the scheme deal out the posted messages.
func (c *Core) closeWindow(now fabric.Time) {
	c.gathering = false
	err := c.scheme.Post(now, c.batch)
	c.batch = c.batch[:0]
	if err != nil {
		c.shell.Fault(now, err)
	}
	c.act(now)
}

// act carries out the scheme's requests.
func (c *Core) act(now fabric.Time) {
	if c.away {
		return
	}
	ready := c.scheme.Ready()
	for _, p := range ready.Open {
		c.open(now, p)
	}
	for _, f := range ready.Flip {
		c.flip(now, f)
	}
	if c.holder != nil {
		for _, h := range c.holder.Holds() {
			if _, open := c.qps[transport.QP(h.QP)]; open {
				c.moves(now, c.endpoint.Hold(transport.QP(h.QP), h.Until))
			}
		}
	}
	if c.ender != nil {
		for _, qp := range c.ender.Ends() {
			c.close(now, qp)
		}
	}
	if len(ready.Failed) > 0 {
		c.shell.PathsFailed(now, ready.Failed)
	}
	for _, a := range ready.Ask {
		c.check(now, c.endpoint.Ask(a.Dst, a.Label, a.ID))
	}
	if len(ready.Open)+len(ready.Flip)+len(ready.Ask) > 0 {
		c.shell.Wake(now)
	}
	if at, ok := c.scheme.Deadline(); ok && at < c.tickAt {
		c.tickAt = at
		c.shell.Alarm(at)
	}
}

// close ends a probe whose result is no longer needed.
func (c *Core) close(now fabric.Time, qp hostagent.QP) {
	if _, open := c.end(now, transport.QP(qp)); open {
		c.check(now, c.endpoint.Close(transport.QP(qp)))
	}
}

func (c *Core) check(now fabric.Time, err error) bool {
	if err != nil {
		c.shell.Fault(now, err)
	}
	return err == nil
}

// moves is check for an open queue pair of which all may be acknowledged: then Done follows.
func (c *Core) moves(now fabric.Time, err error) bool {
	if errors.Is(err, transport.ErrUnknown) {
		return false
	}
	return c.check(now, err)
}

// open opens the queue pair of a piece, or a probe.
func (c *Core) open(now fabric.Time, p hostagent.Piece) {
	qp := transport.QP(p.QP)
	err := c.endpoint.Open(now, transport.Message{
		QP: qp, ID: p.Flow, Dst: p.Dst, Address: uint64(p.Offset), Bytes: p.Bytes, Label: p.Label, Start: p.Start,
		Balanced: c.packets != nil,
	})
	if err != nil {
		c.scheme.Done(now, p.QP)
		if !errors.Is(err, ErrEnded) {
			c.shell.Fault(now, err)
		}
		return
	}
	if p.Bytes == 0 {
		c.qps[qp] = queuePair{probe: true}
		c.probes++
		return
	}
	c.qps[qp] = queuePair{message: p.Flow}
	c.sending[p.Flow]++
	c.peak = max(c.peak, c.Open())
}

// flip moves a queue pair.
func (c *Core) flip(now fabric.Time, f hostagent.Flip) {
	qp := transport.QP(f.QP)
	if _, open := c.qps[qp]; !open {
		return
	}
	switch {
	case f.Reason == hostagent.BySlow:
		if !c.moves(now, c.endpoint.Restart(qp)) {
			return
		}
	case f.Dead && c.cfg.ResendOnFlip:
		if !c.moves(now, c.endpoint.Resend(qp)) {
			return
		}
	}
	if c.moves(now, c.endpoint.Relabel(qp, f.To)) {
		c.shell.Flipped(now, f)
	}
}

// Tick does what is due.
func (c *Core) Tick(now fabric.Time) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "tick"})
	}
	if c.gathering && now >= c.windowEnd && !c.away {
		c.closeWindow(now)
	}
	if now >= c.tickAt {
		c.tickAt = never
		if !c.away {
			c.scheme.Tick(now)
			c.act(now)
		}
	}
	c.endProbes(now)
}

// Deadline returns when to call Tick next; ok is false if no timer runs.
func (c *Core) Deadline() (at fabric.Time, ok bool) {
	at = c.asked.next()
	if !c.away {
		at = min(at, c.tickAt)
		if c.gathering {
			at = min(at, c.windowEnd)
		}
	}
	return at, at != never
}

// Received carries out the requests that the packet just received by the endpoint has caused.
func (c *Core) Received(now fabric.Time) {
	if c.packets != nil {
		if c.log != nil {
			c.log.add(Record{At: now, Call: "received"})
		}
		c.act(now)
	}
}

// Label implements [transport.Balancer].
func (c *Core) Label(now fabric.Time, qp transport.QP) fabric.Label {
	l := c.packets.Label(now, hostagent.QP(qp))
	if c.log != nil {
		c.log.add(Record{At: now, Call: "label", QP: qp})
		c.log.add(Record{Do: "label", QP: qp, Label: l})
	}
	return l
}

// Echo implements [transport.Balancer].
func (c *Core) Echo(now fabric.Time, qp transport.QP, e transport.Echo) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "echo", QP: qp, Echo: &e})
	}
	c.packets.Echo(now, hostagent.QP(qp), e)
}

// LostBy implements [transport.PathLosses].
func (c *Core) LostBy(now fabric.Time, qp transport.QP, l fabric.Label) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "lost-by", QP: qp, Label: l})
	}
	c.lostBy.LostBy(now, hostagent.QP(qp), l)
}

// Acked processes the endpoint's report that payload bytes are newly acknowledged.
func (c *Core) Acked(now fabric.Time, qp transport.QP, bytes int64) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "acked", QP: qp, Bytes: bytes})
	}
	c.scheme.Acked(now, hostagent.QP(qp), bytes)
	c.actIfAsked(now)
}

// actIfAsked calls act, unless the scheme reports that it has no requests.
func (c *Core) actIfAsked(now fabric.Time) {
	if c.asks != nil && c.asks.Pending() {
		c.act(now)
	}
}

// Done processes the endpoint's report that all of a queue pair is acknowledged.
func (c *Core) Done(now fabric.Time, qp transport.QP) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "done", QP: qp})
	}
	if Asked(qp) {
		if c.asked.answer(now, qp) {
			c.endProbes(now)
		}
		return
	}
	q, ok := c.end(now, qp)
	switch {
	case !ok:
		c.shell.Fault(now, fmt.Errorf("queue pair %d completed twice", qp))
	case q.probe:
		c.act(now) // its answer can cause requests
	case c.sending[q.message] > 1:
		c.sending[q.message]--
	default:
		delete(c.sending, q.message)
		c.shell.Sent(now, q.message)
	}
}

// Refuse processes the endpoint's report that a queue pair's message was permanently refused, and returns the
// message.
func (c *Core) Refuse(now fabric.Time, qp transport.QP) (message uint64, ok bool) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "refuse", QP: qp})
	}
	q, ok := c.end(now, qp)
	return q.message, ok && !q.probe
}

// Forget ends a message of which queue pairs were refused. [Shell.Sent] may still be called for it.
func (c *Core) Forget(message uint64) { delete(c.sending, message) }

// Abandon ends a message that another host sends from now on: its queue pairs are closed, and [Shell.Sent] is not called for
// it.
func (c *Core) Abandon(now fabric.Time, message uint64) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "abandon", Message: message})
	}
	c.batch = slices.DeleteFunc(c.batch, func(m hostagent.Flow) bool { return m.ID == message })
	for _, qp := range slices.Sorted(maps.Keys(c.qps)) {
		if q := c.qps[qp]; !q.probe && q.message == message {
			c.close(now, hostagent.QP(qp))
		}
	}
	c.Forget(message)
}

// end forgets a queue pair.
func (c *Core) end(now fabric.Time, qp transport.QP) (queuePair, bool) {
	c.scheme.Done(now, hostagent.QP(qp))
	q, ok := c.qps[qp]
	delete(c.qps, qp)
	if q.probe {
		c.probes--
	}
	return q, ok
}

// Timeout processes the endpoint's report that a retransmission timer expired.
func (c *Core) Timeout(now fabric.Time, qp transport.QP) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "timeout", QP: qp})
	}
	if !c.away && !Asked(qp) {
		c.scheme.Timeout(now, hostagent.QP(qp))
		c.act(now)
	}
}

// Lost implements [transport.PathWatcher].
func (c *Core) Lost(now fabric.Time, qp transport.QP, l transport.Loss) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "lost", QP: qp, Lost: (*hostagent.Loss)(&l)})
	}
	if !c.away && !Asked(qp) {
		c.losses.Lost(now, hostagent.QP(qp), hostagent.Loss(l))
		c.act(now)
	}
}

// Overdue implements [transport.PathWatcher].
func (c *Core) Overdue(now fabric.Time, qp transport.QP, o transport.Overdue) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "overdue", QP: qp, Overdue: (*hostagent.Overdue)(&o)})
	}
	if !c.away && !Asked(qp) {
		c.losses.Overdue(now, hostagent.QP(qp), hostagent.Overdue(o))
		c.act(now)
	}
}

// PathAnswered implements [transport.PathWatcher].
func (c *Core) PathAnswered(now fabric.Time, peer fabric.NodeID, question uint32) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "path-answered", Dst: peer, Question: question})
	}
	if !c.away {
		c.losses.Answered(now, peer, question)
		c.act(now)
	}
}

// Congested implements [transport.PathWatcher].
func (c *Core) Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "congested", Dst: peer, Label: l, Inbound: inbound})
	}
	if !c.away {
		c.losses.Congested(now, peer, l, inbound)
		c.actIfAsked(now) // a slow path is unloaded
	}
}

// Quench processes a source quench. The verdict is for the log.
func (c *Core) Quench(now fabric.Time, q frame.Quench) hostagent.Verdict {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "quench", Quench: &q})
	}
	if c.away {
		return hostagent.NotOurs
	}
	v := c.scheme.Quench(now, q)
	c.act(now)
	return v
}

// Update processes a controller's notification.
func (c *Core) Update(now fabric.Time, u *statepb.Update) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "update", Update: u})
	}
	if !c.away {
		c.scheme.Update(now, u)
		c.act(now)
	}
}

// Leave reports that the agent has ended.
func (c *Core) Leave(now fabric.Time) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "leave"})
	}
	c.away = true
}

// Return reports that the agent is back. It learns the state of all links from u, a snapshot or nil, and takes the
// messages posted meanwhile.
func (c *Core) Return(now fabric.Time, u *statepb.Update) {
	if !c.away {
		return
	}
	if c.log != nil {
		c.log.add(Record{At: now, Call: "return", Update: u})
	}
	c.away = false
	if u.GetSnapshot() {
		c.scheme.Update(now, u)
	}
	if c.gathering && now >= c.windowEnd {
		c.closeWindow(now)
	}
	c.scheme.Tick(now)
	c.act(now)
}

// Open returns the number of open queue pairs, without probes.
func (c *Core) Open() int { return len(c.qps) - c.probes }

// Sending returns the number of messages with open queue pairs.
func (c *Core) Sending() int { return len(c.sending) }

// Peak returns the largest number of queue pairs open at once, without probes.
func (c *Core) Peak() int { return c.peak }

// Probes returns the number of open probes of the scheme and of controllers.
func (c *Core) Probes() int { return c.probes + len(c.asked.open) }
