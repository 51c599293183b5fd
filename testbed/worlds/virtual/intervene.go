package virtual

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// record passes an event to the run's observers.
func (w *world) record(now fabric.Time, kind report.Kind, where, text string) {
	w.obs.Report(report.EventAt(now, kind, where, text))
}

// intervene carries out the run's events other than failures of links.
func (w *world) intervene(now fabric.Time, i scenario.Intervention) {
	switch i.Do {
	case scenario.ControllerDown:
		w.record(now, report.Kind(i.Do), "controller", "the controller ends")
		for _, c := range w.controllers {
			c.Die(now)
		}
	case scenario.ControllerUp:
		w.record(now, report.Kind(i.Do), "controller", "a controller starts that knows nothing")
		for _, c := range w.controllers {
			if err := c.Restart(now); err != nil {
				w.fail(fmt.Errorf("controller: %w", err))
			}
		}
	case scenario.AgentDown:
		w.record(now, report.Kind(i.Do), w.f.Name(i.Node), "the agent ends")
		w.hosts[i.Node].core.AgentEnded(now)
	case scenario.AgentUp:
		w.record(now, report.Kind(i.Do), w.f.Name(i.Node), "the agent is back")
		w.hosts[i.Node].restartAgent(now)
	case scenario.Pause, scenario.Resume:
		text := "its interface pauses who sends to it"
		if i.Do == scenario.Resume {
			text = "its interface pauses nobody"
		}
		w.record(now, report.Kind(i.Do), w.f.Name(i.Node), text)
		w.net.Note(i.Node, string(i.Do))
		for port := range w.f.Node(i.Node).Ports() {
			w.net.Storm(sim.Downward(w.f.Node(i.Node).Link(fabric.PortNo(port+1))), i.Do == scenario.Pause)
		}
	case scenario.Drain, scenario.Undrain:
		w.record(now, report.Kind(i.Do), w.f.LinkName(i.Link), "asked of the controller")
		q, link := w.f.LinkInPlane(i.Link)
		refused, err := w.controllers[q].Drain(now, link, i.Do == scenario.Drain)
		if err != nil {
			w.fail(err)
		}
		if refused != "" {
			w.record(now, "refused", w.f.LinkName(i.Link), refused)
		}
	default:
		w.fail(fmt.Errorf("intervention %q is unknown", i.Do))
	}
}
