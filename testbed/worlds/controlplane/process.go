package controlplane

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/controller/notify"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// World is the simulated controller's interface to its environment. Nodes are numbered as in the controller's plane;
// agents and links of [World.Update] as in the whole fabric.
type World interface {
	// At runs f at a time that has not passed, after the functions requested earlier for that time.
	At(t fabric.Time, f func(now fabric.Time))
	// Connect opens a session with a switch, for the present controller process.
	Connect(node fabric.NodeID) error
	// Disconnect ends all sessions.
	Disconnect()
	// Requests returns the requests of a write: each is carried out after the previous one has been answered.
	Requests(w rollout.Write) ([]Request, error)
	// Read returns a switch's tables, in the form of [rollout.Core.TablesRead].
	Read(node fabric.NodeID) (entries []controller.Entry, stray int, err error)
	// Update sends an update to every agent.
	Update(now fabric.Time, u *statepb.Update)
	// Probe makes an agent probe a path. Pass its ID to [Process.Probed].
	Probe(now fabric.Time, p suspicion.Probe)
	// Note adds an event to the timeline.
	Note(now fabric.Time, kind report.Kind, where, text string)
	// Fail ends the run because of a violated contract.
	Fail(err error)
}

// Request makes a switch carry out a part of a table write.
type Request func(now fabric.Time) error

// Process is a simulated controller process, with the delays of its messages. See the package comment.
type Process struct {
	w         World
	cfg       Config
	f         *fabric.Fabric // the plane
	core      *rollout.Core
	agents    *notify.Hub // the agents' updates; nil before the core's start is over
	tick      fabric.Time // time of the core's scheduled tick; 0: none
	scheduled bool        // a call of Ready for this time is scheduled

	// A controller that died is followed by one of the next life, which does not run what an earlier life
	// scheduled.
	life int
	down bool
}

// Config sets up a [Process].
type Config struct {
	Fabric *fabric.Fabric // the whole fabric
	Plane  int
	// Tables configures the switches' tables, for the plane, or for the whole fabric where one controller knows all
	// planes.
	Tables controller.Config
	// Control has all delays.
	Control scenario.Control
	// GNMI says that switches report their ports.
	GNMI bool
	// Suspicion combines agents' time-outs; nil: they are not combined.
	Suspicion *suspicion.Config
	Log       *eventlog.Log // nil: no log
}

// maxHistory is the number of updates kept for agents: none of them resumes.
const maxHistory = 1

// New returns a controller without state or sessions.
func New(w World, cfg Config) (*Process, error) {
	p := &Process{w: w, cfg: cfg, f: cfg.Tables.Fabric}
	return p, p.begin(0)
}

// begin starts the controller, or restarts it with a new core.
func (p *Process) begin(now fabric.Time) error {
	cfg := p.cfg.Control.Rollout()
	cfg.Core = p.cfg.Tables
	if p.life > 0 {
		cfg.Core.Instance += "-" + strconv.Itoa(p.life)
	}
	mute := p.life == 0 || !p.cfg.GNMI // before time 0 nothing can fail and nothing is reported
	cfg.ReportsNoPorts = func(fabric.NodeID) bool { return mute }
	cfg.Suspicion = p.cfg.Suspicion
	p.tick, p.scheduled, p.agents = 0, false, nil
	var err error
	p.core, err = rollout.New(now, cfg)
	return err
}

// Core returns the core, for reading.
func (p *Process) Core() *rollout.Core { return p.core }

// Node returns the number in the whole fabric of the core's node; Link does so for links.
func (p *Process) Node(id fabric.NodeID) fabric.NodeID {
	if p.f == p.cfg.Fabric {
		return id
	}
	return p.cfg.Fabric.PlaneNode(p.cfg.Plane, id)
}

// Link is [Process.Node] for a link.
func (p *Process) Link(id fabric.LinkID) fabric.LinkID {
	if p.f == p.cfg.Fabric {
		return id
	}
	return p.cfg.Fabric.PlaneLink(p.cfg.Plane, id)
}

// Restarts returns the number of times that the controller was restarted.
func (p *Process) Restarts() int { return p.life }

// CombinesReports reports whether the controller combines agents' reports of time-outs to find the failed link.
func (p *Process) CombinesReports() bool { return p.cfg.Suspicion != nil }

// TakeOver programs the switches before time 0: it calls program for each write.
func (p *Process) TakeOver(program func(rollout.Write) error) error {
	if err := p.connect(0); err != nil {
		return err
	}
	for _, id := range p.switches() {
		p.core.TablesRead(0, id, nil, 0)
	}
	ready := p.core.Ready(0)
	if err := p.startAgents(ready.Start); err != nil {
		return err
	}
	for _, w := range ready.Writes {
		if err := program(w); err != nil {
			return err
		}
		p.core.Written(0, w.ID, rollout.Acknowledged)
	}
	return nil
}

func (p *Process) switches() (ids []fabric.NodeID) {
	for i := range p.f.Switches() {
		ids = append(ids, fabric.NodeID(p.f.Hosts()+i))
	}
	return ids
}

func (p *Process) connect(now fabric.Time) error {
	for _, id := range p.switches() {
		if err := p.w.Connect(id); err != nil {
			return err
		}
		p.core.Session(now, id, rollout.Open)
	}
	return nil
}

// at runs f at a time, unless the controller has been restarted or stopped by then.
func (p *Process) at(t fabric.Time, f func(now fabric.Time) error) {
	life := p.life
	p.w.At(t, func(now fabric.Time) {
		if p.down || p.life != life {
			return
		}
		if err := f(now); err != nil {
			p.w.Fail(err)
		}
	})
}

// ReceiveAt calls f at a time, unless the controller is restarted before. f may call the core's inputs; the core's
// decisions are then carried out.
func (p *Process) ReceiveAt(t fabric.Time, f func(now fabric.Time, core *rollout.Core) error) {
	p.at(t, func(now fabric.Time) error {
		p.scheduleReady(now)
		return f(now, p.core)
	})
}

// scheduleReady makes the core act once all inputs of this time have arrived.
func (p *Process) scheduleReady(now fabric.Time) {
	if p.scheduled {
		return
	}
	p.scheduled = true
	p.at(now, func(now fabric.Time) error {
		p.scheduled = false
		return p.carryOut(now, p.cfg.Control.ComputeDelay, p.core.Ready(now))
	})
}

// carryOut carries out the core's requests, after the computation's time.
func (p *Process) carryOut(now, compute fabric.Time, r rollout.Ready) error {
	p.cfg.Log.Ready(p.f, wallTime(now), r)
	for _, e := range r.Events {
		p.happened(now, e)
	}
	if err := p.startAgents(r.Start); err != nil {
		return err
	}
	notifiedAt := now + compute + p.cfg.Control.PushDelay
	if r.Start != nil {
		p.updateAt(notifiedAt, r.Start)
	}
	for _, u := range r.Notices {
		if err := p.agents.Publish(u); err != nil {
			return err
		}
		p.updateAt(notifiedAt, u)
	}
	for _, w := range r.Writes {
		requests, err := p.w.Requests(w)
		if err != nil {
			return err
		}
		p.at(now+compute, func(now fabric.Time) error { return p.send(now, w, requests) })
	}
	for _, id := range r.Reads {
		p.read(now+compute, id)
	}
	for _, probe := range r.Probes {
		probe.ID |= uint64(p.life) << lifeShift
		p.at(now+p.cfg.Control.PushDelay, func(now fabric.Time) error {
			p.w.Probe(now, probe)
			return nil
		})
	}
	p.schedule(now)
	return nil
}

// wallTime is the controller's wall clock, which starts with the run.
func wallTime(now fabric.Time) time.Time { return time.Unix(0, int64(now/fabric.Nanosecond)).UTC() }

// schedule schedules the core's next tick.
func (p *Process) schedule(now fabric.Time) {
	at, ok := p.core.Deadline()
	if !ok || p.tick > 0 && p.tick <= at {
		return
	}
	at = max(at, now+1)
	p.tick = at
	p.at(at, func(now fabric.Time) error {
		if p.tick == at {
			p.tick = 0
			p.core.Tick(now)
			p.scheduleReady(now)
		}
		return nil
	})
}

// happened adds the core's decisions to the timeline.
func (p *Process) happened(now fabric.Time, e rollout.Event) {
	f := p.cfg.Fabric
	switch e.Kind {
	case rollout.LinkChanged:
		if e.Node != rollout.NoNode {
			p.w.Note(now, report.KindGNMI, f.Name(p.Node(e.Node)), "the controller hears of a port")
		}
	case rollout.Changed:
		p.w.Note(now, report.KindWrite, "controller", "a change's table writes are acknowledged")
	case rollout.Suspected:
		text := "a link is suspected"
		switch {
		case e.Up:
			text = "a suspicion is dropped"
		case e.Confirmed:
			text = "a suspicion is confirmed by lost probes"
		}
		p.w.Note(now, report.KindSuspect, f.LinkName(p.Link(e.Link)), text)
	}
}

// startAgents begins the record of the agents' updates.
func (p *Process) startAgents(snapshot *statepb.Update) (err error) {
	if snapshot != nil {
		p.agents, err = notify.NewHub(snapshot, maxHistory)
	}
	return err
}

func (p *Process) updateAt(t fabric.Time, u *statepb.Update) {
	p.at(t, func(now fabric.Time) error {
		p.w.Note(now, report.KindPush, "agents", "link states pushed")
		p.w.Update(now, p.inFabric(u))
		return nil
	})
}

// inFabric converts an update to the whole fabric's link numbers, which agents use.
func (p *Process) inFabric(u *statepb.Update) *statepb.Update {
	if p.f == p.cfg.Fabric || p.cfg.Fabric.Planes() == 1 {
		return u
	}
	u = proto.CloneOf(u)
	for _, l := range u.GetLinks() {
		l.Link = uint32(p.Link(fabric.LinkID(l.GetLink())))
	}
	for _, r := range u.GetRates() {
		r.Link = uint32(p.Link(fabric.LinkID(r.GetLink())))
	}
	return u
}

// Snapshot returns the snapshot for an agent that connects now; nil: none.
func (p *Process) Snapshot() *statepb.Update {
	if p.down || p.agents == nil || !p.cfg.GNMI {
		return nil
	}
	return p.inFabric(p.agents.Snapshot())
}

// MergeSnapshots merges the link states of several planes' controllers into one snapshot for an agent; each may be
// nil.
func MergeSnapshots(all, one *statepb.Update) *statepb.Update {
	if all == nil || one == nil {
		return cmp.Or(all, one)
	}
	all.Links = append(all.Links, one.GetLinks()...)
	return all
}

// send sends one request after the other, each when the previous one is answered, and reports the last answer to
// the core. A switch accepts no requests from a controller that has ended.
func (p *Process) send(now fabric.Time, w rollout.Write, requests []Request) error {
	if len(requests) == 0 {
		p.core.Written(now, w.ID, rollout.Acknowledged)
		r := p.core.Ready(now)
		compute := fabric.Time(0) // a change's stages were computed when it began
		if next := func(e rollout.Event) bool { return e.Kind == rollout.Changed }; len(r.Writes) > 0 && slices.ContainsFunc(r.Events, next) {
			compute = p.cfg.Control.ComputeDelay // the waiting change is computed now
		}
		return p.carryOut(now, compute, r)
	}
	delay := p.cfg.Control.WriteDelay
	p.at(now+delay, func(now fabric.Time) error {
		if err := requests[0](now); err != nil {
			return err
		}
		p.at(now+delay, func(now fabric.Time) error { return p.send(now, w, requests[1:]) })
		return nil
	})
	return nil
}

// read reads a switch's tables, with a write's delay each way.
func (p *Process) read(now fabric.Time, id fabric.NodeID) {
	p.ReceiveAt(now+2*p.cfg.Control.WriteDelay, func(now fabric.Time, core *rollout.Core) error {
		entries, stray, err := p.w.Read(id)
		if err != nil {
			return err
		}
		core.TablesRead(now, id, entries, stray)
		return nil
	})
}
