package virtual

import (
	"fmt"
	"strings"

	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/gnmi"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/controlplane"
)

// controllerSessions is a plane's controller with its sessions to the switches. The messages are the same as on a
// network; only their transport is modelled.
type controllerSessions struct {
	*controlplane.Process
	w        *world
	plane    int            // of the fabric
	f        *fabric.Fabric // the plane, with the core's numbers
	sessions []session      // by NodeID - Hosts
}

var _ controlplane.World = (*controllerSessions)(nil)

// session is the controller's P4Runtime stream to one switch and its state of the switch's ports.
type session struct {
	stream  *p4runtime.Stream
	primary bool
	stray   []*p4.Entity       // found when read back; the next repair deletes them
	monitor *linkstate.Monitor // nil if the run does not use gNMI
	ports   *gnmi.Subscription
}

// neverStale is longer than any run: sessions in one process do not break.
const neverStale = 1000 * fabric.Second

// probeShare is the number of probe time-outs in a retransmission timer: round trips are short compared with both.
const probeShare = 10

func newController(w *world, plane int) (*controllerSessions, error) {
	f, err := w.f.Plane(plane)
	if err != nil {
		return nil, err
	}
	tables, err := w.controllerConfig(f)
	if err != nil {
		return nil, err
	}
	cfg := controlplane.Config{
		Fabric: w.f, Plane: plane, Tables: tables, Control: w.repairDelays(), GNMI: w.repairsTables(),
		Log: w.lab.log,
	}
	if w.spec.SharesSuspicion(w.run.Scheme.Params) {
		cfg.Suspicion = &suspicion.Config{ProbeTimeout: max(1, w.run.Scenario.Host.RTO/probeShare)}
	}
	c := &controllerSessions{w: w, plane: plane, f: f, sessions: make([]session, f.Switches())}
	c.Process, err = controlplane.New(c, cfg)
	return c, err
}

// repairsTables reports whether tables are repaired when switches notice dead ports: by a notified controller, or by a
// routing protocol.
func (w *world) repairsTables() bool {
	_, routed := w.run.Routing()
	return routed || w.run.Notifier.GNMI()
}

// reportedDead reports whether the controller of a fabric with one plane, or the routing protocol, knows that a link is
// dead.
func (w *world) reportedDead(id fabric.LinkID) bool {
	return w.repairsTables() && len(w.controllers) == 1 && !w.controllers[0].Core().Tables().LinkUp(id)
}

// repairDelays returns the delays of the repair. For a routing protocol, one time covers the routers' exchange and
// computation, from a switch's notice until all tables are written; the tables are the controller's.
func (w *world) repairDelays() scenario.Control {
	c := w.run.Scenario.Control
	if after, routed := w.run.Routing(); routed {
		c.GNMIDelay, c.ComputeDelay, c.WriteDelay = after, 0, 0
	}
	return c
}

// takeOver connects to every switch and writes its tables. Links that are dead before time 0 are known by then.
func (c *controllerSessions) takeOver() error {
	c.w.reportDeadLinks(c)
	return c.TakeOver(func(w rollout.Write) error {
		requests, err := c.requests(w) // before the run: nobody is notified
		for i := 0; err == nil && i < len(requests); i++ {
			err = requests[i](0)
		}
		return err
	})
}

func (c *controllerSessions) session(id fabric.NodeID) *session {
	return &c.sessions[int(id)-c.f.Hosts()]
}

// node returns a switch by the core's number.
func (c *controllerSessions) node(id fabric.NodeID) *node {
	return c.w.node(c.w.f.PlaneNode(c.plane, id))
}

func (c *controllerSessions) known(n *node) fabric.NodeID { return c.w.f.InOwnPlane(n.id) }

// At runs f at a time in the run, for [controlplane.World].
func (c *controllerSessions) At(t fabric.Time, f func(now fabric.Time)) { c.w.net.At(t, f) }

// Fail ends the run because of a violated contract, for [controlplane.World].
func (c *controllerSessions) Fail(err error) { c.w.fail(err) }

// Connect opens a session with a switch, for [controlplane.World]. It becomes primary, pushes the pipeline if no
// earlier controller has, and subscribes to the ports if the run uses gNMI.
func (c *controllerSessions) Connect(id fabric.NodeID) error {
	s, n := c.session(id), c.node(id)
	*s = session{}
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
		return fmt.Errorf("%s: arbitration: %w", n.name(), err)
	}
	if !s.primary {
		return fmt.Errorf("%s: arbitration: the switch did not make the controller primary", n.name())
	}
	if c.Restarts() == 0 {
		if err := c.push(n); err != nil {
			return fmt.Errorf("%s: pipeline: %w", n.name(), err)
		}
	}
	if !c.w.repairsTables() {
		return nil
	}
	if err := c.subscribe(s, n); err != nil {
		return fmt.Errorf("%s: %w", n.name(), err)
	}
	return nil
}

// electionID returns the controller's P4Runtime election id, which each restart increases.
func (c *controllerSessions) electionID() *p4.Uint128 {
	return &p4.Uint128{Low: uint64(c.Restarts()) + 1}
}

// Disconnect ends all sessions with switches, for [controlplane.World].
func (c *controllerSessions) Disconnect() {
	for i := range c.sessions {
		s := &c.sessions[i]
		s.stream.Close()
		if s.ports != nil {
			s.ports.Close()
		}
	}
}

// push installs the pipeline.
func (c *controllerSessions) push(n *node) error {
	_, err := n.core.SetForwardingPipelineConfig(&p4.SetForwardingPipelineConfigRequest{
		DeviceId: deviceID(n.id), ElectionId: c.electionID(),
		Action: p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4.ForwardingPipelineConfig{
			P4Info: p4src.V1ModelP4Info(), P4DeviceConfig: p4src.V1ModelJSON(),
		},
	})
	return err
}

// subscribe requests the states of a switch's ports.
func (c *controllerSessions) subscribe(s *session, n *node) (err error) {
	if s.monitor, err = linkstate.NewMonitor(neverStale, nil); err != nil {
		return err
	}
	s.monitor.Connected(c.w.net.Now())
	request, err := linkstate.Subscription{Speeds: c.w.reportsSpeeds()}.Request()
	if err != nil {
		return err
	}
	before := c.Restarts() == 0 && c.w.reportsSpeeds() // before the run: planned rates are known
	s.ports, err = n.gnmi.Subscribe(request, func(m *gnmipb.SubscribeResponse) bool {
		m = proto.CloneOf(m)
		if before && m.GetUpdate() != nil {
			events, err := linkstate.Decode(m.GetUpdate(), nil)
			if err != nil {
				c.w.fail(fmt.Errorf("gNMI from %s: %w", n.name(), err))
			}
			for _, e := range events {
				if e.Kind == linkstate.Speed {
					c.Core().PortRate(c.known(n), e.Port, e.Rate)
				}
			}
		}
		c.ReceiveAt(c.w.net.Now()+c.w.repairDelays().GNMIDelay, func(now fabric.Time, core *rollout.Core) error {
			return c.receive(now, core, c.known(n), m)
		})
		return true
	})
	before = false
	return err
}

// receive processes a gNMI message.
func (c *controllerSessions) receive(now fabric.Time, core *rollout.Core, id fabric.NodeID, m *gnmipb.SubscribeResponse) error {
	monitor := c.session(id).monitor
	kind, fresh := report.KindGNMI, monitor.Health() == linkstate.Fresh
	if !fresh {
		kind = "sync" // the initial states of a subscription
	}
	changes, err := monitor.Receive(now, m)
	if err != nil {
		return fmt.Errorf("gNMI from %s: %w", c.node(id).name(), err)
	}
	for _, ch := range changes {
		if ch.Speed {
			core.PortRate(id, ch.Port, ch.Rate)
		} else {
			core.PortState(now, id, ch.Port, ch.Up)
		}
	}
	if !fresh && monitor.Health() == linkstate.Fresh {
		core.PortsKnown(now, id, true)
	}
	c.w.record(now, kind, c.node(id).name(), changeText(changes))
	return nil
}

// changeText describes a notification.
func changeText(changes []linkstate.Change) string {
	var parts []string
	for _, ch := range changes {
		if ch.Speed {
			parts = append(parts, fmt.Sprintf("port %d %s", ch.Port, fabric.SpeedName(ch.Rate)))
		} else {
			parts = append(parts, fmt.Sprintf("port %d %s", ch.Port, upDown(ch.Up)))
		}
	}
	return strings.Join(parts, ", ")
}

// Note adds an event to the timeline, for [controlplane.World].
func (c *controllerSessions) Note(now fabric.Time, kind report.Kind, where, text string) {
	c.w.note(now, kind, where, text)
}

// Update sends the controller's update of link states to every agent, for [controlplane.World].
func (c *controllerSessions) Update(now fabric.Time, u *statepb.Update) {
	for _, h := range c.w.hosts {
		c.w.obs.Recorder.Notified(now, h.id)
		h.core.Update(now, u)
		c.w.obs.Recorder.ReactionEnded(h.id)
	}
}

// Probe makes an agent probe a path, for [controlplane.World].
func (c *controllerSessions) Probe(now fabric.Time, p suspicion.Probe) {
	c.w.hosts[p.Host].probe(now, p)
}

// Requests returns the P4Runtime requests of a table write, for [controlplane.World]. A write is recorded once,
// however many requests it has.
func (c *controllerSessions) Requests(w rollout.Write) ([]controlplane.Request, error) {
	requests, err := c.requests(w)
	if len(requests) > 0 {
		first := requests[0]
		requests[0] = func(now fabric.Time) error {
			c.w.record(now, "write", c.node(w.Node).name(), fmt.Sprintf("%d updates", len(w.Updates)))
			return first(now)
		}
	}
	return requests, err
}

func (c *controllerSessions) requests(w rollout.Write) ([]controlplane.Request, error) {
	n, s := c.node(w.Node), c.session(w.Node)
	writer := p4rt.Writer{DeviceID: deviceID(n.id), ElectionID: c.electionID()}
	var batches []p4rt.Batch
	if w.Repair && len(s.stray) > 0 {
		batches = append(batches, p4rt.Batch{Request: p4rt.DeleteRequest(writer, s.stray)})
		s.stray = nil
	}
	more, err := c.w.lab.schema.WriteRequests(writer, w.Updates)
	var requests []controlplane.Request
	for _, b := range append(batches, more...) {
		requests = append(requests, func(fabric.Time) error {
			if err := n.core.Write(b.Request); err != nil {
				return fmt.Errorf("%s: write: %w", n.name(), err)
			}
			return nil
		})
	}
	return requests, err
}

// Read returns a switch's tables, and the number of stray entities, for [controlplane.World].
func (c *controllerSessions) Read(id fabric.NodeID) ([]controller.Entry, int, error) {
	n := c.node(id)
	entities, err := c.read(n, c.w.lab.schema.ReadAll(deviceID(n.id)).GetEntities()...)
	if err != nil {
		return nil, 0, err
	}
	tables := p4rt.Collect(c.w.lab.schema, entities)
	c.session(id).stray = tables.Stray
	return tables.Entries, len(tables.Stray), nil
}

// read reads entities of a switch over P4Runtime.
func (c *controllerSessions) read(n *node, entities ...*p4.Entity) ([]*p4.Entity, error) {
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
