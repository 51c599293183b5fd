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
)

const never = fabric.Time(math.MaxInt64)

// logic is a core without its event log: it implements [Inputs].
type logic struct {
	cfg      Config
	scheme   scheme
	endpoint Endpoint
	shell    Shell

	batch     []hostagent.Flow // posted in the open batching window
	gathering bool             // a window is open
	windowEnd fabric.Time
	tickAt    fabric.Time // when the scheme's tick is due

	qps     map[transport.QP]queuePair
	sending map[uint64]int32 // by message: number of open queue pairs
	probes  int              // number of the scheme's probes among the queue pairs
	peak    int              // largest number of queue pairs at once, without probes
	asked   openProbes

	agentAbsent bool // the agent is absent
}

// queuePair is an open queue pair of the scheme's.
type queuePair struct {
	message uint64
	probe   bool
}

func (c *logic) Post(now fabric.Time, m hostagent.Flow) {
	c.batch = append(c.batch, m)
	if !c.gathering {
		c.gathering, c.windowEnd = true, now+c.cfg.BatchWindow
		c.shell.Alarm(c.windowEnd)
	}
}

// closeWindow makes the scheme deal out the posted messages.
func (c *logic) closeWindow(now fabric.Time) {
	c.gathering = false
	err := c.scheme.Post(now, c.batch)
	c.batch = c.batch[:0]
	if err != nil {
		c.shell.Fault(now, err)
	}
	c.act(now)
}

// act executes the scheme's requests.
func (c *logic) act(now fabric.Time) {
	if c.agentAbsent {
		return
	}
	ready := c.scheme.Ready()
	for _, p := range ready.Open {
		c.open(now, p)
	}
	for _, f := range ready.Flip {
		c.flip(now, f)
	}
	for _, qp := range ready.Resend {
		if _, open := c.qps[transport.QP(qp)]; open {
			c.checkMove(now, c.endpoint.Resend(transport.QP(qp)))
		}
	}
	for _, h := range c.scheme.holds() {
		if _, open := c.qps[transport.QP(h.QP)]; open {
			c.checkMove(now, c.endpoint.Hold(transport.QP(h.QP), h.Until))
		}
	}
	for _, qp := range c.scheme.ends() {
		c.close(now, qp)
	}
	if len(ready.Failed) > 0 {
		c.shell.PathsFailed(now, ready.Failed)
	}
	for _, a := range ready.Ask {
		c.check(now, c.endpoint.Ask(a.Dst, a.Label, a.ID))
	}
	if len(ready.Open)+len(ready.Flip)+len(ready.Resend)+len(ready.Ask) > 0 {
		c.shell.Wake(now)
	}
	if at, ok := c.scheme.Deadline(); ok && at < c.tickAt {
		c.tickAt = at
		c.shell.Alarm(at)
	}
}

// close ends a probe whose result is no longer needed.
func (c *logic) close(now fabric.Time, qp hostagent.QP) {
	if _, open := c.end(now, transport.QP(qp)); open {
		c.check(now, c.endpoint.Close(transport.QP(qp)))
	}
}

func (c *logic) check(now fabric.Time, err error) bool {
	if err != nil {
		c.shell.Fault(now, err)
	}
	return err == nil
}

// checkMove is like check, for an open queue pair of which everything may be acknowledged: then Done follows.
func (c *logic) checkMove(now fabric.Time, err error) bool {
	if errors.Is(err, transport.ErrUnknown) {
		return false
	}
	return c.check(now, err)
}

// open opens the queue pair of a piece, or a probe.
func (c *logic) open(now fabric.Time, p hostagent.Piece) {
	qp := transport.QP(p.QP)
	err := c.endpoint.Open(now, transport.Message{
		QP: qp, ID: p.Flow, Dst: p.Dst, Address: uint64(p.Offset), Bytes: p.Bytes, Label: p.Label, Start: p.Start,
		Balanced: c.scheme.packets != nil,
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
	c.peak = max(c.peak, c.inUse())
}

// flip moves a queue pair.
func (c *logic) flip(now fabric.Time, f hostagent.Flip) {
	qp := transport.QP(f.QP)
	if _, open := c.qps[qp]; !open {
		return
	}
	switch {
	case f.Reason == hostagent.BySlow:
		if !c.checkMove(now, c.endpoint.Restart(qp)) {
			return
		}
	case f.Dead && c.cfg.ResendOnFlip:
		if !c.checkMove(now, c.endpoint.Resend(qp)) {
			return
		}
	}
	if c.checkMove(now, c.endpoint.Relabel(qp, f.To)) {
		c.shell.Flipped(now, f)
	}
}

func (c *logic) Tick(now fabric.Time) {
	if c.gathering && now >= c.windowEnd && !c.agentAbsent {
		c.closeWindow(now)
	}
	if now >= c.tickAt {
		c.tickAt = never
		if !c.agentAbsent {
			c.scheme.Tick(now)
			c.act(now)
		}
	}
	c.endProbes(now)
}

func (c *logic) deadline() (at fabric.Time, ok bool) {
	at = c.asked.nextDeadline()
	if !c.agentAbsent {
		at = min(at, c.tickAt)
		if c.gathering {
			at = min(at, c.windowEnd)
		}
	}
	return at, at != never
}

func (c *logic) Received(now fabric.Time) {
	if c.scheme.packets != nil {
		c.act(now)
	}
}

func (c *logic) Label(now fabric.Time, qp transport.QP) fabric.Label {
	return c.scheme.packets.Label(now, hostagent.QP(qp))
}

func (c *logic) Echo(now fabric.Time, qp transport.QP, e transport.Echo) {
	c.scheme.packets.Echo(now, hostagent.QP(qp), e)
}

func (c *logic) LostBy(now fabric.Time, qp transport.QP, l fabric.Label) {
	c.scheme.lostBy.LostBy(now, hostagent.QP(qp), l)
}

func (c *logic) Acked(now fabric.Time, qp transport.QP, bytes int64) {
	c.scheme.Acked(now, hostagent.QP(qp), bytes)
	c.actIfAsked(now)
}

// actIfAsked calls act, unless the scheme reports that it has no requests.
func (c *logic) actIfAsked(now fabric.Time) {
	if c.scheme.pending() {
		c.act(now)
	}
}

func (c *logic) Done(now fabric.Time, qp transport.QP) {
	if IsRequestedProbe(qp) {
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

func (c *logic) Refuse(now fabric.Time, qp transport.QP) (message uint64, ok bool) {
	q, ok := c.end(now, qp)
	return q.message, ok && !q.probe
}

func (c *logic) Forget(message uint64) { delete(c.sending, message) }

func (c *logic) Abandon(now fabric.Time, message uint64) {
	c.batch = slices.DeleteFunc(c.batch, func(m hostagent.Flow) bool { return m.ID == message })
	for _, qp := range slices.Sorted(maps.Keys(c.qps)) {
		if q := c.qps[qp]; !q.probe && q.message == message {
			c.close(now, hostagent.QP(qp))
		}
	}
	c.Forget(message)
}

// end forgets a queue pair.
func (c *logic) end(now fabric.Time, qp transport.QP) (queuePair, bool) {
	c.scheme.Done(now, hostagent.QP(qp))
	q, ok := c.qps[qp]
	delete(c.qps, qp)
	if q.probe {
		c.probes--
	}
	return q, ok
}

func (c *logic) Timeout(now fabric.Time, qp transport.QP) {
	if !c.agentAbsent && !IsRequestedProbe(qp) {
		c.scheme.Timeout(now, hostagent.QP(qp))
		c.act(now)
	}
}

func (c *logic) Lost(now fabric.Time, qp transport.QP, l transport.Loss) {
	if !c.agentAbsent && !IsRequestedProbe(qp) {
		c.scheme.losses.Lost(now, hostagent.QP(qp), hostagent.Loss(l))
		c.act(now)
	}
}

func (c *logic) Overdue(now fabric.Time, qp transport.QP, o transport.Overdue) {
	if !c.agentAbsent && !IsRequestedProbe(qp) {
		c.scheme.losses.Overdue(now, hostagent.QP(qp), hostagent.Overdue(o))
		c.act(now)
	}
}

func (c *logic) PathAnswered(now fabric.Time, peer fabric.NodeID, question uint32) {
	if !c.agentAbsent {
		c.scheme.losses.Answered(now, peer, question)
		c.act(now)
	}
}

func (c *logic) Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool) {
	if !c.agentAbsent {
		c.scheme.losses.Congested(now, peer, l, inbound)
		c.actIfAsked(now) // a slow path is unloaded
	}
}

func (c *logic) Quench(now fabric.Time, q frame.Quench) hostagent.Verdict {
	if c.agentAbsent {
		return hostagent.NotOurs
	}
	v := c.scheme.Quench(now, q)
	c.act(now)
	return v
}

func (c *logic) Update(now fabric.Time, u *statepb.Update) {
	if !c.agentAbsent {
		c.scheme.Update(now, u)
		c.act(now)
	}
}

func (c *logic) AgentEnded(now fabric.Time) { c.agentAbsent = true }

func (c *logic) AgentRestarted(now fabric.Time, u *statepb.Update) {
	if !c.agentAbsent {
		return
	}
	c.agentAbsent = false
	if u.GetSnapshot() {
		c.scheme.Update(now, u)
	}
	if c.gathering && now >= c.windowEnd {
		c.closeWindow(now)
	}
	c.scheme.Tick(now)
	c.act(now)
}

// inUse returns the number of open queue pairs, without probes.
func (c *logic) inUse() int { return len(c.qps) - c.probes }
