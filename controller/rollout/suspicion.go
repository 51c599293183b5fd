package rollout

import (
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// Report processes an agent's report of a path; see [suspicion.Core.Report].
func (c *Core) Report(now fabric.Time, r suspicion.Report) error {
	if c.suspicion == nil {
		return nil
	}
	return c.suspicion.Report(now, r)
}

// ProbeResult processes the result of a probe; see [suspicion.Core.ProbeResult].
func (c *Core) ProbeResult(
	now fabric.Time, host fabric.NodeID, id uint64, sent, lost int,
) (path suspicion.ProbedPath, ok bool) {
	if c.suspicion == nil {
		return path, false
	}
	return c.suspicion.ProbeResult(now, host, id, sent, lost)
}

// Suspicion returns counts of the agents' reports and their effects.
func (c *Core) Suspicion() (s suspicion.Stats) {
	if c.suspicion != nil {
		s = c.suspicion.Stats()
	}
	return s
}

// takeSuspicions makes notices of changed suspicions, and requests probes. Tables do not depend on suspicions, so
// agents are also notified at once when one is cleared.
func (c *Core) takeSuspicions() {
	if c.suspicion == nil {
		return
	}
	r := c.suspicion.Ready()
	for _, s := range r.Suspicions {
		if err := c.tables.Suspect(s.At, s.Link, s.Suspected, s.Confirmed); err != nil {
			continue // a host's link, which package suspicion never suspects
		}
		c.emitEvent(Event{Kind: Suspected, Link: s.Link, Up: !s.Suspected, Confirmed: s.Confirmed, Epoch: c.tables.Epoch()})
	}
	c.ready.Probes = append(c.ready.Probes, r.Probes...)
}
