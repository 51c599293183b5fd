package process

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/tofino"
)

// Model says where the functional model of a Tofino is, and the program that it runs.
type Model struct {
	Harness  string // the program that runs the model; empty: packets do not pass through a model
	Pipeline string // the folder with tofino.bin and context.json
}

// onModel is the program on the model of a chip, where it is wanted. The device's mu guards it.
type onModel struct {
	model  *tofino.Model
	mirror *tofino.Mirror // nil: not wanted
	failed error          // why packets are dropped
}

// openModel starts the model.
func (d *Device) openModel() error {
	if d.cfg.Model.Harness == "" {
		return nil
	}
	for _, e := range d.ports {
		if e.number > tofino.LastPort {
			return fmt.Errorf("switch: port %d (%s): the model's ports are 0 to %d", e.number, e.name, tofino.LastPort)
		}
	}
	m, err := tofino.Start(context.Background(), d.cfg.Model.Harness, d.cfg.Model.Pipeline)
	if err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	d.model = onModel{model: m, mirror: tofino.NewMirror(m)}
	d.mu.leaving = d.syncModel
	return nil
}

func (d *Device) closeModel() error {
	if d.model.model == nil {
		return nil
	}
	err := d.model.model.Close()
	d.model = onModel{}
	return err
}

// modelBy has the model's tables follow a switch's from now on.
func (d *Device) modelBy(sw *interp.Switch) {
	if d.model.mirror != nil {
		d.model.mirror.Use(sw)
		d.syncModel()
	}
}

// syncModel writes to the model what the control side has changed. After an error the model forwards nothing: its tables
// are not those that controllers read.
func (d *Device) syncModel() {
	if d.model.mirror == nil || d.model.failed != nil {
		return
	}
	if err := d.model.mirror.Sync(); err != nil {
		d.modelFailed(err)
	}
}

func (d *Device) modelFailed(err error) {
	d.model.failed = err
	d.log.Error("the model forwards no more packets", "err", err)
}

// throughModel has the model process a packet, and sends what leaves it.
func (d *Device) throughModel(number uint32, b []byte) {
	if d.model.failed != nil {
		d.stats.NoProgram++
		return
	}
	out, err := d.model.mirror.Inject(number, b)
	if err != nil {
		d.modelFailed(err)
	}
	for _, p := range out {
		e := d.egress(p.Port)
		switch {
		case e == nil && p.Port == d.cfg.CPUPort && d.cfg.CPUPort != 0:
			d.stats.PacketIn++
			data := slices.Clone(p.Data)
			d.later(func() { d.core.PacketIn(data) })
		case e == nil:
			d.stats.NoPort++
		case !e.up:
			d.stats.PortDown++
			e.drops++
		case !e.room():
			d.stats.TailDrops++
			e.drops++
		default:
			e.stage(p.Data)
		}
	}
}

// excludes says which other settings a model excludes.
func (m Model) excludes(c *Config) error {
	switch {
	case m.Harness == "":
		return nil
	case c.Kernel || c.Routes:
		return errors.New("switch: the model forwards, or the kernel; leave one of them out")
	case c.QueueRate > 0:
		return errors.New("switch: the model's queues have no rate, so no queue rate; leave one of them out")
	}
	return nil
}
