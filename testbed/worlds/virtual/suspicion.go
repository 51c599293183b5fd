package virtual

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
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

// firstProbe is the first queue pair number of probes that the controller asks
// for; those of the scheme are below.
const firstProbe endpoint.QP = 1 << 31

// asked is a probe under way: zero-length writes, each on a queue pair of its own.
type asked struct{ lost int }

// probe carries out what the controller asks for.
func (h *host) probe(now fabric.Time, d *doubts, p suspicion.Probe) {
	if h.away {
		return
	}
	a := &asked{}
	var qps []endpoint.QP
	for range p.Packets {
		qp := firstProbe + h.nextProbe
		h.nextProbe++
		if err := h.nic.Open(now, endpoint.Message{QP: qp, Dst: p.Dst, Label: p.Label, Start: now}); err != nil {
			h.w.fail(fmt.Errorf("%s: probe: %w", h.w.f.Name(h.id), err))
			return
		}
		h.asked[qp] = a
		qps = append(qps, qp)
	}
	h.w.net.Wake(h.id)
	h.w.net.At(now+p.Timeout, func(now fabric.Time) {
		for _, qp := range qps {
			if h.asked[qp] != nil {
				a.lost++
				delete(h.asked, qp)
			}
			_ = h.nic.Close(qp) // unknown when it was answered
		}
		d.later(now, func(now fabric.Time) error {
			d.core.ProbeResult(now, h.id, p.ID, len(qps), a.lost)
			return nil
		})
	})
}
