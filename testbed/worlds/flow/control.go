package flow

import (
	"fmt"
	"strconv"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/host"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/controlplane"
)

// planeControl is a plane's controller, whose switches are tables.
type planeControl struct {
	*controlplane.Process
	w *world
}

var _ controlplane.World = (*planeControl)(nil)

// startControl starts the controllers of a run with events; the switches have their tables already.
func (w *world) startControl() error {
	if _, err := w.f.Plane(0); err != nil && w.model == balance.Labelled { // too large for tables, which labels do not need
		return w.startController(0, w.f)
	}
	for q := range w.f.Planes() {
		plane, err := w.f.Plane(q)
		if err != nil {
			return err
		}
		if err := w.startController(q, plane); err != nil {
			return err
		}
	}
	return nil
}

// startController starts a plane's controller, or, if plane is the whole fabric, that of all planes.
func (w *world) startController(q int, plane *fabric.Fabric) (err error) {
	c := &planeControl{w: w}
	cfg := controlplane.Config{
		Fabric: w.f, Plane: q, Control: w.run.Scenario.Control, GNMI: w.run.Notifier.GNMI(),
		Tables: controller.Config{
			Fabric: plane, Instance: "flow-" + strconv.FormatUint(w.run.Seed, 10), LinksOnly: plane.Planes() > 1,
		},
	}
	cfg.Tables.CarrierV4, cfg.Tables.CarrierV6 = w.run.Scenario.Host.Carrier.Tables()
	if w.suspects {
		cfg.Suspicion = &suspicion.Config{ProbeTimeout: max(1, w.run.Scenario.Host.RTO/probeShare)}
	}
	if c.Process, err = controlplane.New(c, cfg); err != nil {
		return err
	}
	w.planes = append(w.planes, c)
	return c.Adopt()
}

// controllerOf returns the controller of a plane, and inOwn a switch's number there.
func (w *world) controllerOf(plane int) *planeControl { return w.planes[min(plane, len(w.planes)-1)] }

func (w *world) inOwn(id fabric.NodeID) fabric.NodeID {
	if len(w.planes) == 1 {
		return id
	}
	return w.f.InOwnPlane(id)
}

// probeShare is the number of probe time-outs in a retransmission timer, as in the virtual world.
const probeShare = 10

// At implements [controlplane.World].
func (c *planeControl) At(t fabric.Time, f func(now fabric.Time)) { c.w.call(t, f) }

// Connect implements [controlplane.World]. A controller that starts later than the run learns which ports are down.
func (c *planeControl) Connect(id fabric.NodeID) error {
	if c.Process == nil || c.Life() == 0 || !c.w.run.Notifier.GNMI() {
		return nil
	}
	s := c.w.aSwitch(c.Node(id))
	ports := c.w.f.Node(c.Node(id)).Ports()
	down := make([]bool, ports)
	for p := range ports {
		up, noticed := s.oper[fabric.PortNo(p+1)]
		down[p] = noticed && !up
	}
	c.ReceiveAt(c.w.clock+c.w.run.Scenario.Control.GNMIDelay, func(now fabric.Time, core *rollout.Core) error {
		for p := range ports {
			core.PortState(now, id, fabric.PortNo(p+1), !down[p])
		}
		core.PortsKnown(now, id, true)
		return nil
	})
	return nil
}

// Disconnect implements [controlplane.World].
func (c *planeControl) Disconnect() {}

// Requests implements [controlplane.World].
func (c *planeControl) Requests(w rollout.Write) (requests []controlplane.Request, _ error) {
	id := c.Node(w.Node)
	for _, us := range controller.Phases(w.Updates) {
		requests = append(requests, func(fabric.Time) error {
			c.w.aSwitch(id).write(us)
			c.w.changed(id)
			return nil
		})
	}
	return requests, nil
}

// Read implements [controlplane.World]: a switch has the written entries.
func (c *planeControl) Read(id fabric.NodeID) ([]controller.Entry, int, error) {
	return c.Core().Tables().Written(id), 0, nil
}

// Update implements [controlplane.World].
func (c *planeControl) Update(now fabric.Time, u *statepb.Update) {
	c.w.notifyAgents(now, func(now fabric.Time, h *fluidHost) { h.core.Update(now, u) })
}

// Probe implements [controlplane.World].
func (c *planeControl) Probe(now fabric.Time, p suspicion.Probe) {
	h, err := c.w.host(p.Host)
	if err != nil {
		c.w.fail(err)
		return
	}
	h.core.Probe(now, host.ProbeRequest{ID: p.ID, Dst: p.Dst, Label: p.Label, Packets: p.Packets, Timeout: p.Timeout})
}

// Note implements [controlplane.World].
func (c *planeControl) Note(now fabric.Time, kind report.Kind, where, text string) {
	c.w.timeline = append(c.w.timeline, report.Event{Time: now.Micros(), Kind: kind, Where: where, Text: text})
}

// Fail implements [controlplane.World].
func (c *planeControl) Fail(err error) { c.w.fail(err) }

func (w *world) aSwitch(id fabric.NodeID) *aSwitch { return &w.switches[int(id)-w.f.Hosts()] }

// notice is an update that agents received.
type notice struct {
	at   fabric.Time
	give func(now fabric.Time, h *fluidHost)
}

// notifyAgents notifies all agents. Agents of hosts that have not sent yet are notified when they are made.
func (w *world) notifyAgents(now fabric.Time, give func(fabric.Time, *fluidHost)) {
	w.notices = append(w.notices, notice{now, give})
	for _, h := range w.hosts {
		if h != nil {
			give(now, h)
		}
	}
}

// detect makes the switches at both ends of a link notice its event. With time-outs as the only notifier, switches
// notice nothing.
func (w *world) detect(now fabric.Time, e scenario.LinkEvent) {
	if e.Silent || w.run.Notifier == scenario.NotifyTimeout || w.cut[directions(e)[0]] == e.Up {
		return
	}
	l := w.f.Link(e.Link)
	for _, end := range []fabric.End{l.A, l.B} {
		if int(end.Node) >= w.f.Hosts() {
			w.portChanged(now, end, e.Up)
		}
	}
}

// directions returns the directions of its link that an event concerns. Links lead up from A.
func directions(e scenario.LinkEvent) []int32 {
	up, down := int32(2*e.Link), int32(2*e.Link)+1
	switch e.Direction {
	case scenario.UpWay:
		return []int32{up}
	case scenario.DownWay:
		return []int32{down}
	}
	return []int32{up, down}
}

// portChanged makes a switch notice a change of its port: its gNMI server notifies the controller, and its data
// plane the hosts.
func (w *world) portChanged(now fabric.Time, end fabric.End, up bool) {
	s := w.aSwitch(end.Node)
	if was, noticed := s.oper[end.Port]; noticed && was == up || !noticed && up {
		return
	}
	if s.oper == nil {
		s.oper, s.dead, s.epochs = map[fabric.PortNo]bool{}, map[fabric.PortNo]bool{}, map[fabric.PortNo]uint32{}
	}
	s.oper[end.Port] = up
	if w.run.Notifier.GNMI() {
		c, id := w.controllerOf(w.f.Node(end.Node).Plane), w.inOwn(end.Node)
		c.ReceiveAt(now+w.run.Scenario.Control.GNMIDelay, func(now fabric.Time, core *rollout.Core) error {
			core.PortState(now, id, end.Port, up)
			return nil
		})
	}
	if !w.run.Notifier.Quench() {
		return
	}
	s.epochs[end.Port]++
	delete(s.dead, end.Port)
	if !up {
		s.dead[end.Port] = true
		w.notice(now, end, s.epochs[end.Port])
	}
	w.changed(end.Node)
}

// notice delivers a switch's notice of a dead port to the hosts: below the switch if the port is an uplink,
// otherwise behind all its other ports.
func (w *world) notice(now fabric.Time, end fabric.End, epoch uint32) {
	q := hostagent.Quench{Notice: true, Switch: end.Node, Port: end.Port, Epoch: epoch}
	n := w.f.Node(end.Node)
	uplink := n.Uplinks() > 0 && end.Port >= n.FirstUplink()
	for distance := 1; distance <= maxDistance; distance++ {
		w.call(now+w.noticeDelay(n, distance), func(now fabric.Time) {
			w.notifyAgents(now, func(now fabric.Time, h *fluidHost) {
				if w.distance(n, h.id, uplink) == distance {
					h.core.Quench(now, q)
				}
			})
		})
	}
}

// maxDistance is the largest number of links that a notice crosses: up to a core, and down to a host.
const maxDistance = 5

// distance returns the number of links that a notice crosses to a host; 0: the host gets none.
func (w *world) distance(n *fabric.Node, h fabric.NodeID, uplink bool) int {
	t := w.f.Node(w.f.ToROf(h))
	tors := w.f.Node(w.f.InPlane(t.ID, n.Plane))
	switch n.Tier {
	case fabric.ToR:
		switch {
		case tors.ID == n.ID:
			return 1
		case uplink:
			return 0
		case w.f.ThreeTier() && t.Pod != n.Pod:
			return 5
		}
		return 3
	case fabric.Aggregation:
		switch {
		case t.Pod == n.Pod:
			return 2
		case uplink:
			return 0
		}
		return 4
	}
	if w.f.ThreeTier() {
		return 3
	}
	return 2
}

// noticeDelay returns a notice's delay: the links' delays, plus half a data packet's wait at each.
func (w *world) noticeDelay(n *fabric.Node, distance int) (t fabric.Time) {
	s := w.f.Spec()
	links := []fabric.LinkSpec{s.HostLink, s.ToRUplink, s.ToRUplink, s.ToRUplink, s.ToRUplink}
	if w.f.ThreeTier() {
		links[2], links[3] = s.AggUplink, s.AggUplink
	}
	packet := int64(w.run.Scenario.Host.Payload) + w.header
	for _, l := range links[:distance] {
		t += l.Delay + l.Rate.TimeFor(noticeBytes) + l.Rate.TimeFor(packet)/2
	}
	return t
}

// noticeBytes is the length of a notice on the wire.
const noticeBytes = 66 + 24

// intervene carries out the run's events other than failures of links.
func (w *world) intervene(now fabric.Time, i scenario.Intervention) error {
	switch i.Do {
	case scenario.ControllerDown:
		for _, c := range w.planes {
			c.Die(now)
		}
	case scenario.ControllerUp:
		for _, c := range w.planes {
			if err := c.Restart(now); err != nil {
				return fmt.Errorf("controller: %w", err)
			}
		}
	case scenario.AgentDown, scenario.AgentUp:
		h, err := w.host(i.Node)
		if err != nil {
			return err
		}
		if i.Do == scenario.AgentDown {
			h.core.Leave(now)
		} else {
			h.core.Return(now, w.snapshot())
		}
	case scenario.Drain, scenario.Undrain:
		q, link := w.f.LinkInPlane(i.Link)
		_, err := w.controllerOf(q).Drain(now, link, i.Do == scenario.Drain)
		return err
	}
	return nil
}

// snapshot returns the snapshot for an agent that connects; nil: none.
func (w *world) snapshot() (all *statepb.Update) {
	for _, c := range w.planes {
		all = controlplane.Join(all, c.Snapshot())
	}
	return all
}
