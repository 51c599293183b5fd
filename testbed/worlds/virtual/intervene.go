package virtual

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// told hands something that happened to whoever watches the run.
func (w *world) told(now fabric.Time, kind, where, text string) {
	w.obs.Recorder.Happened(now, kind, where, text)
	if w.obs.Happened != nil {
		w.obs.Happened(scenario.Happening{At: now, Kind: kind, Where: where, Text: text})
	}
}

// intervene carries out what the run asks for besides failures of links.
func (w *world) intervene(now fabric.Time, i scenario.Intervention) {
	switch i.Do {
	case scenario.ControllerDown:
		w.told(now, string(i.Do), "controller", "the controller ends")
		for _, c := range w.controllers {
			c.die(now)
		}
	case scenario.ControllerUp:
		w.told(now, string(i.Do), "controller", "a controller starts that knows nothing")
		for _, c := range w.controllers {
			if err := c.restart(now); err != nil {
				w.fail(fmt.Errorf("controller: %w", err))
			}
		}
	case scenario.AgentDown:
		w.told(now, string(i.Do), w.f.Name(i.Node), "the agent ends")
		w.hosts[i.Node].core.Leave(now)
	case scenario.AgentUp:
		w.told(now, string(i.Do), w.f.Name(i.Node), "the agent is back")
		w.hosts[i.Node].back(now)
	case scenario.Pause, scenario.Resume:
		text := "its interface pauses who sends to it"
		if i.Do == scenario.Resume {
			text = "its interface pauses nobody"
		}
		w.told(now, string(i.Do), w.f.Name(i.Node), text)
		w.net.Note(i.Node, string(i.Do))
		for port := range w.f.Node(i.Node).Ports() {
			w.net.Storm(sim.Downward(w.f.Node(i.Node).Link(fabric.PortNo(port+1))), i.Do == scenario.Pause)
		}
	case scenario.Drain, scenario.Undrain:
		w.told(now, string(i.Do), w.f.LinkName(i.Link), "asked of the controller")
		q, link := w.f.LinkInPlane(i.Link)
		if err := w.controllers[q].drain(now, link, i.Do == scenario.Drain); err != nil {
			w.fail(err)
		}
	default:
		w.fail(fmt.Errorf("intervention %q is unknown", i.Do))
	}
}

// die ends the controller. Its sessions end with it.
func (c *controllerProcess) die(now fabric.Time) {
	if c.down {
		return
	}
	c.down = true
	c.w.obs.ControllerLog.Add(eventlog.Record{Time: wall(now), Kind: "end"})
	for i := range c.sessions {
		s := &c.sessions[i]
		s.stream.Close()
		if s.ports != nil {
			s.ports.Close()
		}
	}
}

// restart starts a controller of the next life. It connects to all switches, reads
// their tables and hears of their ports.
func (c *controllerProcess) restart(now fabric.Time) error {
	if !c.down {
		return nil
	}
	c.life++
	c.down = false
	if err := c.begin(now); err != nil {
		return err
	}
	if err := c.connectAll(); err != nil {
		return err
	}
	for _, n := range c.switches() {
		c.readTables(now, c.known(n))
	}
	c.heard(now)
	return nil
}

// drain takes a link out of use, or puts it back.
func (c *controllerProcess) drain(now fabric.Time, id fabric.LinkID, drained bool) error {
	if c.down {
		c.w.told(now, "refused", c.linkName(id), "there is no controller to drain it")
		return nil
	}
	_, err := c.core.Drain(now, []fabric.LinkID{id}, drained, false)
	if errors.Is(err, rollout.ErrSevers) {
		c.w.told(now, "refused", c.linkName(id), err.Error())
		return nil
	}
	c.heard(now)
	return err
}
