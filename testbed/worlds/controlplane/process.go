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

// World is what a controller reaches. Nodes are numbered as in the process' plane, agents and links of
// [World.Update] as in the whole fabric.
type World interface {
	// At runs f at a time that is not past, after what was asked for that time before.
	At(t fabric.Time, f func(now fabric.Time))
	// Connect opens a session with a switch, in which this life of the controller is the only one to write.
	Connect(node fabric.NodeID) error
	// Disconnect ends all sessions.
	Disconnect()
	// Requests returns what a write consists of: each is carried out when the one before has been answered.
	Requests(w rollout.Write) ([]Request, error)
	// Read returns a switch's tables, as [rollout.Core.TablesRead] takes them.
	Read(node fabric.NodeID) (entries []controller.Entry, stray int, err error)
	// Update hands an update to every agent.
	Update(now fabric.Time, u *statepb.Update)
	// Probe has an agent probe a path. Its ID is to be given back to [Process.Probed].
	Probe(now fabric.Time, p suspicion.Probe)
	// Note puts what happened on the timeline.
	Note(now fabric.Time, kind report.Kind, where, text string)
	// Fail ends the run: a part broke its contract.
	Fail(err error)
}

// Request has a switch carry out a part of a write.
type Request func(now fabric.Time) error

// Process is a controller; see the package comment.
type Process struct {
	w         World
	cfg       Config
	f         *fabric.Fabric // the plane
	core      *rollout.Core
	agents    *notify.Hub // what agents have received; nil before the core's start is over
	tick      fabric.Time // when the core's tick is scheduled for; 0: it is not
	scheduled bool        // a call of Ready for this time is scheduled

	// A controller that died is followed by one of the next life. What one life
	// scheduled, another does not do.
	life int
	down bool
}

// Config sets up a [Process].
type Config struct {
	Fabric *fabric.Fabric // the whole
	Plane  int
	// Tables is what the switches' tables are to be, for the plane, or for the whole fabric where one controller
	// knows all planes.
	Tables controller.Config
	// Control says how long everything takes.
	Control scenario.Control
	// GNMI is whether switches report their ports.
	GNMI bool
	// Suspicion joins agents' time-outs; nil: nothing does.
	Suspicion *suspicion.Config
	Log       *eventlog.Log // nil: nothing is written
}

// maxHistory is how many updates are kept for agents: none of them resumes.
const maxHistory = 1

// New returns a controller that knows nothing and has no session.
func New(w World, cfg Config) (*Process, error) {
	p := &Process{w: w, cfg: cfg, f: cfg.Tables.Fabric}
	return p, p.begin(0)
}

// begin begins a life, with a core that knows nothing.
func (p *Process) begin(now fabric.Time) error {
	cfg := p.cfg.Control.Rollout()
	cfg.Core = p.cfg.Tables
	if p.life > 0 {
		cfg.Core.Instance += "-" + strconv.Itoa(p.life)
	}
	mute := p.life == 0 || !p.cfg.GNMI // before anything can fail there is nothing to report
	cfg.Mute = func(fabric.NodeID) bool { return mute }
	cfg.Suspicion = p.cfg.Suspicion
	p.tick, p.scheduled, p.agents = 0, false, nil
	var err error
	p.core, err = rollout.New(now, cfg)
	return err
}

// Core returns the core, which may be read.
func (p *Process) Core() *rollout.Core { return p.core }

// Node and Link return the numbers in the whole fabric of what the core knows by its own.
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

// Life counts the controllers before this one.
func (p *Process) Life() int { return p.life }

// Joins reports whether agents' time-outs are joined.
func (p *Process) Joins() bool { return p.cfg.Suspicion != nil }

// TakeOver has the switches programmed before time 0, each by a call of program: a fabric is programmed before
// anyone uses it.
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

// Adopt takes over switches that have their tables.
func (p *Process) Adopt() error {
	if err := p.connect(0); err != nil {
		return err
	}
	for _, id := range p.switches() {
		p.core.TablesRead(0, id, p.core.Tables().Written(id), 0)
	}
	return p.startAgents(p.core.Ready(0).Start)
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

// at runs f at a time, if this life of the controller lasts till then.
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

// ReceiveAt runs f at a time, if this life of the controller lasts till then. f may feed the core, which then acts.
func (p *Process) ReceiveAt(t fabric.Time, f func(now fabric.Time, core *rollout.Core) error) {
	p.at(t, func(now fabric.Time) error {
		p.scheduleReady(now)
		return f(now, p.core)
	})
}

// scheduleReady has the core act once all inputs of this time have arrived.
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

// carryOut does what the core wants done, after the time it took to find out.
func (p *Process) carryOut(now, compute fabric.Time, r rollout.Ready) error {
	p.cfg.Log.Ready(p.f, wall(now), r)
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

// wall is the controller's wall clock: it starts with the run.
func wall(now fabric.Time) time.Time { return time.Unix(0, int64(now/fabric.Nanosecond)).UTC() }

// schedule has the core's tick called when it is due.
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

// happened puts what the core decided on the timeline.
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

// startAgents begins the account of what agents receive.
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

// inFabric returns an update by the numbers that links have in the whole fabric, which agents know.
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

// Snapshot returns what an agent that connects now receives; nil: nothing.
func (p *Process) Snapshot() *statepb.Update {
	if p.down || p.agents == nil || !p.cfg.GNMI {
		return nil
	}
	return p.inFabric(p.agents.Snapshot())
}

// Join merges the snapshots of several planes' controllers for one agent; each may be nil.
func Join(all, one *statepb.Update) *statepb.Update {
	if all == nil || one == nil {
		return cmp.Or(all, one)
	}
	all.Links = append(all.Links, one.GetLinks()...)
	return all
}

// send sends one request after the other, each when the one before is answered, and notifies the core of the last
// answer. A switch takes no requests of a controller that has ended.
func (p *Process) send(now fabric.Time, w rollout.Write, requests []Request) error {
	if len(requests) == 0 {
		p.core.Written(now, w.ID, rollout.Acknowledged)
		r := p.core.Ready(now)
		compute := fabric.Time(0) // a change's stages were computed when it began
		if next := func(e rollout.Event) bool { return e.Kind == rollout.Changed }; len(r.Writes) > 0 && slices.ContainsFunc(r.Events, next) {
			compute = p.cfg.Control.ComputeDelay // and the one that waited for it is now
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

// read reads a switch's tables, a write's delay each way.
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
