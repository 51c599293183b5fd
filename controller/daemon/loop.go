package daemon

import (
	"context"
	"errors"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/controller/notify"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// loop owns the core.
func (d *Daemon) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(d.untilDue())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			d.core.Tick(d.clock())
			d.updateVerdicts()
		case <-d.inbox.ready:
			for _, f := range d.inbox.takeAll() {
				f()
			}
		}
		now := d.clock()
		d.carryOut(d.core.TakeNotices(now)) // bad news does not wait for tables
		d.carryOut(d.core.Ready(now))
		if now > rebaseAfter {
			d.core.Rebase(now)
			d.zero = d.wallClock(now)
		}
	}
}

// rebaseAfter keeps the core's times far from their limit; see [rollout.Core.Rebase].
const rebaseAfter = 24 * 3600 * fabric.Second

// idleInterval is the longest sleep of the loop.
const idleInterval = time.Second

// untilDue returns the time until the core's next timer.
func (d *Daemon) untilDue() time.Duration {
	at, ok := d.core.Deadline()
	if !ok {
		return idleInterval
	}
	return min(max(duration(at-d.clock()), 0), idleInterval)
}

// clock returns the core's time. Updates to agents carry the wall clock instead.
func (d *Daemon) clock() fabric.Time { return fabricTime(time.Since(d.zero)) }

// wallClock converts the core's time to the wall clock's.
func (d *Daemon) wallClock(t fabric.Time) time.Time { return d.zero.Add(duration(t)) }

// fabricTime converts a duration; over 53 days it means "never".
func fabricTime(t time.Duration) fabric.Time {
	return fabric.Time(min(t.Nanoseconds(), int64(-fabric.LongAgo/fabric.Nanosecond))) * fabric.Nanosecond
}

// duration rounds up, so that a timer is due when its duration has passed.
func duration(t fabric.Time) time.Duration {
	return time.Duration((t + fabric.Nanosecond - 1) / fabric.Nanosecond)
}

func (d *Daemon) phaseChanged(dev *device, p p4rt.Phase, err error) {
	dev.phase, dev.phaseErr = p, ""
	if err != nil {
		dev.phaseErr = err.Error()
	}
	d.cfg.Events.Add(eventlog.Record{Time: time.Now(), Kind: "phase", Switch: dev.name, State: p.String(), Error: dev.phaseErr})
	state := rollout.NoSession
	switch p {
	case p4rt.Serving:
		state = rollout.Open
	case p4rt.Backup:
		state = rollout.Standby
	}
	d.core.Session(d.clock(), dev.id, state)
	d.updateVerdicts()
}

func (d *Daemon) healthChanged(dev *device, h linkstate.Health, sampling bool, err error) {
	dev.health, dev.sampling, dev.healthErr = h, sampling, ""
	if err != nil {
		dev.healthErr = err.Error()
	}
	d.cfg.Events.Add(eventlog.Record{Time: time.Now(), Kind: "health", Switch: dev.name, State: h.String(), Error: dev.healthErr})
	d.core.PortsKnown(d.clock(), dev.id, h == linkstate.Fresh)
	d.updateVerdicts()
}

func (d *Daemon) portsChanged(dev *device, cs []linkstate.Change) {
	for _, c := range cs {
		if c.Speed {
			d.core.PortRate(dev.id, c.Port, c.Rate)
			continue
		}
		d.core.PortState(d.clock(), dev.id, c.Port, c.Up)
	}
}

// maxStraysLogged is the number of stray entities of one reading that are logged singly.
const maxStraysLogged = 16

func (d *Daemon) tablesRead(dev *device, tenure uint64, t p4rt.Tables) {
	dev.tenure, dev.entries, dev.stray = tenure, len(t.Entries), t.Stray
	dev.phase, dev.phaseErr, dev.unfitReason = p4rt.Serving, "", ""
	if err := d.cfg.pipeline(dev.id).Schema().Fits(d.core.Tables().Desired(dev.id)); err != nil {
		dev.unfitReason = err.Error()
		d.cfg.Log.Error("the switch will refuse updates", "switch", dev.name, "err", err)
	}
	said := min(len(t.Stray), maxStraysLogged)
	for _, why := range t.StrayReasons[:said] {
		d.cfg.Log.Warn("stray entity", "switch", dev.name, "why", why)
	}
	if more := len(t.Stray) - said; more > 0 {
		d.cfg.Log.Warn("more stray entities", "switch", dev.name, "count", more)
	}
	d.core.TablesRead(d.clock(), dev.id, t.Entries, len(t.Stray))
}

// carryOut carries out the core's requests.
func (d *Daemon) carryOut(r rollout.Ready) {
	now := time.Now()
	d.cfg.Events.Ready(d.f, now, r)
	for _, e := range r.Events {
		d.recordEvent(e)
	}
	if r.Start != nil {
		stampUpdate(r.Start, now)
		if hub, err := notify.NewHub(r.Start, d.cfg.History); err != nil {
			d.cfg.Log.Error("notifications", "err", err)
		} else {
			d.service.Start(hub)
		}
	}
	for _, u := range r.Notices {
		stampUpdate(u, now)
		if err := d.service.Publish(u); err != nil {
			d.cfg.Log.Error("notice", "err", err)
		}
	}
	for _, w := range r.Writes {
		d.write(w)
	}
	// Epochs only have to differ between a port's events, also after a restart.
	epoch := max(1, uint32(now.UnixMilli()))
	for _, p := range r.Ports {
		dev := d.device(p.Node)
		if err := dev.session.NotifyPort(dev.tenure, p.Port, p.Up, epoch); err != nil {
			d.cfg.Log.Error("the data plane is not notified of a port", "switch", dev.name, "port", p.Port, "up", p.Up, "err", err)
		}
	}
	for _, id := range r.Reads {
		d.device(id).session.Reread()
	}
	d.askForProbes(r.Probes)
}

// stampUpdate replaces the core's time in an update for agents by the wall clock's.
func stampUpdate(u *statepb.Update, now time.Time) {
	for _, l := range u.GetLinks() {
		l.TimeNs = now.UnixNano()
	}
	for _, s := range u.GetSuspects() {
		s.TimeNs = now.UnixNano()
	}
}

// write sends a write and reports its outcome to the core.
func (d *Daemon) write(w rollout.Write) {
	dev := d.device(w.Node)
	var stray []*p4.Entity
	if w.Repair {
		stray, dev.stray = dev.stray, nil
		dev.repairs += uint64(len(w.Updates) + len(stray))
	}
	began := time.Now()
	dev.session.Write(dev.tenure, w.Updates, stray, func(err error) {
		d.inbox.post(func() { d.writeDone(dev, w, len(stray), time.Since(began), err) })
	})
}

// writeDone processes the outcome of a write.
func (d *Daemon) writeDone(dev *device, w rollout.Write, stray int, took time.Duration, err error) {
	outcome := rollout.Failed
	switch {
	case err == nil:
		outcome = rollout.Acknowledged
		if w.Repair {
			dev.entries = len(d.core.Tables().Written(dev.id))
			d.cfg.Log.Info("tables repaired", "switch", dev.name, "updates", len(w.Updates)+stray, "took", took.Round(time.Millisecond))
		}
	case errors.Is(err, p4rt.ErrNotServing):
		outcome = rollout.Unsent
	default:
		d.writeRefused(dev, err)
	}
	d.core.Written(d.clock(), w.ID, outcome)
}

func (d *Daemon) writeRefused(dev *device, err error) {
	d.refusals++
	d.cfg.Events.Add(eventlog.Record{Time: time.Now(), Kind: "refused", Switch: dev.name, Error: err.Error()})
	if we, ok := errors.AsType[*p4rt.WriteError](err); ok {
		for _, u := range we.Updates {
			d.cfg.Log.Error("update refused", "switch", dev.name, "update", u.Update.String(), "code", u.Code.String(), "message", u.Message)
		}
		return
	}
	d.cfg.Log.Warn("write failed", "switch", dev.name, "err", err)
}

// recordEvent logs and counts the core's decisions.
func (d *Daemon) recordEvent(e rollout.Event) {
	log := d.cfg.Log
	switch e.Kind {
	case rollout.PortReported:
		if e.Damped {
			log.Warn("port flaps and is held down", "switch", d.f.Name(e.Node), "port", e.Port)
		}
	case rollout.PortSpeed:
		log.Info("port speed", "switch", d.f.Name(e.Node), "port", e.Port, "speed", fabric.SpeedName(e.Rate))
	case rollout.FlappingEnded:
		log.Info("port calmed down", "switch", d.f.Name(e.Node), "port", e.Port)
	case rollout.LinkChanged:
		log.Info("link", "link", d.f.LinkName(e.Link), "up", e.Up, "epoch", e.Epoch)
	case rollout.Suspected:
		log.Warn("link", "link", d.f.LinkName(e.Link), "suspected", !e.Up, "confirmed", e.Confirmed, "epoch", e.Epoch)
	case rollout.DrainReverted:
		log.Warn("drain reverted: together with a peer's drains, hosts would lose their last path", "link", d.f.LinkName(e.Link))
	case rollout.Started:
		log.Info("started", "after", time.Since(d.began).Round(time.Millisecond), "epoch", e.Epoch)
	case rollout.Repaired:
		if e.Count == 0 {
			log.Info("tables as desired", "switch", d.f.Name(e.Node))
		}
	case rollout.Late:
		log.Warn("continuing without a late switch", "switch", d.f.Name(e.Node), "after", d.cfg.StageTimeout)
	case rollout.Changed:
		c := e.Change
		d.changes++
		d.last = Convergence{
			Trigger: d.wallClock(c.Trigger), Took: duration(c.Written - c.Trigger), Epoch: c.Epoch, Switches: c.Switches, Updates: c.Updates,
			Missed: c.Missed,
		}
		d.metrics.converged.Observe(d.last.Took.Seconds())
		if c.Missed > 0 {
			log.Warn("change written in part", "epoch", c.Epoch, "switches", c.Switches, "missed", c.Missed, "updates", c.Updates,
				"took", d.last.Took)
			return
		}
		log.Info("change written", "epoch", c.Epoch, "switches", c.Switches, "updates", c.Updates, "took", d.last.Took)
	}
}

// updateVerdicts concludes again about all switches.
func (d *Daemon) updateVerdicts() {
	for _, dev := range d.switches {
		v := d.verdictOf(dev)
		if v == dev.verdict {
			continue
		}
		dev.verdict = v
		d.cfg.Log.Info("switch", "switch", dev.name, "verdict", v.String())
		d.cfg.Events.Add(eventlog.Record{Time: time.Now(), Kind: "verdict", Switch: dev.name, State: v.String()})
	}
}

func (d *Daemon) verdictOf(dev *device) Verdict {
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
		r := d.core.Tables().LinkReport(l.ID)
		down := r.DownA
		if l.B == peer {
			down = r.DownB
		}
		ws = append(ws, Witness{Reporting: d.device(peer.Node).health == linkstate.Fresh, Up: !down})
	}
	return JudgeSwitch(ws)
}
