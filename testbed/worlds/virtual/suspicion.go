package virtual

import (
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/host"
	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// doubts is the controller's account of links that no switch calls dead though
// agents time out on them. Its messages take as long as the controller's pushes.
type doubts struct {
	c    *control
	core *suspicion.Core
	life int         // of the controller
	tick fabric.Time // when the core's tick is scheduled for; 0: it is not
}

// probeShare is how many probes' time-outs there are in a retransmission timer:
// round trips are short against both.
const probeShare = 10

func newDoubts(c *control) (*doubts, error) {
	core, err := suspicion.New(suspicion.Config{
		Fabric: c.w.f, ProbeTimeout: max(1, c.w.run.Scenario.Host.RTO/probeShare),
	})
	if err != nil {
		return nil, err
	}
	return &doubts{c: c, core: core, life: c.life}, nil
}

// later runs f when a message that is sent now has arrived, if the controller
// lives then.
func (d *doubts) later(now fabric.Time, f func(now fabric.Time) error) {
	d.c.w.net.At(now+d.c.w.run.Scenario.Control.PushDelay, func(now fabric.Time) {
		if !d.c.alive(d.life) {
			return
		}
		if err := f(now); err != nil {
			d.c.w.fail(err)
			return
		}
		d.settle(now)
	})
}

// report sends what an agent's queue pairs timed out on.
func (d *doubts) report(now fabric.Time, host fabric.NodeID, failed hostagent.Failed) {
	d.later(now, func(now fabric.Time) error {
		return d.core.Report(now, suspicion.Report{
			Host: host, DstToR: failed.DstToR, Dst: failed.Dst, Label: failed.Label, Timeouts: 1,
		})
	})
}

// linkState is what a switch says of a link.
func (d *doubts) linkState(now fabric.Time, id fabric.LinkID, up bool) {
	d.core.LinkState(now, id, up)
	d.settle(now)
}

// settle carries out what the core wants done.
func (d *doubts) settle(now fabric.Time) {
	r := d.core.Ready()
	for _, s := range r.Suspicions {
		text := "a link is suspected"
		switch {
		case !s.Suspected:
			text = "a suspicion is dropped"
		case s.Confirmed:
			text = "a suspicion is confirmed by lost probes"
		}
		d.c.w.note(now, report.KindSuspect, d.c.w.f.LinkName(s.Link), text)
		if err := d.c.core.Suspect(now, s.Link, s.Suspected, s.Confirmed); err != nil {
			d.c.w.fail(err)
			return
		}
	}
	if len(r.Suspicions) > 0 {
		d.c.carryOut(now, d.c.core.Ready())
	}
	for _, p := range r.Probes {
		d.c.w.net.At(now+d.c.w.run.Scenario.Control.PushDelay, func(now fabric.Time) { d.c.w.hosts[p.Host].probe(now, d, p) })
	}
	if at, ok := d.core.Deadline(); ok && (d.tick == 0 || at < d.tick) {
		d.tick = at
		d.c.w.net.At(at, func(now fabric.Time) {
			if d.tick != at || !d.c.alive(d.life) {
				return
			}
			d.tick = 0
			d.core.Tick(now)
			d.settle(now)
		})
	}
}

// A probe's ID at its host has the controller's life above it: a result is for who
// asked.
const lifeShift = 48

// probed sends what became of a probe.
func (d *doubts) probed(now fabric.Time, from fabric.NodeID, r host.ProbeResult) {
	if r.ID>>lifeShift != uint64(d.life) {
		return
	}
	d.later(now, func(now fabric.Time) error {
		d.core.ProbeResult(now, from, r.ID&(1<<lifeShift-1), r.Sent, r.Lost)
		return nil
	})
}
