package virtual

import (
	"fmt"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// told hands something that happened to whoever watches the run.
func (w *world) told(now fabric.Time, kind, where, text string) {
	if w.obs.Happened != nil {
		w.obs.Happened(scenario.Happening{At: now, Kind: kind, Where: where, Text: text})
	}
}

// intervene carries out what the run asks for besides failures of links.
func (w *world) intervene(now fabric.Time, i scenario.Intervention) {
	switch i.Do {
	case scenario.ControllerDown:
		w.told(now, string(i.Do), "controller", "the controller ends")
		w.control.die()
	case scenario.ControllerUp:
		w.told(now, string(i.Do), "controller", "a controller starts that knows nothing")
		if err := w.control.restart(now); err != nil {
			w.fail(fmt.Errorf("controller: %w", err))
		}
	case scenario.AgentDown:
		w.told(now, string(i.Do), w.f.Name(i.Node), "the agent ends")
		w.hosts[i.Node].core.Leave(now)
	case scenario.AgentUp:
		w.told(now, string(i.Do), w.f.Name(i.Node), "the agent is back")
		w.hosts[i.Node].back(now)
	case scenario.Drain, scenario.Undrain:
		w.told(now, string(i.Do), w.f.LinkName(i.Link), "asked of the controller")
		if err := w.control.drain(now, i.Link, i.Do == scenario.Drain); err != nil {
			w.fail(err)
		}
	default:
		w.fail(fmt.Errorf("intervention %q is unknown", i.Do))
	}
}

// die ends the controller. Its sessions end with it.
func (c *control) die() {
	if c.down {
		return
	}
	c.down = true
	for i := range c.sessions {
		s := &c.sessions[i]
		s.stream.Close()
		if s.ports != nil {
			s.ports.Close()
		}
	}
}

// restart starts a controller of the next life. It connects to all switches and
// waits for the states of their ports before it compares tables.
func (c *control) restart(now fabric.Time) (err error) {
	if !c.down {
		return nil
	}
	cfg, err := c.w.controllerConfig()
	if err != nil {
		return err
	}
	if c.core, err = controller.New(cfg); err != nil {
		return err
	}
	c.life++
	c.down, c.waiting, c.writing = false, nil, false
	if err := c.doubt(); err != nil {
		return err
	}
	if c.w.run.Notifier.GNMI() {
		c.recovering = len(c.w.switches)
	}
	for i, n := range c.w.switches {
		c.sessions[i] = session{}
		if err := c.connect(&c.sessions[i], n); err != nil {
			return fmt.Errorf("%s: %w", c.w.f.Name(n.id), err)
		}
	}
	if c.recovering == 0 {
		c.compare(now)
	}
	return nil
}

// recover compares the tables once the states of all ports are known.
func (c *control) recover(now fabric.Time) {
	c.recovering = 0
	for i := range c.sessions {
		if c.sessions[i].monitor.Health() != linkstate.Fresh {
			c.recovering++
		}
	}
	if c.recovering == 0 {
		c.compare(now)
	}
}

// compare reads the tables of all switches, a write's delay each way, writes what
// differs from what the links ask for, and tells the agents of all links.
func (c *control) compare(now fabric.Time) {
	life := c.life
	c.w.net.At(now+2*c.w.run.Scenario.Control.WriteDelay, func(now fabric.Time) {
		if !c.alive(life) {
			return
		}
		ready := c.core.Ready() // what it writes builds on tables that nobody has
		ready.Writes = nil
		for _, n := range c.w.switches {
			entities, err := c.read(n, c.w.lab.schema.ReadAll(deviceID(n.id), "").GetEntities()...)
			if err != nil {
				c.w.fail(err)
				return
			}
			held := p4rt.Collect(c.w.lab.schema, entities)
			if updates := controller.Diff(held.Entries, c.core.Desired(n.id)); len(updates) > 0 {
				ready.Writes = append(ready.Writes, controller.SwitchDelta{Node: n.id, Updates: updates})
			}
		}
		c.carryOut(now, ready)
	})
}

// drain takes a link out of use, or puts it back.
func (c *control) drain(now fabric.Time, id fabric.LinkID, drained bool) error {
	if c.down {
		c.w.told(now, "refused", c.w.f.LinkName(id), "there is no controller to drain it")
		return nil
	}
	if err := c.core.Drain(now, id, drained); err != nil {
		return err
	}
	c.carryOut(now, c.core.Ready())
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
