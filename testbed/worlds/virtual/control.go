package virtual

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/controller/notify"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/gnmi"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// controllerProcess is the controller: its core, and the core's sessions to the switches
// and to the agents. Its messages are those of a controller on a network; only their way
// is modelled.
type controllerProcess struct {
	w        *world
	plane    int            // of the fabric
	f        *fabric.Fabric // the plane: what the core knows, by its own numbers
	core     *rollout.Core
	shares   bool        // suspicion
	agents   *notify.Hub // what agents were told; nil before the core's start is over
	sessions []session   // by NodeID - Hosts

	tick    fabric.Time // when the core's tick is scheduled for; 0: it is not
	hearing bool        // what is heard at this time is yet to be acted on

	// A controller that died is followed by one of the next life. What one life
	// scheduled, another does not do.
	life int
	down bool
}

// session is the controller's P4Runtime stream to one switch and what it knows of
// the switch's ports.
type session struct {
	stream  *p4runtime.Stream
	primary bool
	stray   []*p4.Entity       // read back, to be deleted by the next repair
	monitor *linkstate.Monitor // nil where the run does not use gNMI
	ports   *gnmi.Subscription
}

// neverStale is longer than any run: sessions in one process do not die.
const neverStale = 1000 * fabric.Second

// probeShare is how many probes' time-outs there are in a retransmission timer:
// round trips are short against both.
const probeShare = 10

// maxHistory is how many updates are kept for agents: none of them resumes.
const maxHistory = 1

func newController(w *world, plane int) (*controllerProcess, error) {
	f, err := w.f.Plane(plane)
	if err != nil {
		return nil, err
	}
	c := &controllerProcess{w: w, plane: plane, f: f, shares: w.spec.SharesSuspicion(w.run.Scheme.Params)}
	return c, c.begin(0)
}

// begin begins a life of the controller, with a core that knows nothing.
func (c *controllerProcess) begin(now fabric.Time) error {
	tables, err := c.w.controllerConfig(c.f)
	if err != nil {
		return err
	}
	if c.life > 0 {
		tables.Instance += "-" + strconv.Itoa(c.life)
	}
	cfg := c.w.run.Scenario.Control.Rollout()
	cfg.Core = tables
	mute := c.life == 0 || !c.w.run.Notifier.GNMI() // before anything can fail there is nothing to be heard
	cfg.Mute = func(fabric.NodeID) bool { return mute }
	if c.shares {
		cfg.Suspicion = &suspicion.Config{ProbeTimeout: max(1, c.w.run.Scenario.Host.RTO/probeShare)}
	}
	c.tick, c.hearing, c.agents = 0, false, nil
	c.sessions = make([]session, c.f.Switches())
	c.core, err = rollout.New(now, cfg)
	return err
}

// takeOver becomes primary at every switch, pushes the pipeline, writes the
// tables and, where the run uses gNMI, subscribes to the ports. It all happens
// before time 0: a fabric is programmed before anyone uses it.
func (c *controllerProcess) takeOver() error {
	if err := c.connectAll(); err != nil {
		return err
	}
	for _, n := range c.switches() {
		if err := c.push(n); err != nil {
			return fmt.Errorf("%s: pipeline: %w", n.name(), err)
		}
		c.core.TablesRead(0, c.known(n), nil, 0)
	}
	ready := c.core.Ready(0)
	if err := c.startAgents(ready.Start); err != nil {
		return err
	}
	for _, w := range ready.Writes {
		batches, err := c.requests(w)
		if err != nil {
			return err
		}
		for _, b := range batches {
			if err := c.node(w.Node).core.Write(b.Request); err != nil {
				return fmt.Errorf("%s: write: %w", c.node(w.Node).name(), err)
			}
		}
		c.core.Written(0, w.ID, rollout.Acknowledged)
	}
	return nil
}

func (c *controllerProcess) connectAll() error {
	for _, n := range c.switches() {
		if err := c.connect(c.session(c.known(n)), n); err != nil {
			return fmt.Errorf("%s: %w", n.name(), err)
		}
	}
	return nil
}

func (c *controllerProcess) session(id fabric.NodeID) *session {
	return &c.sessions[int(id)-c.f.Hosts()]
}

// switches returns those of the plane.
func (c *controllerProcess) switches() (nodes []*node) {
	for i := range c.f.Switches() {
		nodes = append(nodes, c.node(fabric.NodeID(c.f.Hosts()+i)))
	}
	return nodes
}

// node returns a switch as the core numbers them, known its number there.
func (c *controllerProcess) node(id fabric.NodeID) *node {
	return c.w.node(c.w.f.PlaneNode(c.plane, id))
}
func (c *controllerProcess) known(n *node) fabric.NodeID { return c.w.f.InOwnPlane(n.id) }
func (c *controllerProcess) linkName(id fabric.LinkID) string {
	return c.w.f.LinkName(c.w.f.PlaneLink(c.plane, id))
}

func (c *controllerProcess) connect(s *session, n *node) error {
	s.stream = n.core.OpenStream(func(m *p4.StreamMessageResponse) error {
		if a := m.GetArbitration(); a != nil {
			s.primary = a.GetStatus().GetCode() == 0
		}
		return nil
	})
	err := s.stream.Recv(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{
		Arbitration: &p4.MasterArbitrationUpdate{DeviceId: deviceID(n.id), ElectionId: c.electionID()},
	}})
	if err != nil {
		return fmt.Errorf("arbitration: %w", err)
	}
	if !s.primary {
		return fmt.Errorf("arbitration: the switch did not make the controller primary")
	}
	c.core.Session(c.w.net.Now(), c.known(n), rollout.Open)
	if !c.w.run.Notifier.GNMI() {
		return nil
	}
	return c.subscribe(s, n)
}

// electionID is the controller's; a later life outbids an earlier one.
func (c *controllerProcess) electionID() *p4.Uint128 { return &p4.Uint128{Low: uint64(c.life) + 1} }

// push installs the pipeline.
func (c *controllerProcess) push(n *node) error {
	_, err := n.core.SetForwardingPipelineConfig(&p4.SetForwardingPipelineConfigRequest{
		DeviceId: deviceID(n.id), ElectionId: c.electionID(),
		Action: p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4.ForwardingPipelineConfig{
			P4Info: p4src.V1ModelP4Info(), P4DeviceConfig: p4src.V1ModelJSON(),
		},
	})
	return err
}

// subscribe asks a switch for the states of its ports.
func (c *controllerProcess) subscribe(s *session, n *node) (err error) {
	if s.monitor, err = linkstate.NewMonitor(neverStale, nil); err != nil {
		return err
	}
	s.monitor.Connected(c.w.net.Now())
	request, err := linkstate.Subscription{}.Request()
	if err != nil {
		return err
	}
	s.ports, err = n.gnmi.Subscribe(request, func(m *gnmipb.SubscribeResponse) bool {
		m = proto.CloneOf(m)
		c.hearAt(c.w.net.Now()+c.w.run.Scenario.Control.GNMIDelay, func(now fabric.Time) error {
			return c.hear(now, c.known(n), m)
		})
		return true
	})
	return err
}

// at runs f at a time, if this life of the controller lasts till then.
func (c *controllerProcess) at(t fabric.Time, f func(now fabric.Time) error) {
	life := c.life
	c.w.net.At(t, func(now fabric.Time) {
		if !c.alive(life) {
			return
		}
		if err := f(now); err != nil {
			c.w.fail(err)
		}
	})
}

// hearAt is at for what the core is told something by: it acts on it.
func (c *controllerProcess) hearAt(t fabric.Time, f func(now fabric.Time) error) {
	c.at(t, func(now fabric.Time) error {
		c.heard(now)
		return f(now)
	})
}

// alive reports whether a life of the controller goes on.
func (c *controllerProcess) alive(life int) bool { return !c.down && c.life == life }

// heard has the core act once all that arrives at this time has been told it: a
// controller takes what waits for it all at once.
func (c *controllerProcess) heard(now fabric.Time) {
	if c.hearing {
		return
	}
	c.hearing = true
	c.at(now, func(now fabric.Time) error {
		c.hearing = false
		return c.carryOut(now, c.w.run.Scenario.Control.ComputeDelay, c.core.Ready(now))
	})
}

// hear takes a gNMI message.
func (c *controllerProcess) hear(now fabric.Time, id fabric.NodeID, m *gnmipb.SubscribeResponse) error {
	monitor := c.session(id).monitor
	kind, fresh := "gnmi", monitor.Health() == linkstate.Fresh
	if !fresh {
		kind = "sync" // the states that a subscription begins with
	}
	changes, err := monitor.Receive(now, m)
	if err != nil {
		return fmt.Errorf("gNMI from %s: %w", c.node(id).name(), err)
	}
	for _, ch := range changes {
		c.core.PortState(now, id, ch.Port, ch.Up)
	}
	if !fresh && monitor.Health() == linkstate.Fresh {
		c.core.PortsKnown(now, id, true)
	}
	c.w.told(now, kind, c.node(id).name(), changeText(changes))
	return nil
}

// changeText says what a notification told.
func changeText(changes []linkstate.Change) string {
	var parts []string
	for _, ch := range changes {
		parts = append(parts, fmt.Sprintf("port %d %s", ch.Port, upDown(ch.Up)))
	}
	return strings.Join(parts, ", ")
}

// carryOut does what the core wants done, after the time it took to find out.
func (c *controllerProcess) carryOut(now, compute fabric.Time, r rollout.Ready) error {
	c.w.obs.ControllerLog.Ready(c.f, wall(now), r)
	for _, e := range r.Events {
		c.happened(now, e)
	}
	if err := c.startAgents(r.Start); err != nil {
		return err
	}
	told := now + compute + c.w.run.Scenario.Control.PushDelay
	if r.Start != nil {
		c.at(told, func(now fabric.Time) error { return c.tellAgents(now, r.Start) })
	}
	for _, u := range r.Notices {
		if err := c.agents.Publish(u); err != nil {
			return err
		}
		c.at(told, func(now fabric.Time) error { return c.tellAgents(now, u) })
	}
	for _, w := range r.Writes {
		batches, err := c.requests(w)
		if err != nil {
			return err
		}
		c.at(now+compute, func(now fabric.Time) error { return c.sendBatches(now, w, batches, true) })
	}
	for _, id := range r.Reads {
		c.readTables(now+compute, id)
	}
	for _, p := range r.Probes {
		c.at(now+c.w.run.Scenario.Control.PushDelay, func(now fabric.Time) error {
			c.w.hosts[p.Host].probe(now, p)
			return nil
		})
	}
	c.schedule(now)
	return nil
}

// wall is the controller's wall clock: it starts with the run.
func wall(now fabric.Time) time.Time { return time.Unix(0, int64(now/fabric.Nanosecond)).UTC() }

// schedule has the core's tick called when it is due.
func (c *controllerProcess) schedule(now fabric.Time) {
	at, ok := c.core.Deadline()
	if !ok || c.tick > 0 && c.tick <= at {
		return
	}
	at = max(at, now+1)
	c.tick = at
	c.at(at, func(now fabric.Time) error {
		if c.tick == at {
			c.tick = 0
			c.core.Tick(now)
			c.heard(now)
		}
		return nil
	})
}

// happened puts what the core decided on the timeline.
func (c *controllerProcess) happened(now fabric.Time, e rollout.Event) {
	switch e.Kind {
	case rollout.LinkChanged:
		if e.Node != rollout.NoNode {
			c.w.note(now, report.KindGNMI, c.node(e.Node).name(), "the controller hears of a port")
		}
	case rollout.Changed:
		c.w.note(now, report.KindWrite, "controller", "a change's table writes are acknowledged")
	case rollout.Suspected:
		text := "a link is suspected"
		switch {
		case e.Up:
			text = "a suspicion is dropped"
		case e.Confirmed:
			text = "a suspicion is confirmed by lost probes"
		}
		c.w.note(now, report.KindSuspect, c.linkName(e.Link), text)
	}
}

// startAgents begins the account of what agents are told.
func (c *controllerProcess) startAgents(snapshot *statepb.Update) (err error) {
	if snapshot != nil {
		c.agents, err = notify.NewHub(snapshot, maxHistory)
	}
	return err
}

// tellAgents hands an update to every agent.
func (c *controllerProcess) tellAgents(now fabric.Time, u *statepb.Update) error {
	c.w.note(now, report.KindPush, "agents", "link states pushed")
	u = c.inFabric(u)
	for _, h := range c.w.hosts {
		c.w.obs.Recorder.Told(now, h.id)
		h.core.Update(now, u)
		c.w.obs.Recorder.Answered(h.id)
	}
	return nil
}

// inFabric returns an update by the numbers that links have in the whole fabric, which agents know.
func (c *controllerProcess) inFabric(u *statepb.Update) *statepb.Update {
	if c.w.f.Planes() == 1 {
		return u
	}
	u = proto.CloneOf(u)
	for _, l := range u.GetLinks() {
		l.Link = uint32(c.w.f.PlaneLink(c.plane, fabric.LinkID(l.GetLink())))
	}
	return u
}

// requests returns the P4Runtime requests of a write.
func (c *controllerProcess) requests(w rollout.Write) ([]p4rt.Batch, error) {
	writer := p4rt.Writer{DeviceID: deviceID(c.node(w.Node).id), ElectionID: c.electionID()}
	s := c.session(w.Node)
	var batches []p4rt.Batch
	if w.Repair && len(s.stray) > 0 {
		batches = append(batches, p4rt.Batch{Request: p4rt.DeleteRequest(writer, s.stray)})
		s.stray = nil
	}
	more, err := c.w.lab.schema.WriteRequests(writer, w.Updates)
	return append(batches, more...), err
}

// sendBatches sends one request after the other, each when the one before is
// answered, and tells the core of the last answer. A switch takes no requests of a
// controller that has ended.
func (c *controllerProcess) sendBatches(now fabric.Time, w rollout.Write, batches []p4rt.Batch, first bool) error {
	if len(batches) == 0 {
		c.core.Written(now, w.ID, rollout.Acknowledged)
		r := c.core.Ready(now)
		compute := fabric.Time(0) // a change's stages were computed when it began
		if next := func(e rollout.Event) bool { return e.Kind == rollout.Changed }; len(r.Writes) > 0 && slices.ContainsFunc(r.Events, next) {
			compute = c.w.run.Scenario.Control.ComputeDelay // and the one that waited for it is now
		}
		return c.carryOut(now, compute, r)
	}
	delay := c.w.run.Scenario.Control.WriteDelay
	c.at(now+delay, func(now fabric.Time) error {
		if first { // a write is one, however many requests it takes
			c.w.told(now, "write", c.node(w.Node).name(), fmt.Sprintf("%d updates", len(w.Updates)))
		}
		if err := c.node(w.Node).core.Write(batches[0].Request); err != nil {
			return fmt.Errorf("%s: write: %w", c.node(w.Node).name(), err)
		}
		c.at(now+delay, func(now fabric.Time) error { return c.sendBatches(now, w, batches[1:], false) })
		return nil
	})
	return nil
}

// readTables reads a switch's tables, a write's delay each way.
func (c *controllerProcess) readTables(now fabric.Time, id fabric.NodeID) {
	c.hearAt(now+2*c.w.run.Scenario.Control.WriteDelay, func(now fabric.Time) error {
		entities, err := c.read(c.node(id), c.w.lab.schema.ReadAll(deviceID(c.node(id).id), "").GetEntities()...)
		if err != nil {
			return err
		}
		tables := p4rt.Collect(c.w.lab.schema, entities)
		c.session(id).stray = tables.Stray
		c.core.TablesRead(now, id, tables.Entries, len(tables.Stray))
		return nil
	})
}

// read asks a switch for entities over P4Runtime.
func (c *controllerProcess) read(n *node, entities ...*p4.Entity) ([]*p4.Entity, error) {
	var got []*p4.Entity
	err := n.core.Read(&p4.ReadRequest{DeviceId: deviceID(n.id), Entities: entities}, func(r *p4.ReadResponse) error {
		got = append(got, r.GetEntities()...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: read: %w", n.name(), err)
	}
	return got, nil
}
