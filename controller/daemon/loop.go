package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/damping"
	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/controller/notify"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// loop owns the core.
func (d *Daemon) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(max(time.Until(d.due()), 0))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			d.tick(time.Now())
		case <-d.inbox.ready:
			for _, f := range d.inbox.take() {
				f()
			}
		}
		d.flush()
	}
}

// idle is how long the loop sleeps at most.
const idle = time.Second

// due returns when tick has something to do.
func (d *Daemon) due() time.Time {
	at := time.Now().Add(idle)
	earlier := func(t time.Time, ok bool) {
		if ok && t.Before(at) {
			at = t
		}
	}
	earlier(d.began.Add(d.cfg.Settle), !d.settled)
	earlier(d.stageDue, d.conductor.busy)
	due, ok := d.damper.Deadline()
	earlier(due, ok)
	if at, ok := d.suspicion.Deadline(); ok {
		earlier(d.began.Add(time.Duration(at/fabric.Nanosecond)), true)
	}
	return at
}

func (d *Daemon) tick(now time.Time) {
	if !d.settled && !now.Before(d.began.Add(d.cfg.Settle)) {
		d.settle()
	}
	for _, e := range d.damper.Tick(now) {
		d.cfg.Log.Info("port calmed down", "switch", d.f.Name(e.Port.Node), "port", e.Port.Port)
		d.believe(now, e.Port, e.Up)
	}
	if d.conductor.busy && !now.Before(d.stageDue) {
		for _, id := range d.conductor.late() {
			d.cfg.Log.Warn("going on without a switch that is late", "switch", d.f.Name(id), "after", d.cfg.StageTimeout)
		}
		d.write(d.conductor.next())
	}
	for _, dev := range d.switches {
		if d.cfg.Audit > 0 && dev.synced && now.After(dev.audit) && !d.conductor.busy {
			dev.audit = now.Add(d.cfg.Audit)
			dev.session.Reread()
		}
	}
	d.retellDue(now)
	d.releaseEarly(now)
	d.suspicion.Tick(d.clock())
	d.judge()
}

// clock is the core's time. Agents are told the wall clock instead.
func (d *Daemon) clock() fabric.Time {
	return fabric.Time(time.Since(d.began).Nanoseconds()) * fabric.Nanosecond
}

func (d *Daemon) phaseChanged(dev *device, p p4rt.Phase, err error) {
	dev.phase, dev.phaseErr = p, ""
	if err != nil {
		dev.phaseErr = err.Error()
	}
	if p != p4rt.Serving {
		dev.synced, dev.held = false, nil
	}
	d.cfg.Events.add(Record{Time: time.Now(), Kind: "phase", Switch: dev.name, State: p.String(), Error: dev.phaseErr})
	d.releaseEarly(time.Now())
	d.judge()
}

func (d *Daemon) healthChanged(dev *device, h linkstate.Health, sampling bool, err error) {
	dev.health, dev.sampling, dev.healthEr = h, sampling, ""
	if err != nil {
		dev.healthEr = err.Error()
	}
	d.cfg.Events.add(Record{Time: time.Now(), Kind: "health", Switch: dev.name, State: h.String(), Error: dev.healthEr})
	if h == linkstate.Fresh {
		dev.told = true
		if dev.synced {
			d.retellPorts(dev)
		}
	}
	d.judge()
	d.settleIfTold()
}

// settleIfTold ends the start once all have been heard of that can tell anything.
func (d *Daemon) settleIfTold() {
	if d.settled {
		return
	}
	for _, dev := range d.switches {
		if dev.ports != nil && !dev.told {
			return
		}
	}
	for _, p := range d.peers {
		if !p.tried {
			return
		}
	}
	d.settle()
}

func (d *Daemon) portsChanged(dev *device, cs []linkstate.Change) {
	now := time.Now()
	d.tellPorts(dev, cs)
	for _, c := range cs {
		port := damping.Port{Node: dev.id, Port: c.Port}
		if _, ok := d.f.LinkAt(dev.id, c.Port); !ok {
			continue // a port that is not part of the fabric
		}
		believed := d.damper.State(now, port, c.Up)
		d.cfg.Events.add(Record{Time: now, Kind: "port", Switch: dev.name, Port: int(c.Port), Up: &c.Up, Held: !believed})
		if believed {
			d.believe(now, port, c.Up)
		} else {
			d.cfg.Log.Warn("port flaps and is held down", "switch", dev.name, "port", c.Port)
		}
	}
}

// believe hands the core a port's state, unless it is up and a switch at the link
// has no tables yet.
func (d *Daemon) believe(now time.Time, p damping.Port, up bool) {
	if up && d.tooEarly(now, p) {
		return
	}
	delete(d.early, p)
	d.bring(now, p, up)
}

// bring hands the core a port's state.
func (d *Daemon) bring(now time.Time, p damping.Port, up bool) {
	d.cfg.Events.add(Record{Time: now, Kind: "believed", Switch: d.f.Name(p.Node), Port: int(p.Port), Up: &up})
	before := d.core.Epoch()
	if err := d.core.PortState(d.clock(), p.Node, p.Port, up); err != nil {
		d.cfg.Log.Error("port state", "err", err)
		return
	}
	if d.core.Epoch() != before {
		d.linkChanged(now, p.Node, p.Port)
	}
	if id, ok := d.f.LinkAt(p.Node, p.Port); ok {
		r := d.core.LinkReport(id)
		d.suspicion.LinkState(d.clock(), id, !r.DownA && !r.DownB)
	}
}

func (d *Daemon) linkChanged(now time.Time, node fabric.NodeID, port fabric.PortNo) {
	id, _ := d.f.LinkAt(node, port)
	up, epoch := d.core.LinkUp(id), d.core.Epoch()
	d.cfg.Log.Info("link", "link", d.f.LinkName(id), "up", up, "epoch", epoch)
	d.cfg.Events.add(Record{Time: now, Kind: "link", Link: d.f.LinkName(id), Up: &up, Epoch: epoch})
	if d.trigger.IsZero() {
		d.trigger = now
	}
}

// settle ends the start: what is not known by now is held to be up.
func (d *Daemon) settle() {
	d.settled = true
	d.core.Ready() // no switch is written to yet, and agents begin with a snapshot
	d.trigger = time.Time{}
	hub, err := notify.NewHub(d.core.Snapshot(), d.cfg.History)
	if err != nil {
		d.cfg.Log.Error("notifications", "err", err)
	} else {
		d.service.Start(hub)
	}
	d.cfg.Log.Info("settled", "after", time.Since(d.began).Round(time.Millisecond), "epoch", d.core.Epoch())
	d.cfg.Events.add(Record{Time: time.Now(), Kind: "settled", Epoch: d.core.Epoch()})
	for _, dev := range d.switches {
		if h := dev.held; h != nil {
			dev.held = nil
			d.repair(dev, *h)
		}
	}
}

func (d *Daemon) tablesRead(dev *device, tenure uint64, h p4rt.Held) {
	dev.tenure, dev.entries = tenure, len(h.Entries)
	dev.phase, dev.phaseErr = p4rt.Serving, ""
	dev.audit = time.Now().Add(d.cfg.Audit)
	if !d.settled {
		dev.held = &h
		return
	}
	d.repair(dev, h)
}

// repair writes what differs from what was read.
func (d *Daemon) repair(dev *device, h p4rt.Held) {
	want := d.core.Written(dev.id)
	dev.unfit = ""
	if err := d.cfg.Pipeline.Schema().Fits(want); err != nil {
		dev.unfit = err.Error()
		d.cfg.Log.Error("the switch will refuse updates", "switch", dev.name, "err", err)
	}
	us := controller.Diff(h.Entries, d.cfg.PipelineOf(dev.id).Schema().Kept(want))
	dev.synced = true
	for i := range h.Stray {
		d.cfg.Log.Warn("stray entity", "switch", dev.name, "why", h.Why[i])
	}
	n := len(us) + len(h.Stray)
	d.cfg.Events.add(Record{Time: time.Now(), Kind: "repair", Switch: dev.name, Count: n})
	if n == 0 {
		d.cfg.Log.Info("tables as desired", "switch", dev.name, "entries", len(h.Entries))
		d.retellPorts(dev)
		d.releaseEarly(time.Now())
		return
	}
	d.repairs += uint64(n)
	began := time.Now()
	dev.pending++
	dev.session.Write(dev.tenure, us, h.Stray, func(err error) {
		d.inbox.put(func() {
			d.wrote(dev, err)
			if err == nil {
				dev.entries = len(want)
				d.cfg.Log.Info("tables repaired", "switch", dev.name, "updates", n, "took", time.Since(began).Round(time.Millisecond))
			}
		})
	})
	d.retellPorts(dev)
}

// wrote takes the outcome of a write.
func (d *Daemon) wrote(dev *device, err error) {
	dev.pending--
	defer d.releaseEarly(time.Now())
	if err == nil || errors.Is(err, p4rt.ErrNotServing) {
		return
	}
	dev.synced = false
	d.refusals++
	d.cfg.Events.add(Record{Time: time.Now(), Kind: "refused", Switch: dev.name, Error: err.Error()})
	if we, ok := errors.AsType[*p4rt.WriteError](err); ok {
		for _, u := range we.Updates {
			d.cfg.Log.Error("update refused", "switch", dev.name, "update", u.Update.String(), "code", u.Code.String(), "message", u.Message)
		}
		return
	}
	d.cfg.Log.Warn("write failed", "switch", dev.name, "err", err)
}

// flush carries out what the core wants.
func (d *Daemon) flush() {
	if !d.settled {
		return
	}
	d.flushSuspicions()
	for _, u := range d.core.Notices() {
		for _, l := range u.GetLinks() {
			l.TimeNs = time.Now().UnixNano()
		}
		for _, s := range u.GetSuspects() {
			s.TimeNs = time.Now().UnixNano()
		}
		if err := d.service.Publish(u); err != nil {
			d.cfg.Log.Error("notice", "err", err)
		}
	}
	if d.conductor.busy {
		return
	}
	ready := d.core.Ready()
	if len(ready.Writes) == 0 {
		d.trigger = time.Time{}
		return
	}
	d.last = Convergence{Trigger: d.trigger, Epoch: d.core.Epoch()}
	d.trigger = time.Time{}
	d.write(d.conductor.begin(ready.Writes))
}

// write sends a stage's deltas. It goes on with the next stage if there is nobody
// to send them to.
func (d *Daemon) write(deltas []controller.SwitchDelta) {
	for len(deltas) > 0 {
		stage := d.conductor.stage
		d.stageDue = time.Now().Add(d.cfg.StageTimeout)
		ended := false
		for _, x := range deltas {
			dev := d.switches[int(x.Node)-d.f.Hosts()]
			if !dev.synced {
				ended = d.conductor.done(stage, x.Node) || ended
				continue
			}
			d.last.Switches++
			dev.pending++
			dev.session.Write(dev.tenure, x.Updates, nil, func(err error) {
				d.inbox.put(func() {
					d.wrote(dev, err)
					if d.conductor.done(stage, dev.id) {
						d.write(d.conductor.next())
					}
				})
			})
		}
		if !ended {
			return
		}
		deltas = d.conductor.next()
	}
	d.changes++
	d.last.Updates = d.conductor.written
	if !d.last.Trigger.IsZero() {
		d.last.Took = time.Since(d.last.Trigger)
		d.metrics.converged.Observe(d.last.Took.Seconds())
	}
	d.cfg.Log.Info("change written", "epoch", d.last.Epoch, "switches", d.last.Switches, "updates", d.last.Updates, "took", d.last.Took)
	d.cfg.Events.add(Record{
		Time: time.Now(), Kind: "change", Epoch: d.last.Epoch, Count: d.last.Updates, Millis: float64(d.last.Took.Microseconds()) / 1000,
	})
}

// judge looks at the evidence again.
func (d *Daemon) judge() {
	for _, dev := range d.switches {
		v := d.verdict(dev)
		if v == dev.verdict {
			continue
		}
		dev.verdict = v
		d.cfg.Log.Info("switch", "switch", dev.name, "verdict", v.String())
		d.cfg.Events.add(Record{Time: time.Now(), Kind: "verdict", Switch: dev.name, State: v.String()})
	}
}

func (d *Daemon) verdict(dev *device) Verdict {
	if dev.phase >= p4rt.Backup || dev.health == linkstate.Syncing || dev.health == linkstate.Fresh {
		return Alive
	}
	n := d.f.Node(dev.id)
	var ws []Witness
	for p := range n.Ports() {
		l := d.f.Link(n.Link(fabric.PortNo(p + 1)))
		peer := l.Peer(dev.id)
		if d.f.Node(peer.Node).Tier == fabric.Host {
			continue
		}
		r := d.core.LinkReport(l.ID)
		down := r.DownA
		if l.B == peer {
			down = r.DownB
		}
		other := d.switches[int(peer.Node)-d.f.Hosts()]
		ws = append(ws, Witness{Heard: other.health == linkstate.Fresh, Up: !down})
	}
	return Judge(false, ws)
}
