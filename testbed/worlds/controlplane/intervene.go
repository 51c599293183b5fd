package controlplane

import (
	"errors"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/host"
)

// Die ends the controller process and its sessions.
func (p *Process) Die(now fabric.Time) {
	if p.down {
		return
	}
	p.down = true
	p.cfg.Log.Add(eventlog.Record{Time: wallTime(now), Kind: "end"})
	p.w.Disconnect()
}

// Restart starts the controller again, without state. It connects to all switches, reads their tables and learns the
// states of their ports.
func (p *Process) Restart(now fabric.Time) error {
	if !p.down {
		return nil
	}
	p.life++
	p.down = false
	if err := p.begin(now); err != nil {
		return err
	}
	if err := p.connect(now); err != nil {
		return err
	}
	for _, id := range p.switches() {
		p.read(now, id)
	}
	p.scheduleReady(now)
	return nil
}

// Drain takes a link out of use, or puts it back. refused says why it was not drained; "": it was.
func (p *Process) Drain(now fabric.Time, id fabric.LinkID, drained bool) (refused string, err error) {
	if p.down {
		return "there is no controller to drain it", nil
	}
	_, err = p.core.Drain(now, []fabric.LinkID{id}, drained, false)
	if errors.Is(err, rollout.ErrSevers) {
		return err.Error(), nil
	}
	p.scheduleReady(now)
	return "", err
}

// Report delivers an agent's report of paths on which its queue pairs timed out, after the same delay as the
// controller's updates.
func (p *Process) Report(now fabric.Time, host fabric.NodeID, failed hostagent.Failed) {
	p.ReceiveAt(now+p.cfg.Control.PushDelay, func(now fabric.Time, core *rollout.Core) error {
		return core.Report(now, suspicion.Report{
			Host: host, DstToR: failed.DstToR, Dst: failed.Dst, Label: failed.Label, Timeouts: 1,
		})
	})
}

// A probe's ID contains the controller's life above the core's ID, so that a result reaches only the life that
// asked.
const lifeShift = 48

// Probed delivers the result of a path probe.
func (p *Process) Probed(now fabric.Time, from fabric.NodeID, r host.ProbeResult) {
	if r.ID>>lifeShift != uint64(p.life) || p.down {
		return
	}
	p.ReceiveAt(now+p.cfg.Control.PushDelay, func(now fabric.Time, core *rollout.Core) error {
		core.ProbeResult(now, from, r.ID&(1<<lifeShift-1), r.Sent, r.Lost)
		return nil
	})
}
