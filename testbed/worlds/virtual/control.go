package virtual

import (
	"fmt"
	"slices"

	"github.com/openconfig/gnmi/proto/gnmi"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/server"
	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// control is the controller with its sessions to the switches. Its messages are
// those of a controller on a network; only their way is modelled.
type control struct {
	w        *world
	core     *controller.Core
	doubts   *doubts   // nil: no shared suspicion
	sessions []session // by NodeID - Hosts

	// Changes that wait for the one being written: a change's deltas build on
	// the tables that the one before leaves.
	waiting []change
	writing bool

	// A controller that died is followed by one of the next life. What one life
	// scheduled, another does not do.
	life       int
	down       bool
	recovering int // switches whose ports a new life has yet to hear of
}

// change is what a change of the fabric asks for: writes, and what agents are
// told when the switches have them.
type change struct {
	deltas  []controller.SwitchDelta
	notices []*statepb.Update
}

// good reports whether a notice has good news of links alone. Agents that use a link again
// before the switches know its label would have their packets hashed.
func good(u *statepb.Update) bool {
	return len(u.GetLinks()) > 0 && !slices.ContainsFunc(u.GetLinks(), func(l *statepb.LinkState) bool { return !l.GetUp() })
}

// session is the controller's P4Runtime stream to one switch and what it knows of
// the switch's ports.
type session struct {
	stream  *server.Stream
	primary bool
	monitor *linkstate.Monitor // nil where the run does not use gNMI
	ports   *server.Subscription
}

// neverStale is longer than any run: sessions in one process do not die.
const neverStale = 1000 * fabric.Second

func newControl(w *world) (*control, error) {
	config, err := w.controllerConfig()
	if err != nil {
		return nil, err
	}
	core, err := controller.New(config)
	if err != nil {
		return nil, err
	}
	c := &control{w: w, core: core}
	return c, c.doubt()
}

// doubt begins an account of suspicions, where the run has agents share them.
func (c *control) doubt() (err error) {
	if c.w.spec.SharesSuspicion(c.w.run.Scheme.Params) {
		c.doubts, err = newDoubts(c)
	}
	return err
}

// takeOver becomes primary at every switch, pushes the pipeline, writes the
// tables and, where the run uses gNMI, subscribes to the ports. It all happens
// before time 0: a fabric is programmed before anyone uses it.
func (c *control) takeOver() error {
	c.sessions = make([]session, len(c.w.switches))
	for i, n := range c.w.switches {
		if err := c.connect(&c.sessions[i], n); err != nil {
			return fmt.Errorf("%s: %w", c.w.f.Name(n.id), err)
		}
	}
	return nil
}

func (c *control) connect(s *session, n *node) error {
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
	if c.life == 0 {
		if err := c.program(n); err != nil {
			return err
		}
	}
	if !c.w.run.Notifier.GNMI() {
		return nil
	}
	return c.subscribe(s, n)
}

// electionID is the controller's; a later life outbids an earlier one.
func (c *control) electionID() *p4.Uint128 { return &p4.Uint128{Low: uint64(c.life) + 1} }

// program pushes the pipeline and writes all tables.
func (c *control) program(n *node) error {
	_, err := n.core.SetForwardingPipelineConfig(&p4.SetForwardingPipelineConfigRequest{
		DeviceId: deviceID(n.id), ElectionId: c.electionID(),
		Action: p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4.ForwardingPipelineConfig{
			P4Info: p4src.V1ModelP4Info(), P4DeviceConfig: p4src.V1ModelJSON(),
		},
	})
	if err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	batches, err := c.requests(n.id, controller.Diff(nil, c.core.Desired(n.id)))
	if err != nil {
		return err
	}
	for _, b := range batches {
		if err := n.core.Write(b.Request); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}

// subscribe asks a switch for the states of its ports.
func (c *control) subscribe(s *session, n *node) (err error) {
	if s.monitor, err = linkstate.NewMonitor(neverStale, nil); err != nil {
		return err
	}
	s.monitor.Connected(c.w.net.Now())
	request, err := linkstate.Subscription{}.Request()
	if err != nil {
		return err
	}
	life := c.life
	s.ports, err = n.gnmi.Subscribe(request, func(m *gnmi.SubscribeResponse) bool {
		m = proto.CloneOf(m)
		c.w.net.At(c.w.net.Now()+c.w.run.Scenario.Control.GNMIDelay, func(now fabric.Time) {
			if c.alive(life) {
				c.hear(now, n.id, m)
			}
		})
		return true
	})
	return err
}

func (c *control) requests(id fabric.NodeID, updates []controller.Update) ([]p4rt.Batch, error) {
	return c.w.lab.schema.WriteRequests(p4rt.Writer{DeviceID: deviceID(id), ElectionID: c.electionID()}, updates)
}

// hear takes a gNMI message, a notification delay after it was sent.
func (c *control) hear(now fabric.Time, id fabric.NodeID, m *gnmi.SubscribeResponse) {
	monitor := c.sessions[int(id)-c.w.f.Hosts()].monitor
	kind := "gnmi"
	if monitor.Health() != linkstate.Fresh {
		kind = "sync" // the states that a subscription begins with
	}
	changes, err := monitor.Receive(now, m)
	if err != nil {
		c.w.fail(fmt.Errorf("gNMI from %s: %w", c.w.f.Name(id), err))
		return
	}
	for _, ch := range changes {
		if err := c.core.PortState(now, id, ch.Port, ch.Up); err != nil {
			c.w.fail(fmt.Errorf("gNMI from %s: %w", c.w.f.Name(id), err))
			return
		}
	}
	if c.doubts != nil {
		for _, ch := range changes {
			if link, ok := c.w.f.LinkAt(id, ch.Port); ok {
				c.doubts.linkState(now, link, c.core.LinkUp(link))
			}
		}
	}
	c.w.told(now, kind, c.w.f.Name(id), changeText(changes))
	if c.recovering > 0 {
		c.recover(now)
		return
	}
	ready := c.core.Ready()
	if len(ready.Writes) == 0 && len(ready.Notices) == 0 {
		return
	}
	c.w.note(now, report.KindGNMI, c.w.f.Name(id), "the controller hears of a port")
	c.carryOut(now, ready)
}

// carryOut does what the core wants done, after the time it takes to find out.
func (c *control) carryOut(now fabric.Time, ready controller.Ready) {
	delays, life := c.w.run.Scenario.Control, c.life
	computed := now + delays.ComputeDelay
	next := change{deltas: ready.Writes}
	for _, notice := range ready.Notices {
		if good(notice) {
			next.notices = append(next.notices, notice)
			continue
		}
		c.pushAt(computed+delays.PushDelay, notice)
	}
	c.w.net.At(computed, func(now fabric.Time) {
		if c.alive(life) {
			c.write(now, next)
		}
	})
}

// pushAt hands a link update to every agent at a time, if this life lasts.
func (c *control) pushAt(at fabric.Time, u *statepb.Update) {
	life := c.life
	c.w.net.At(at, func(now fabric.Time) {
		if c.alive(life) {
			c.push(now, u)
		}
	})
}

// alive reports whether a life of the controller goes on.
func (c *control) alive(life int) bool { return !c.down && c.life == life }

// write writes a change's deltas once all earlier ones are written.
func (c *control) write(now fabric.Time, next change) {
	if c.writing {
		c.waiting = append(c.waiting, next)
		return
	}
	c.writing = true
	c.writeStages(now, next)
}

// push hands a link update to every agent.
func (c *control) push(now fabric.Time, u *statepb.Update) {
	c.w.note(now, report.KindPush, "agents", "link states pushed")
	for _, h := range c.w.hosts {
		h.core.Update(now, u)
	}
}

// writeStages writes the deltas of the first stage and goes on with the next
// when all of it is acknowledged.
func (c *control) writeStages(now fabric.Time, todo change) {
	deltas := todo.deltas
	if len(deltas) == 0 {
		c.w.note(now, report.KindWrite, "controller", "a change's table writes are acknowledged")
		for _, notice := range todo.notices {
			c.pushAt(now+c.w.run.Scenario.Control.PushDelay, notice)
		}
		if c.writing = len(c.waiting) > 0; c.writing {
			next := c.waiting[0]
			c.waiting = c.waiting[1:]
			c.writeStages(now, next)
		}
		return
	}
	stage := 1
	for stage < len(deltas) && deltas[stage].Stage == deltas[0].Stage {
		stage++
	}
	waiting := stage
	for _, d := range deltas[:stage] {
		batches, err := c.requests(d.Node, d.Updates)
		if err != nil {
			c.w.fail(err)
			return
		}
		c.writeBatches(now, d.Node, batches, func(now fabric.Time) {
			if waiting--; waiting == 0 {
				c.writeStages(now, change{deltas[stage:], todo.notices})
			}
		})
	}
}

// writeBatches sends one request after the other, each when the one before is
// answered, and calls then.
func (c *control) writeBatches(now fabric.Time, id fabric.NodeID, batches []p4rt.Batch, then func(fabric.Time)) {
	if len(batches) == 0 {
		then(now)
		return
	}
	delay, life := c.w.run.Scenario.Control.WriteDelay, c.life
	c.w.net.At(now+delay, func(now fabric.Time) {
		if !c.alive(life) {
			return // its connection ended with it, and the switch takes no writes of who is not primary
		}
		c.w.told(now, "write", c.w.f.Name(id), fmt.Sprintf("%d updates", len(batches[0].Request.GetUpdates())))
		if err := c.w.node(id).core.Write(batches[0].Request); err != nil {
			c.w.fail(fmt.Errorf("%s: write: %w", c.w.f.Name(id), err))
			return
		}
		c.w.net.At(now+delay, func(now fabric.Time) {
			if c.alive(life) {
				c.writeBatches(now, id, batches[1:], then)
			}
		})
	})
}

// read asks a switch for entities over P4Runtime.
func (c *control) read(n *node, entities ...*p4.Entity) ([]*p4.Entity, error) {
	var got []*p4.Entity
	err := n.core.Read(&p4.ReadRequest{DeviceId: deviceID(n.id), Entities: entities}, func(r *p4.ReadResponse) error {
		got = append(got, r.GetEntities()...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: read: %w", c.w.f.Name(n.id), err)
	}
	return got, nil
}
