package virtual

import (
	"fmt"
	"math"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
	"github.com/ethereal-fabric/ethereal/testbed/workload/bound"
)

// directions returns the directions of its link that an event concerns.
func directions(e scenario.LinkEvent) []sim.LinkDir {
	switch e.Direction {
	case scenario.Upward:
		return []sim.LinkDir{sim.Upward(e.Link)}
	case scenario.Downward:
		return []sim.LinkDir{sim.Downward(e.Link)}
	}
	return []sim.LinkDir{sim.Upward(e.Link), sim.Downward(e.Link)}
}

// linkEvent applies a scenario's event to a link. Nobody is notified yet.
func (w *world) linkEvent(now fabric.Time, e scenario.LinkEvent) {
	where, only := w.f.LinkName(e.Link), ""
	if e.Direction != scenario.BothDirections {
		only = string(e.Direction) + "ward only"
	}
	dirs := directions(e)
	switch {
	case e.Up:
		w.net.Restore(dirs...)
		for _, d := range dirs {
			w.net.Lose(d, 0, 0)
			w.net.SetRate(d, 0)
		}
		w.note(now, report.KindRestore, where, only)
		return
	case e.Loss > 0:
		for _, d := range dirs {
			w.net.Lose(d, float64(e.Loss), w.run.Seed)
		}
		w.note(now, report.KindCut, where, fmt.Sprintf("loses %v of the packets %s", e.Loss, only))
	case e.Rate > 0:
		for _, d := range dirs {
			w.net.SetRate(d, e.Rate)
		}
		w.note(now, report.KindCut, where, fmt.Sprintf("degraded to %v %s", e.Rate, only))
	default:
		w.net.Cut(dirs...)
		w.note(now, report.KindCut, where, only)
	}
	if w.firstCut < 0 {
		w.firstCut = now
	}
}

// detect notifies the switches at both ends of a link of its event; if it concerns one direction, the far end
// notifies the sender, as Ethernet's remote fault does. With time-outs as the only notifier, switches notice
// nothing, unless they are routers.
func (w *world) detect(now fabric.Time, e scenario.LinkEvent) {
	w.nicChanged(now, e)
	if e.Reported && w.run.Notifier.GNMI() {
		w.reportSpeed(now, e)
		return
	}
	_, routed := w.run.Routing()
	if e.Silent || !routed && w.run.Notifier == scenario.NotifyTimeout || w.net.IsDown(directions(e)[0]) == e.Up {
		return
	}
	l := w.f.Link(e.Link)
	w.note(now, report.KindDetect, w.f.LinkName(e.Link), upDown(e.Up))
	for _, end := range []fabric.End{l.A, l.B} {
		if int(end.Node) >= w.f.Hosts() {
			w.node(end.Node).portChanged(now, end.Port, e.Up)
		}
	}
}

// reportSpeed makes the switches at both ends of a link report its rate.
func (w *world) reportSpeed(now fabric.Time, e scenario.LinkEvent) {
	l, rate := w.f.Link(e.Link), e.Rate
	if e.Up {
		rate = l.Rate
	}
	w.note(now, report.KindDetect, w.f.LinkName(e.Link), "port speed "+fabric.SpeedName(rate))
	for _, end := range []fabric.End{l.A, l.B} {
		if int(end.Node) >= w.f.Hosts() {
			w.node(end.Node).speedChanged(now, end.Port, rate)
		}
	}
}

// initialRate returns a link's rate before time 0, as its switches report it.
func (w *world) initialRate(id fabric.LinkID) fabric.Rate {
	for _, e := range w.run.Events {
		if e.Link == id && e.Reported && w.run.KnownBefore(e) {
			return e.Rate
		}
	}
	return w.f.Link(id).Rate
}

// reportDeadLinks makes the switches of a plane report the links to its controller that are dead before time 0.
func (w *world) reportDeadLinks(c *controllerSessions) {
	for _, e := range w.run.Events {
		q, _ := w.f.LinkInPlane(e.Link)
		if q != c.plane || !e.Cuts() || !w.run.KnownBefore(e) {
			continue
		}
		l := w.f.Link(e.Link)
		for _, end := range []fabric.End{l.A, l.B} {
			if int(end.Node) >= w.f.Hosts() {
				c.Core().PortState(0, w.f.InOwnPlane(end.Node), end.Port, false)
			}
		}
	}
}

// reportsSpeeds reports whether switches report port speeds in this run.
func (w *world) reportsSpeeds() bool {
	return slices.ContainsFunc(w.run.Events, func(e scenario.LinkEvent) bool { return e.Reported })
}

// outages returns the capacity that the run's events remove from the links. A degraded link is slower from its next
// packet on. Servers of several GPUs send around a NIC's dead link.
func outages(run scenario.Run) []bound.Outage {
	var out []bound.Outage
	open, gray := map[sim.LinkDir]int{}, map[sim.LinkDir]int{} // the present outage, and loss
	end := func(open map[sim.LinkDir]int, d sim.LinkDir, at fabric.Time) {
		if i, ok := open[d]; ok {
			out[i].Until = at
			delete(open, d)
		}
	}
	for _, e := range run.Events {
		if run.Scenario.Servers.Grouped() && e.Cuts() && int(e.Link) < run.Fabric.HostLinks() {
			continue
		}
		for _, d := range directions(e) {
			if e.Loss > 0 || e.Up {
				end(gray, d, e.At)
			}
			if e.Loss > 0 {
				gray[d] = len(out)
				out = append(out, bound.Outage{Link: e.Link, Up: d.Up(), Loss: float64(e.Loss), From: e.At, Until: math.MaxInt64})
				continue
			}
			end(open, d, e.At)
			if e.Up {
				continue
			}
			from := e.At
			if e.Rate > 0 {
				from += run.Fabric.Link(e.Link).Rate.TimeFor(int64(run.Scenario.Host.Payload) + headerBytes + ipv6Bytes + rethBytes + framing(run))
			}
			open[d] = len(out)
			out = append(out, bound.Outage{Link: e.Link, Up: d.Up(), Rate: e.Rate, From: from, Until: math.MaxInt64})
		}
	}
	return out
}
