package virtual

import (
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/host"
)

// reportLater sends the controller what an agent's queue pairs timed out on. It takes as
// long as the controller's pushes.
func (c *controllerProcess) reportLater(now fabric.Time, host fabric.NodeID, failed hostagent.Failed) {
	c.hearAt(now+c.w.run.Scenario.Control.PushDelay, func(now fabric.Time) error {
		return c.core.Report(now, suspicion.Report{
			Host: host, DstToR: failed.DstToR, Dst: failed.Dst, Label: failed.Label, Timeouts: 1,
		})
	})
}

// A probe's ID at its host has the controller's life above it: a result is for who
// asked.
const lifeShift = 48

// probed sends what became of a probe.
func (c *controllerProcess) probed(now fabric.Time, from fabric.NodeID, r host.ProbeResult) {
	if r.ID>>lifeShift != uint64(c.life) || c.down {
		return
	}
	c.hearAt(now+c.w.run.Scenario.Control.PushDelay, func(now fabric.Time) error {
		c.core.ProbeResult(now, from, r.ID&(1<<lifeShift-1), r.Sent, r.Lost)
		return nil
	})
}
