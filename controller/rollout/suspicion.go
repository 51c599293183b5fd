package rollout

import (
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// Report takes what an agent says of a path; see [suspicion.Core.Report].
func (c *Core) Report(now fabric.Time, r suspicion.Report) error {
	if c.suspicion == nil {
		return nil
	}
	return c.suspicion.Report(now, r)
}

// ProbeResult takes what became of a probe; see [suspicion.Core.ProbeResult].
func (c *Core) ProbeResult(
	now fabric.Time, host fabric.NodeID, id uint64, sent, lost int,
) (path suspicion.ProbedPath, ok bool) {
	if c.suspicion == nil {
		return path, false
	}
	return c.suspicion.ProbeResult(now, host, id, sent, lost)
}

// Suspicion counts what agents reported and what followed.
func (c *Core) Suspicion() (s suspicion.Stats) {
	if c.suspicion != nil {
		s = c.suspicion.Stats()
	}
	return s
}

// takeSuspicions makes notices of what is suspected, and has agents probe. Tables do not
// follow, so agents learn at once that a suspicion is cleared, too.
func (c *Core) takeSuspicions() {
	if c.suspicion == nil {
		return
	}
	r := c.suspicion.Ready()
	for _, s := range r.Suspicions {
		if err := c.tables.Suspect(s.At, s.Link, s.Suspected, s.Confirmed); err != nil {
			continue // a host's link, which package suspicion suspects of nothing
		}
		c.event(Event{Kind: Suspected, Link: s.Link, Up: !s.Suspected, Confirmed: s.Confirmed, Epoch: c.tables.Epoch()})
	}
	c.ready.Probes = append(c.ready.Probes, r.Probes...)
}
