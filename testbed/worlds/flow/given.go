package flow

import (
	"slices"
	"strconv"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// takeLinks puts the run's dead and slow links into effect: on rates, on the switches' tables, and on the
// updates with which agents start. [Check] has refused events of every other kind.
func (w *world) takeLinks() error {
	events := w.run.Events
	if w.given = len(events) > 0; !w.given {
		return nil
	}
	for _, e := range events {
		for _, d := range directions(e) {
			if e.Rate > 0 {
				w.slow[d] = e.Rate
			} else {
				w.cut[d] = true
			}
		}
	}
	if _, err := w.f.Plane(0); err != nil && w.model == balance.Labelled { // too large for tables, which labels do not need
		return w.control(controller.Config{Fabric: w.f, LinksOnly: true}, 0, events)
	}
	for q := range w.f.Planes() {
		own := slices.DeleteFunc(slices.Clone(events), func(e scenario.LinkEvent) bool {
			p, _ := w.f.LinkInPlane(e.Link)
			return p != q
		})
		if len(own) == 0 {
			continue
		}
		plane, err := w.f.Plane(q)
		if err != nil {
			return err
		}
		if err := w.control(controller.Config{Fabric: plane}, q, own); err != nil {
			return err
		}
	}
	return nil
}

// control takes over the tables, and the update with which agents start, from the controller of a plane, or of the
// whole fabric if it keeps no tables. The switches at both ends of the events' links have reported them to it.
func (w *world) control(cfg controller.Config, plane int, events []scenario.LinkEvent) error {
	cfg.Instance = "flow-" + strconv.FormatUint(w.run.Seed, 10)
	cfg.CarrierV4, cfg.CarrierV6 = w.run.Scenario.Host.Carrier.Tables()
	core, err := controller.New(cfg)
	if err != nil {
		return err
	}
	whole := cfg.LinksOnly
	for _, e := range events {
		id := e.Link
		if !whole {
			_, id = w.f.LinkInPlane(id)
		}
		l := cfg.Fabric.Link(id)
		for _, end := range []fabric.End{l.A, l.B} {
			switch {
			case cfg.Fabric.Node(end.Node).Tier == fabric.Host:
				continue
			case e.Rate > 0:
				err = core.PortRate(end.Node, end.Port, e.Rate)
			default:
				err = core.PortState(0, end.Node, end.Port, false)
			}
			if err != nil {
				return err
			}
		}
	}
	for _, d := range core.Ready().Writes {
		w.switches[int(w.f.PlaneNode(plane, d.Node))-w.f.Hosts()].write(d.Updates)
	}
	u := core.Snapshot()
	if !whole {
		for _, l := range u.GetLinks() {
			l.Link = uint32(w.f.PlaneLink(plane, fabric.LinkID(l.GetLink())))
		}
		for _, r := range u.GetRates() {
			r.Link = uint32(w.f.PlaneLink(plane, fabric.LinkID(r.GetLink())))
		}
	}
	w.known = append(w.known, u)
	return nil
}

// directions returns the directions of its link that an event concerns. Links lead up from A.
func directions(e scenario.LinkEvent) []int32 {
	up, down := int32(2*e.Link), int32(2*e.Link)+1
	switch e.Direction {
	case scenario.Upward:
		return []int32{up}
	case scenario.Downward:
		return []int32{down}
	}
	return []int32{up, down}
}
