package flow

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// schedule notes when whoever moves queue pairs will know of an event: by the
// data plane, by the controller.
func (w *world) schedule(i int, e scenario.LinkEvent) {
	c, n := w.run.Scenario.Control, w.run.Notifier
	if n.Quench() && (!e.Up || w.model != balance.Labelled) {
		at := e.At + e.Detection
		if w.model == balance.Labelled {
			at += w.roundTrip() / 2
		}
		w.at(at, onTold, int32(i), 0)
	}
	if n.GNMI() {
		at := e.At + e.Detection + c.GNMIDelay + c.ComputeDelay
		if w.model == balance.Labelled {
			at += c.PushDelay
		} else {
			at += c.WriteDelay
		}
		w.at(at, onTold, int32(i), 1)
	}
}

// roundTrip is the propagation of the longest way there and back.
func (w *world) roundTrip() fabric.Time {
	s := w.f.Spec()
	one := 2 * (s.HostLink.Delay + s.ToRUplink.Delay)
	if w.f.ThreeTier() {
		one += 2 * s.AggUplink.Delay
	}
	return 2 * one
}

// told lets whoever moves queue pairs know of an event, from the controller or
// from the data plane.
func (w *world) told(e scenario.LinkEvent, controller bool) {
	if w.down[e.Link] == e.Up {
		return // it has changed again
	}
	if w.model != balance.Labelled {
		if e.Up {
			delete(w.known, e.Link)
		} else {
			w.known[e.Link] = controller
		}
		w.repaired()
		return
	}
	w.updates++
	w.epochs[e.Link]++
	u := &statepb.Update{Epoch: w.updates, Instance: "flow-level", Snapshot: true}
	for i := range w.f.Links() {
		l := fabric.LinkID(i)
		if n := w.epochs[l]; n > 0 {
			u.Links = append(u.Links, &statepb.LinkState{Link: uint32(l), Up: !w.down[l], Epoch: n})
		}
	}
	w.update = u
	for i := range w.hosts {
		if h := w.hosts[i]; h != nil {
			h.core.Update(w.clock, u)
		}
	}
}
