package rollout

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/damping"
	"github.com/ethereal-fabric/ethereal/controller/drains"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// Core is the state machine that decides the order and times of table writes and notices. See the package comment. It
// is not safe for concurrent use.
type Core struct {
	cfg       Config
	f         *fabric.Fabric
	tables    *controller.Core
	damper    *damping.Damper
	suspicion *suspicion.Core // nil: time-outs are not combined
	drains    drains.Set

	switches   []device                   // by NodeID - Hosts
	earlyPorts map[fabric.End]fabric.Time // ports that wait for tables, and the end of the wait
	lastSweep  fabric.Time                // time of the last sweep
	began      fabric.Time
	peersKnow  bool // the peers' drains are known
	started    bool

	notified  uint64            // epoch of the last notice
	restored  []*statepb.Update // repaired links of the next change
	change    linkChange
	trigger   fabric.Time // time of the next change's first event; see triggered
	triggered bool
	writes    map[uint64]write // in progress, by id
	lastWrite uint64
	ready     Ready
}

// device is the state of one switch.
type device struct {
	id      fabric.NodeID
	synced  bool // deltas may be written
	standby bool // another controller writes to it
	read    *tableRead
	reads   uint64      // of its tables
	pending int         // writes in progress
	audit   fabric.Time // time of the next read-back

	portsReported, portsCurrent bool                   // of its ports: once; now
	reportedPorts               map[fabric.PortNo]bool // ports that it has reported
	ports                       map[fabric.PortNo]bool // by the last report, where the data plane is notified
	renotify                    fabric.Time            // time of the next notification about all ports
}

// tableRead is a switch's tables as read before the start.
type tableRead struct {
	entries []controller.Entry
	stray   int
}

// New returns a core that starts at now and knows no ports or tables, or the error of [Config.Validate].
func New(now fabric.Time, cfg Config) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Core{
		cfg: cfg, f: cfg.Core.Fabric, began: now, lastSweep: now, peersKnow: !cfg.Peers,
		earlyPorts: map[fabric.End]fabric.Time{}, writes: map[uint64]write{},
	}
	var err error
	if c.tables, err = controller.New(cfg.Core); err != nil {
		return nil, err
	}
	if c.damper, err = damping.New(cfg.Damping); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if s := cfg.Suspicion; s != nil {
		s := *s
		s.Fabric = c.f
		if c.suspicion, err = suspicion.New(s); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	for i := range c.f.Switches() {
		c.switches = append(c.switches, device{id: fabric.NodeID(c.f.Hosts() + i), reportedPorts: map[fabric.PortNo]bool{}})
	}
	return c, nil
}

func (c *Core) device(id fabric.NodeID) *device { return &c.switches[int(id)-c.f.Hosts()] }

// Tables returns the core that computes tables and link states. It may be read; do not call its inputs.
func (c *Core) Tables() *controller.Core { return c.tables }

// Started reports whether the controller's start is over, so that tables are written: see the package comment.
func (c *Core) Started() bool { return c.started }

// Epoch returns the epoch of the last notice.
func (c *Core) Epoch() uint64 { return c.notified }

// Writing reports whether a change is being written.
func (c *Core) Writing() bool { return c.change.inProgress }

// Idle reports whether every reported change is written and agents are notified.
func (c *Core) Idle() bool { return !c.change.inProgress && !c.triggered && len(c.restored) == 0 }

// Waiting returns the number of ports that are up but not believed yet, because switches lack tables.
func (c *Core) Waiting() int { return len(c.earlyPorts) }

// Synced reports whether a switch has the tables it should have.
func (c *Core) Synced(id fabric.NodeID) bool { d := c.device(id); return d.synced && d.pending == 0 }

// Damped reports whether a link is held down because one of its ends flaps.
func (c *Core) Damped(id fabric.LinkID) bool {
	l := c.f.Link(id)
	return c.damper.Damped(l.A) || c.damper.Damped(l.B)
}

// sweepInterval is the interval at which the switches are checked for due audits and port notifications.
const sweepInterval = fabric.Second

func (c *Core) auditsOn() bool { return c.cfg.Audit > 0 || c.cfg.NotifyPorts != nil }

// Deadline returns when [Core.Tick] is due. ok is false if no timer runs.
func (c *Core) Deadline() (at fabric.Time, ok bool) {
	earlier := func(t fabric.Time, is bool) {
		if is && (!ok || t < at) {
			at, ok = t, true
		}
	}
	earlier(c.began+c.cfg.StartWait, !c.started)
	earlier(c.change.due, c.change.inProgress && c.cfg.StageTimeout > 0)
	earlier(c.lastSweep+sweepInterval, c.auditsOn())
	earlier(c.damper.Deadline())
	for _, limit := range c.earlyPorts {
		earlier(limit, true)
	}
	if c.suspicion != nil {
		earlier(c.suspicion.Deadline())
	}
	return at, ok
}

// Tick processes timers that have expired by now.
func (c *Core) Tick(now fabric.Time) {
	if now >= c.began+c.cfg.StartWait {
		c.start(now)
	}
	for _, e := range c.damper.Tick(now) {
		c.emitEvent(Event{Kind: FlappingEnded, Node: e.Port.Node, Port: e.Port.Port})
		c.believe(now, e.Port, e.Up)
	}
	if c.change.inProgress && c.cfg.StageTimeout > 0 && now >= c.change.due {
		c.abandonStage(now)
	}
	if c.auditsOn() && now >= c.lastSweep+sweepInterval {
		c.lastSweep = now
		c.startDueAudits(now)
	}
	c.releaseEarly(now)
	if c.suspicion != nil {
		c.suspicion.Tick(now)
	}
}

// Rebase makes now the zero of the core's clock. A core that runs for long needs it, since a [fabric.Time] holds 106
// days: see [fabric.LongAgo]. Call it after [Core.Ready], whose times are on the old clock.
func (c *Core) Rebase(now fabric.Time) {
	for _, t := range []*fabric.Time{&c.began, &c.lastSweep, &c.trigger, &c.change.due, &c.change.Trigger} {
		*t = t.Rebase(now)
	}
	for p, limit := range c.earlyPorts {
		c.earlyPorts[p] = limit.Rebase(now)
	}
	for i := range c.switches {
		d := &c.switches[i]
		d.audit, d.renotify = d.audit.Rebase(now), d.renotify.Rebase(now)
	}
	c.damper.Rebase(now)
	if c.suspicion != nil {
		c.suspicion.Rebase(now)
	}
}

// startDueAudits starts the audits and port notifications that are due.
func (c *Core) startDueAudits(now fabric.Time) {
	for i := range c.switches {
		d := &c.switches[i]
		if !d.synced {
			continue
		}
		if c.cfg.Audit > 0 && now >= d.audit && !c.change.inProgress {
			d.audit = now + c.cfg.Audit
			c.ready.Reads = append(c.ready.Reads, d.id)
		}
		if len(d.ports) > 0 && now >= d.renotify {
			c.notifyAllPorts(now, d)
		}
	}
}

// start ends the start: unknown ports count as up. Agents begin with a snapshot, and switches get the entries that
// their tables lack.
func (c *Core) start(now fabric.Time) {
	if c.started {
		return
	}
	c.started = true
	c.tables.Ready() // no switch is written to yet
	c.triggered = false
	c.ready.Start = c.tables.Snapshot()
	c.notified = c.ready.Start.GetEpoch()
	c.emitEvent(Event{Kind: Started, Epoch: c.notified})
	for i := range c.switches {
		if d := &c.switches[i]; d.read != nil {
			r := *d.read
			d.read = nil
			c.repair(now, d, r)
		}
	}
}

// startIfReported ends the start once every switch that can report its ports has done so.
func (c *Core) startIfReported(now fabric.Time) {
	if c.started || !c.peersKnow {
		return
	}
	for i := range c.switches {
		if d := &c.switches[i]; !d.portsReported && (c.cfg.ReportsNoPorts == nil || !c.cfg.ReportsNoPorts(d.id)) {
			return
		}
	}
	c.start(now)
}

// PeersKnown reports that the other controllers' drains are known, as far as possible.
func (c *Core) PeersKnown(now fabric.Time) {
	c.peersKnow = true
	c.startIfReported(now)
}
